"""A job that was stopped for any time (SIGSTOP, scontrol suspend) can be continued."""
import os
import signal
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import steps_done, wait_for_steps

PATIENCE = 2  # time limit of a collective, in seconds


class SuspendedJob(GptTest):
    def test_goes_on(self):
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "1x2x1x1",
                         "--steps", "1000000", ranks=2,
                         launcher="tcp", environment={"AXONN_TIMEOUT_SECONDS": str(PATIENCE)})
        run = self.directory / "run"
        wait_for_steps(job, run, 5)
        ranks = job.ranks()
        self.assertEqual(len(ranks), 2)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
            time.sleep(0.2)  # by now the second rank waits for the first
        time.sleep(2 * PATIENCE)
        before = steps_done(run)
        for rank in reversed(ranks):
            os.kill(rank, signal.SIGCONT)
        wait_for_steps(job, run, before + 5)
        job.signal(signal.SIGINT)
        ended = job.wait(60)
        self.assertEqual(ended.status, 0, ended.text)


if __name__ == "__main__":
    unittest.main()
