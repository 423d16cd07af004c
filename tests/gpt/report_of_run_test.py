"""axonn-report on a run that gpt wrote, of several ranks and starts, also while it goes on."""
import os
import signal
import subprocess
import unittest

from gpt_runs import GptTest, TRAINING
from page_files import Page
from program_runs import metrics, needs_mpi, wait_for_steps

REPORT = os.environ["AXONN_REPORT"]


class ReportOfARun(GptTest):
    def report(self):
        return Page((self.directory / "report.html").read_text()).data

    def start_report(self, *arguments):
        return subprocess.Popen([REPORT, "run", *arguments], cwd=self.directory)

    @needs_mpi
    def test_it_has_all_that_the_run_wrote(self):
        samples = ["--tokenizer", "chars", "--sample-every", "2", "--sample-tokens", "5"]
        run = self.train("run", "--steps", "4", "--grid", "1x1x2x1", "--validate-every", "2", *samples, ranks=2)
        ended = self.gpt("train", "--resume", "run", "--steps", "6", "--grid", "2x1x1x1", ranks=2)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(self.start_report().wait(timeout=60), 0)
        found, = self.report()["runs"]
        lines = metrics(run)
        curves = found["metrics"]["curves"]
        self.assertEqual(curves["loss"]["mean"], [float(f"{line['loss']:.6g}") for line in lines])
        self.assertEqual(len(curves["validation_loss"]["mean"]), 3)
        self.assertIn("communication.all_gather.exposed_seconds", curves)
        self.assertIn("communication.all_reduce.hidden_seconds", curves)
        self.assertEqual(found["metrics"]["axes"]["terms so far"][-1], 6 * 8 * 16)
        self.assertEqual([start["environment"]["grid"] for start in found["starts"]], ["1x1x2x1", "2x1x1x1"])
        self.assertGreater(found["starts"][-1]["environment"]["predicted_memory"]["total"], 0)
        self.assertEqual([sample["step"] for sample in found["samples"]], [2, 4, 6])
        self.assertEqual((found["status"]["state"], found["problems"]), ("done", []))

    def test_it_is_renewed_until_the_run_ends(self):
        job = self.start("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "1000000")
        self.addCleanup(job.end)
        wait_for_steps(job, self.directory / "run", 5)
        with self.start_report("--watch", "--every", "1") as watching:
            while not (self.directory / "report.html").exists():
                self.assertIsNone(watching.poll())
            self.assertIsNotNone(self.report()["renewed_every"])
            job.signal(signal.SIGUSR1)
            self.assertEqual(job.wait(60).status, 0)
            self.assertEqual(watching.wait(timeout=60), 0)
        data = self.report()
        self.assertEqual((data["renewed_every"], data["runs"][0]["status"]["state"]), (None, "stopped"))
        self.assertEqual(data["runs"][0]["steps"], len(metrics(self.directory / "run")))


if __name__ == "__main__":
    unittest.main()
