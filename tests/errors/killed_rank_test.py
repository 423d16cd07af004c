"""A rank that is killed ends the whole job. Earlier checkpoints are intact."""
import os
import signal
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import REFUSAL_SECONDS, needs_mpi, wait_for_steps


class KilledRank(GptTest):
    def kill_one(self, victim, **options):
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "2x1x2x1",
                         "--steps", "1000000", "--save-every", "5", ranks=4, **options)
        run = self.directory / "run"
        wait_for_steps(job, run, 17)  # the save of step 15 has waited for that of step 10
        ranks = job.ranks()
        self.assertEqual(len(ranks), 4)
        killed = time.monotonic()
        os.kill(ranks[victim], signal.SIGKILL)
        ended = job.wait(REFUSAL_SECONDS)
        self.assertLess(time.monotonic() - killed, REFUSAL_SECONDS)
        self.assertNotEqual(ended.status, 0)
        self.assertNotIn("terminate called", ended.text)

        newest = max(int(path.name[5:]) for path in run.glob("step-??????"))
        self.assertGreaterEqual(newest, 10)
        ended = self.gpt("generate", "--checkpoint", "run", "--tokens", "1")
        self.assertEqual(ended.status, 0, ended.text)
        ended = self.gpt("train", "--resume", "run", "--grid", "1x1x1x1", "--steps", newest + 2)
        self.assertEqual(ended.status, 0, ended.text)

    @needs_mpi
    def test_under_mpirun(self):
        self.kill_one(1)

    def test_over_tcp(self):
        self.kill_one(2, launcher="tcp")

    def test_rank_zero_over_tcp(self):
        self.kill_one(0, launcher="tcp")


if __name__ == "__main__":
    unittest.main()
