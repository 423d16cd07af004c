"""`--ranks N` starts the ranks of a job on this machine."""
import os
import signal
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import REFUSAL_SECONDS, metrics, needs_mpi, wait_for_steps


class LocalRanks(GptTest):
    def start_long(self):
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "2x1x2x1",
                         "--steps", "1000000", ranks=4, launcher="ranks")
        wait_for_steps(job, self.directory / "run", 3)
        ranks = [pid for pid in job.ranks() if pid != job.processes[0].pid]
        self.assertEqual(len(ranks), 4)
        return job, ranks

    @needs_mpi
    def test_the_losses_are_those_under_mpirun(self):
        runs = [self.train(launcher, "--grid", "2x1x2x1", "--steps", "4", ranks=4, launcher=launcher)
                for launcher in ("ranks", "mpi")]
        losses = [[line["loss"] for line in metrics(run)] for run in runs]
        self.assertEqual(len(losses[0]), 4)
        self.assertEqual(*losses)

    def test_a_signal_ends_the_run_in_order(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(number.name):
                self.setUp()
                job, _ = self.start_long()
                job.signal(number)
                ended = job.wait(REFUSAL_SECONDS)
                self.assertEqual(ended.status, 0, ended.text)
                steps = len(metrics(self.directory / "run"))
                self.assertTrue((self.directory / "run" / f"step-{steps:06}").is_dir(), ended.text)

    def test_a_killed_rank_ends_the_job(self):
        job, ranks = self.start_long()
        os.kill(ranks[1], signal.SIGKILL)
        self.assertNotEqual(job.wait(REFUSAL_SECONDS).status, 0)

    def test_a_killed_starter_ends_the_ranks(self):
        job, _ = self.start_long()
        os.kill(job.processes[0].pid, signal.SIGKILL)
        job.wait(REFUSAL_SECONDS)  # fails if a rank is left

    def test_wrong_numbers_are_refused(self):
        common = ["train", "--data", self.text, "--out", "run", *TRAINING]
        self.refuse(*common, "--ranks", "0", words=["--ranks must be in 1 .. 64, got 0"])
        self.refuse(*common, "--ranks", "2", "--grid", "2x1x2x1", words=["2x1x2x1", "4", "2"])
        self.refuse(*common, "--grid", "1x1x2x1", words=["needs 2 ranks", "--ranks 2"])

    @needs_mpi
    def test_a_launcher_and_ranks_are_refused(self):
        self.refuse("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "2x1x1x1", "--ranks", "2",
                    ranks=2, words=["leave --ranks out"])


if __name__ == "__main__":
    unittest.main()
