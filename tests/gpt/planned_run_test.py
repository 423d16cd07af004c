"""The planner's choices for a run: `--grid auto` and `--reduction auto`."""
import json
import re
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import metrics, needs_mpi

# Boards of two GPUs with one slow link between the boards.
TWO_BOARDS = """
name = "two boards"
[gpu]
name = "core"
memory_gib = 8
memory_bandwidth_gbps = 10
bf16_tflops = 0.1
fp32_tflops = 0.1
fp64_tflops = 0.05
[[level]]
name = "board"
size = 2
bandwidth_gbps = 25
latency_us = 1
[[level]]
name = "network"
bandwidth_gbps = 0.1
latency_us = 5
"""
THROUGH_BOARDS = "reduce-scatter:0+1,2+3/all-reduce:0+2,1+3/all-gather:0+1,2+3"


def configuration(run):
    kept = json.loads((run / "step-000003" / "manifest.json").read_text())["configuration"]
    return json.loads(kept) if isinstance(kept, str) else kept


class PlannedRun(GptTest):
    @needs_mpi
    def test_grid_auto_takes_and_keeps_the_planners_best(self):
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "3", "--grid", "auto",
                         "--machine", "workstation", ranks=4)
        self.assertEqual(ended.status, 0, ended.text)
        chosen = re.search(r"^grid (\d+)x(\d+)x(\d+)x(\d+), order ([xyzd]{4}): the planner's best for machine "
                           r"workstation, [\d.e-]+ s per step", ended.out, re.M)
        self.assertTrue(chosen, ended.out)
        x, y, z, data = map(int, chosen.groups()[:4])
        self.assertEqual(x * y * z * data, 4)
        self.assertEqual(configuration(self.directory / "run")["run"]["grid"], f"{x}x{y}x{z}x{data}")
        self.assertEqual(len(metrics(self.directory / "run")), 3)

    @needs_mpi
    def test_grid_auto_takes_the_planners_context(self):
        """Two sequences for four ranks: they are divided, as a rank of its own has none."""
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--batch", "2", "--steps", "3",
                         "--layers", "1", "--heads", "1", "--hidden", "15", "--grid", "auto", "--context", "0",
                         "--machine", "workstation", ranks=4)
        self.assertEqual(ended.status, 0, ended.text)
        kept = configuration(self.directory / "run")
        context, grid = kept["overlap"]["context"], list(map(int, kept["run"]["grid"].split("x")))
        self.assertEqual((grid[2] % context, context > 1), (0, True), kept)
        self.assertIn(f", context {context}: the planner's best", ended.out)

    @needs_mpi
    def test_gradients_are_summed_by_a_program_as_by_a_ring(self):
        (self.directory / "boards.toml").write_text(TWO_BOARDS)
        run = ["--steps", "3", "--dtype", "fp64", "--grid", "1x1x1x4"]
        ring = metrics(self.train("ring", *run, ranks=4))
        given = metrics(self.train("given", *run, "--reduction", THROUGH_BOARDS, ranks=4))
        chosen = metrics(self.train("chosen", *run, "--reduction", "auto", "--machine", "boards.toml", ranks=4))
        self.assertEqual(configuration(self.directory / "chosen")["overlap"]["reduction"], THROUGH_BOARDS)
        for plain, one, other in zip(ring, given, chosen, strict=True):
            self.assertAlmostEqual(plain["loss"] / one["loss"], 1, delta=1e-12)
            self.assertAlmostEqual(plain["gradient_norm"] / one["gradient_norm"], 1, delta=1e-12)
            self.assertEqual(one["loss"], other["loss"])

    @needs_mpi
    def test_scattered_over_z_by_a_program_as_by_a_ring(self):
        (self.directory / "boards.toml").write_text(TWO_BOARDS)
        run = ["--steps", "3", "--dtype", "fp64", "--grid", "1x1x4x1"]
        ring = metrics(self.train("ring", *run, ranks=4))
        chosen = metrics(self.train("chosen", *run, "--reduction", "auto", "--machine", "boards.toml", ranks=4))
        self.assertIn("reduce-scatter:0+1,2+3/reduce-scatter:0+2,1+3",
                      configuration(self.directory / "chosen")["overlap"]["reduction"].split(";"))
        for plain, one in zip(ring, chosen, strict=True):
            self.assertAlmostEqual(plain["loss"] / one["loss"], 1, delta=1e-12)
            self.assertAlmostEqual(plain["gradient_norm"] / one["gradient_norm"], 1, delta=1e-12)

    @needs_mpi
    def test_a_program_is_for_its_grid(self):
        run = self.train("run", "--steps", "3", "--grid", "1x1x1x4", "--reduction", THROUGH_BOARDS, ranks=4)
        onto_two = ["train", "--resume", run, "--out", "two", "--steps", "4", "--grid", "1x1x1x2"]
        refused = self.gpt(*onto_two, ranks=2)
        self.assertNotEqual(refused.status, 0)
        for words in "grid 1x1x1x2", "names rank 2, this job has 2", "(reduction 'ring' is for any grid)":
            self.assertIn(words, refused.text)
        ended = self.gpt(*onto_two, "--reduction", "ring", ranks=2)
        self.assertEqual(ended.status, 0, ended.text)

    @needs_mpi
    def test_a_program_beside_grid_auto_is_held_against_the_grid_that_is_chosen(self):
        auto = ["train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "1", "--grid", "auto",
                "--machine", "workstation"]
        ended = self.gpt(*auto, "--reduction", "all-reduce:0+1", ranks=2)
        self.assertNotIn("1x1x1x1", ended.text)
        self.assertTrue(ended.status == 0 or re.search(r"does not sum gradients on grid \d", ended.text), ended.text)

    def test_what_the_planner_needs_is_said(self):
        run = ["train", "--data", self.text.name, "--out", "run", *TRAINING]
        self.refuse(*run, "--grid", "auto", words=["--grid auto needs --machine", "axonn-config calibrate"])
        self.refuse(*run, "--grid", "auto", "--machine", "perlmuter", words=["perlmuter", "perlmutter"])
        self.refuse(*run, "--grid", "auto", "--dry-run",
                    words=["--grid auto is chosen for the ranks of a job", "axonn-config"])
        self.refuse(*run, "--grid", "1x1x1x1", "--context", "0", words=["--context 0 is for --grid auto"])
        self.refuse(*run, "--reduction", "auto", words=["--reduction auto needs --machine"])
        self.refuse(*run, "--reduction", "all-reduc:0", words=["did you mean 'all-reduce'?"])


if __name__ == "__main__":
    unittest.main()
