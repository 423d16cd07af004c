"""Ranks measure their machine. The planner ranks grids with the file that they write."""
import os
import shutil
import subprocess
import tomllib
import unittest

from planner_runs import PROGRAM, PlannerTest


class Calibrate(PlannerTest):
    def calibrate(self, ranks, *arguments, status=0):
        command = [os.environ["AXONN_MPIRUN"], "-n", str(ranks), PROGRAM, "calibrate", *arguments]
        ended = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=100)
        self.assertEqual(ended.returncode, status, ended.stderr)
        return ended.stderr

    def test_measures_every_group_shape_and_the_planner_reads_it(self):
        text = self.calibrate(4, "--out", "mine.toml", "--name", "mine", "--bytes", "256k", "--repetitions", "2")
        self.assertIn("axonn-calibrate: 4 ranks, 4 per node", text)
        self.assertRegex(text, r"groups of 2 ranks, 2 apart, 2 at once: [\d.e+-]+ GB/s, [\d.]+ us a hop")
        measured = tomllib.loads((self.directory / "mine.toml").read_text())
        self.assertEqual([(row["inner"], row["size"]) for row in measured["measured"]], [(1, 2), (1, 4), (2, 2)])
        self.assertEqual([(level["name"], level["size"]) for level in measured["level"]], [("node", 4)])
        self.assertEqual(measured["level"][0]["bandwidth_gbps"], measured["measured"][1]["gbps"])
        self.assertTrue(all(measured["gpu"][key] > 0 for key in ("fp32_tflops", "fp64_tflops")))
        for flags in (["--mode", "measured"], ["--mode", "exact"]):
            found = self.plan("--machine", "mine.toml", "--gpus", "4", "--model", "gpt-tiny", "--batch", "64",
                              "--precision", "fp32", *flags)
            self.assertEqual((found["machine"], found["considered"], len(found["layouts"])), ("mine", 10, 10))
            self.assertTrue(all(layout["seconds"] > 0 for layout in found["layouts"]))

    def test_keeps_the_data_sheet_of_its_base(self):
        self.calibrate(2, "--out", "mine.toml", "--base", "dgx-h100", "--bytes", "64k", "--repetitions", "1")
        measured = tomllib.loads((self.directory / "mine.toml").read_text())
        self.assertEqual((measured["gpu"]["bf16_tflops"], measured["gpu"]["memory_gib"]), (989, 80))
        self.assertLess(measured["gpu"]["gemm_efficiency"], 0.1)
        self.assertEqual(measured["level"][0]["size"], 2)

    def test_says_how_it_is_started(self):
        def refuse(*arguments, program=PROGRAM, words):
            ended = subprocess.run([program, "calibrate", *arguments], cwd=self.directory, capture_output=True,
                                   text=True, timeout=60)
            self.assertEqual(ended.returncode, 2)
            self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
            self.assertIn(words, ended.stderr)

        refuse(words="one rank by itself has no links to measure; start as many ranks as the machine runs: "
               "mpirun -n RANKS axonn-config calibrate")
        refuse("--device", "tpu", words="--device is cpu or cuda, got 'tpu'")
        refuse("--device", "cuda", words="--base dgx-h100")
        refuse("--byte", "1M", words="unknown flag '--byte'; did you mean '--bytes'?")
        alone = shutil.copy(PROGRAM, self.directory)
        refuse(program=alone, words="build it with the trainer")


if __name__ == "__main__":
    unittest.main()
