"""The terms that explain prints add up to the numbers of the ranking."""
import re
import unittest

from planner_runs import PlannerTest


class Explain(PlannerTest):
    FLAGS = ("--model", "gpt20b", "--batch-tokens", "64k")

    def terms(self, *arguments):
        text = self.run_program("explain", *arguments, *self.FLAGS).stdout
        found = re.findall(r"^    (all-gather|reduce-scatter|forward all-reduce|backward all-reduce|all-reduce) "
                           r".* = ([\d.]+) s$", text, re.M)
        return text, [(name, float(seconds)) for name, seconds in found]

    def test_every_term_adds_up_to_the_rankings_seconds(self):
        text, terms = self.terms("2x1x16x1", "--mode", "aware")
        self.assertAlmostEqual(sum(seconds for _, seconds in terms), .7775, delta=1e-4)
        self.assertIn("communication 0.777", text)
        self.assertEqual({name for name, _ in terms},
                         {"all-gather", "reduce-scatter", "forward all-reduce", "backward all-reduce"})

    def test_formulas_are_shown_with_their_numbers(self):
        text, _ = self.terms("4x1x4x2", "--mode", "aware")
        self.assertIn("x: 4 ranks at 200.00 GB/s", text)
        self.assertIn("data: 2 ranks at 25.00 GB/s", text)
        self.assertIn("qkv, 32 times: 7168 x 21504", text)
        self.assertIn("projection, 32 times: 7168 x 7168, transposed", text)
        self.assertRegex(text, r"forward all-reduce x: 32 x \(2 x 3/4 x 112.00 MiB / 200.00 GB/s\) = 0.028\d+ s")

    def test_of_the_step_are_those_of_the_table(self):
        grid = self.plan("--gpus", "32", *self.FLAGS)["layouts"][0]
        text, _ = self.terms("x".join(map(str, grid["grid"])))
        self.assertIn(f"= {grid['seconds']:.6f} s", text)
        self.assertIn("memory of a GPU", text)

    def test_as_json_has_the_terms_and_the_layout(self):
        grid = ("--fix", "x=2,y=1,z=16")
        layout = self.plan("--gpus", "32", *self.FLAGS, *grid)["layouts"][0]
        layout.pop("rank")
        found = self.plan("explain", "2x1x16x1", *self.FLAGS)
        self.assertEqual(found["layout"], layout)
        self.assertEqual(found["rings"]["z"]["ranks"], 16)
        passes = found["layout"]["micro_batches"]
        forward = passes * sum(layer["all_reduce_backward"] for layer in found["one_pass"])
        self.assertAlmostEqual(forward / layout["collectives"]["all_reduce_backward"], 1)

    def test_of_two_grids_side_by_side(self):
        text = self.run_program("explain", "2x1x16x1", *self.FLAGS, "--against", "1x1x32x1").stdout
        row = re.search(r"^  a step +([\d.]+) s +([\d.]+) s +([+-][\d.]+) s$", text, re.M)
        mine, its, difference = map(float, row.groups())
        self.assertAlmostEqual(its - mine, difference, delta=2e-6)
        for grid, seconds in (("2x1x16x1", mine), ("1x1x32x1", its)):
            self.assertAlmostEqual(self.plan("explain", grid, *self.FLAGS)["layout"]["seconds"], seconds, delta=1e-6)
        self.refuse("explain", "2x1x16x1", *self.FLAGS, "--against", "1x1x32x1", "--json", words=["remove --json"])
        self.refuse("explain", "2x1x16x1", *self.FLAGS, "--against", "3x1x32x1", words=["heads % x"])


if __name__ == "__main__":
    unittest.main()
