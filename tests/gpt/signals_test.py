"""Signals that come while products are computed neither end the run at once nor change a number."""
import os
import signal
import subprocess
import time

from gpt_runs import GptTest
from program_runs import PROGRAM, RUN_SECONDS, losses, tensors

# Its products are oneDNN's, and a step takes some seconds, so that hundreds of signals come within
# one.
LONG_STEPS = ["--gemm", "onednn", "--layers", "6", "--hidden", "256", "--heads", "8", "--sequence", "256", "--batch",
              "32", "--steps", "9", "--warmup", "2", "--validate-every", "0", "--save-every", "0"]


class Signals(GptTest):
    def stop(self, out, often):
        """Ends a run in its first step by a signal, which comes once or again and again."""
        log = self.directory / f"{out}.txt"
        with log.open("w") as output:
            process = subprocess.Popen([PROGRAM, "train", "--data", self.text.name, *LONG_STEPS, "--out", out],
                                       cwd=self.directory, stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(process.kill)
        begin, sent = time.monotonic(), 0
        while process.poll() is None and time.monotonic() - begin < RUN_SECONDS:
            if "learning rate" in log.read_text() and (often or sent == 0):  # it is about to train
                os.kill(process.pid, signal.SIGHUP)
                sent += 1
            time.sleep(0.0003)
        self.assertEqual(process.poll(), 0, log.read_text())
        self.assertIn("stopped early: step 1,", log.read_text())
        return sent

    def test_signals_within_products_change_no_bit(self):
        self.text.write_text(self.text.read_text() * 3)
        self.assertEqual(self.stop("once", often=False), 1)
        self.assertGreater(self.stop("often", often=True), 200)
        once, often = (self.directory / name for name in ("once", "often"))
        self.assertEqual(losses(often), losses(once))
        self.assertEqual(tensors(often, 1), tensors(once, 1))
