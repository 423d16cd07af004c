"""The printed script places the ranks as planned. Trainer and planner read its configuration."""
import json
import re
import subprocess
import tomllib
import unittest

from planner_runs import PlannerTest


class Launch(PlannerTest):
    def script(self, grid, *arguments):
        text = self.run_program("launch", grid, *arguments).stdout
        self.write("run.sh", text)
        self.assertEqual(subprocess.run(["bash", "-n", "run.sh"], cwd=self.directory).returncode, 0)
        return text, tomllib.loads(re.search(r"<<'TOML'\n(.*?)\nTOML\n", text, re.S)[1])

    def test_configuration_is_the_layout(self):
        text, config = self.script("2x1x16x1", "--model", "gpt20b", "--batch-tokens", "64k", "--machine", "dgx-a100")
        layout = next(one for one in self.plan("--gpus", "32", "--model", "gpt20b", "--batch-tokens", "64k",
                                               "--machine", "dgx-a100", "--top", "100")["layouts"]
                      if one["grid"] == [2, 1, 16, 1])
        self.assertEqual(config["run"]["grid"], "2x1x16x1")
        self.assertEqual(config["train"]["batch"], 32)
        self.assertEqual(config["train"]["micro_batch"], layout["micro_batch"])
        self.assertEqual(config["model"]["hidden"], 7168)
        self.assertIn("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n", text)
        self.write("back.toml", re.search(r"<<'TOML'\n(.*?)\nTOML\n", text, re.S)[1])
        again = self.plan("--gpus", "32", "--model", "back.toml", "--batch-tokens", "64k", "--machine", "dgx-a100",
                          "--fix", "x=2,y=1,z=16,data=1")
        self.assertAlmostEqual(again["layouts"][0]["seconds"], layout["seconds"])

    def test_unets_configuration_is_read_back(self):
        flags = ("--model", "unet1b", "--batch", "2k", "--learned-variance")
        _, config = self.script("4x1x8x1", *flags)
        self.assertEqual(config["diffusion"]["loss"], "hybrid")
        self.assertNotIn("channels", config["model"])  # no key of `unet`
        self.write("back.toml", "\n".join(f"[{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}"
                                                                    for key, value in section.items())
                                          for name, section in config.items()))
        seconds = [self.plan("--gpus", "32", "--batch", "2k", "--fix", "x=4,z=8",
                             "--model", model)["layouts"][0]["seconds"]
                   for model in ("back.toml", "unet1b")]
        self.assertAlmostEqual(seconds[0] / seconds[1], 1, delta=1e-3)  # only the last convolution differs

    def test_configuration_says_whether_rows_are_divided(self):
        job = ("2x4x2x1", "--model", "gpt5b", "--machine", "dgx-h100", "--sequence", "65536", "--batch", "16")
        self.assertNotIn("attention_rows", self.script(*job)[1]["overlap"])
        self.assertEqual(self.script(*job, "--attention-rows", "on")[1]["overlap"]["attention_rows"], "on")
        self.assertNotIn("norm_rows", self.script(*job)[1]["overlap"])
        self.assertEqual(self.script(*job, "--norm-rows", "on")[1]["overlap"]["norm_rows"], "on")
        self.assertNotIn("context", self.script(*job)[1]["overlap"])
        self.assertEqual(self.script(*job, "--context", "2")[1]["overlap"]["context"], 2)

    def test_order_puts_z_inside_a_node(self):
        flags = ("--model", "gpt20b", "--batch-tokens", "64k", "--mode", "exact", "--coefficients", "paper")
        text, config = self.script("2x1x16x1", *flags)
        self.assertEqual(config["run"]["order"][0], "z")
        self.assertNotIn("nodes=(", text)

    def test_ranks_are_mapped_where_no_order_will_do(self):
        layouts = self.plan("--gpus", "32", "--model", "gpt20b", "--batch-tokens", "64k", "--top", "100",
                            "--fix", "x=4,z=8")["layouts"]
        flags = ("--model", "gpt20b", "--batch-tokens", "64k", "--mode", "exact", "--coefficients", "paper")
        text, config = self.script("4x1x8x1", *flags)  # a node has x2 z2
        self.assertTrue(layouts)
        self.assertEqual(config["run"]["order"], "xyzd")
        nodes = [int(node) for node in re.search(r"nodes=\((.*?)\)", text, re.S)[1].split()]
        self.assertEqual(sorted(nodes), [node for node in range(8) for _ in range(4)])
        self.assertEqual(nodes[:8], [0, 0, 1, 1, 0, 0, 1, 1])  # ranks of z0 and z1, x in pairs
        self.assertIn("--distribution=arbitrary", text)
        mpi, _ = self.script("4x1x8x1", *flags, "--launcher", "mpirun")
        self.assertIn("--rankfile ranks.txt", mpi)


if __name__ == "__main__":
    unittest.main()
