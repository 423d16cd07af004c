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


if __name__ == "__main__":
    unittest.main()
