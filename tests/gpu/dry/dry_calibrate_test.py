"""axonn-calibrate on ranks that share a GPU."""
import unittest

import program_runs
from dry_gpu import DryTest, environment


class DryCalibrateTest(DryTest):
    def test_two_ranks_on_one_gpu(self):
        job = environment(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(program_runs.free_port()))
        ended = self.run_program("--device", "cuda", "--base", "dgx-h100", "--bytes", "4k", "--repetitions", 1,
                                 "--out", "machine.toml", ranks=2, environment=job,
                                 launcher=lambda rank: {"RANK": str(rank), "LOCAL_RANK": str(rank),
                                                        "NCCL_HOSTID": f"r{rank}"})
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("[[measured]]", (self.directory / "machine.toml").read_text())


if __name__ == "__main__":
    unittest.main()
