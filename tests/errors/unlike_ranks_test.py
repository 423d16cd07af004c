"""Ranks of one job that were started with other options or settings than rank 0."""
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import free_port, refusal_seconds


class UnlikeRanks(GptTest):
    def train_unlike(self, rank_1, *common, ranks=2):
        """Rank 1 has the options `rank_1` too. The job must be refused."""
        training = ["train", "--data", str(self.text), "--out", "run", *TRAINING, *common]
        before = self.files()
        ended = self.run_program(lambda rank: training + (rank_1 if rank == 1 else []), ranks=ranks, launcher="tcp",
                                 seconds=refusal_seconds())
        self.assertEqual(self.files(), before)
        return ended

    def test_another_option(self):
        ended = self.train_unlike(["--learning-rate", "0.02"], "--grid", "1x1x2x1")
        self.assert_refused(ended, "rank 1 has --learning-rate 0.02 and rank 0 has 0.01; start all ranks with the same")

    def test_another_grid(self):
        ended = self.train_unlike(["--grid", "2x1x1x2"], "--grid", "2x2x1x1", ranks=4)
        self.assert_refused(ended, "rank 1 has --grid 2x1x1x2 and rank 0 has 2x2x1x1")

    def test_another_file_on_its_host(self):
        for name, steps in (("of_0.toml", 5), ("of_1.toml", 6)):
            (self.directory / name).write_text(f"[train]\nsteps = {steps}\n")
        training = ["train", "--data", str(self.text), "--out", "run", *TRAINING, "--grid", "1x1x2x1"]
        ended = self.run_program(lambda rank: training + ["--config", f"of_{rank}.toml"], ranks=2, launcher="tcp",
                                 seconds=refusal_seconds())
        self.assert_refused(ended, "rank 1 has --steps 6 and rank 0 has 5")

    def test_only_one_rank_resumes(self):
        ended = self.train_unlike(["--resume", "auto"], "--grid", "1x1x2x1")
        self.assert_refused(ended, "rank 1 has --resume = auto and rank 0 has nothing")

    def test_shared_memory_of_some(self):
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ended = self.run_program("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "1x1x2x1", ranks=2,
                                 launcher=lambda rank: place | {"RANK": str(rank), "AXONN_SHARED_MEMORY": str(rank)},
                                 seconds=refusal_seconds())
        self.assertNotEqual(ended.status, 0)
        self.assertIn("rank 1 has AXONN_SHARED_MEMORY = 1 and rank 0 has 0; give all ranks the same", ended.err)
        self.assertFalse((self.directory / "run").exists())


if __name__ == "__main__":
    unittest.main()
