"""`--ranks N` starts the ranks of a job on this machine."""
import os
import pathlib
import signal
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import (NIGHT, REFUSAL_SECONDS, RUN_SECONDS, losses, metrics, needs_mpi, nightly, steps_done,
                          tensors, wait_for_steps)


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
        """Every day those that a terminal and a cluster send; resume_test.py sends all to one rank."""
        for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR1, signal.SIGHUP] if NIGHT else [])):
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

    def start_restarted(self, *arguments):
        return self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "2x1x2x1", "--resume",
                          "auto", *arguments, ranks=4, launcher="ranks")

    def kill_one(self, job, condition):
        """As soon as the condition holds, once the job has its four ranks."""
        starter = job.processes[0].pid
        ranks = lambda: [pid for pid in job.ranks() if pid != starter]
        deadline = time.monotonic() + RUN_SECONDS
        while not (len(ranks()) == 4 and condition()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        killed = ranks()
        os.kill(killed[2], signal.SIGKILL)
        while set(ranks()) & set(killed):
            time.sleep(0.01)

    def newest(self):
        return max((path.name for path in (self.directory / "run").glob("step-??????")), default="")

    def test_a_restart_goes_on_to_the_same_bits(self):
        more = ["--steps", "120", "--save-every", "10"]
        job = self.start_restarted(*more, "--max-restarts", "2")
        self.kill_one(job, lambda: self.newest() != "")
        reached = self.newest()
        self.kill_one(job, lambda: self.newest() > reached)
        ended = job.wait(RUN_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        for number in (1, 2):
            self.assertRegex(ended.err, f"rank 2 died of signal 9 .Killed.: restart {number} of 2, from .*step-0")
        whole = self.train("whole", "--grid", "2x1x2x1", *more, ranks=4, launcher="ranks")
        self.assertEqual(losses(self.directory / "run"), losses(whole))
        self.assertTrue(tensors(whole, 120))
        self.assertTrue(tensors(self.directory / "run", 120) == tensors(whole, 120))

    @nightly
    def test_restarts_end_when_they_are_used_up_or_reach_nothing(self):
        job = self.start_restarted("--steps", "1000000", "--save-every", "20", "--max-restarts", "1")
        self.kill_one(job, lambda: self.newest() != "")
        reached = self.newest()
        self.kill_one(job, lambda: self.newest() > reached)
        ended = job.wait(REFUSAL_SECONDS)
        self.assertNotEqual(ended.status, 0)
        self.assertIn("the job has been started again 1 times (--max-restarts)", ended.err)

        self.setUp()
        metrics_file = self.directory / "run" / "metrics.jsonl"
        job = self.start_restarted("--steps", "1000000", "--max-restarts", "9")
        self.kill_one(job, lambda: steps_done(metrics_file.parent) > 0)
        self.kill_one(job, lambda: metrics_file.exists() and metrics_file.with_suffix(".jsonl.1").exists())
        ended = job.wait(REFUSAL_SECONDS)
        self.assertNotEqual(ended.status, 0)
        self.assertIn("restart 1 of 9, from the beginning", ended.err)
        self.assertIn("again without a new checkpoint: no restart", ended.err)

    def test_an_error_and_a_signal_of_the_user_are_no_reason_to_restart(self):
        common = ["train", "--data", self.text, "--out", "run", *TRAINING, "--steps", "1000000"]
        again = ["--max-restarts", "3", "--resume", "auto"]
        ended = self.refuse(*common, "--ranks", "2", "--grid", "2x1x2x1", *again, words=["2x1x2x1", "4", "2"])
        self.assertNotIn("restart", ended.err)
        job = self.start_restarted("--steps", "1000000", "--max-restarts", "3")
        wait_for_steps(job, self.directory / "run", 3)
        job.signal(signal.SIGTERM)
        ended = job.wait(REFUSAL_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertNotIn("restart", ended.err)
        self.refuse(*common, "--ranks", "2", "--grid", "2x1x1x1", "--max-restarts", "1",
                    words=["--max-restarts needs --resume auto"])
        self.refuse(*common, "--grid", "1x1x1x1", *again, words=["--max-restarts needs --ranks N"])

    def test_ctrl_z_stops_all_ranks_until_the_job_goes_on(self):
        job, ranks = self.start_long()
        state = lambda pid: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        job.signal(signal.SIGTSTP)
        deadline = time.monotonic() + 10
        while any(state(pid) != "T" for pid in job.ranks()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        before = len(metrics(self.directory / "run"))
        job.signal(signal.SIGCONT)
        wait_for_steps(job, self.directory / "run", before + 5)
        job.signal(signal.SIGINT)
        self.assertEqual(job.wait(REFUSAL_SECONDS).status, 0)

    @needs_mpi
    def test_a_launcher_and_ranks_are_refused(self):
        self.refuse("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "2x1x1x1", "--ranks", "2",
                    ranks=2, words=["leave --ranks out"])


if __name__ == "__main__":
    unittest.main()
