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

    def test_every_formula_gives_its_seconds(self):
        """With the protocol that it names; by weights, by blocks and with replicas."""
        found = set()
        for grid, more in (("4x1x4x2", ()), ("1x1x32x1", ()), ("1x1x32x1", ("--what-if", "block-messages"))):
            text, _ = self.terms(grid, "--mode", "exact", *more)
            for line in re.findall(r"^    (?:[a-z -]+) [xyz]: \d+ x \((?!by trees).*$", text, re.M):
                match = re.match(r" +([a-z -]+) [xyz]: (\d+) x \((by LL128: 16/15 x )?(2 x )?(\d+)/(\d+) x ([\d.]+) "
                                 r"([KMG]i)?B / ([\d.]+) GB/s(?: \+ ([\d.]+) us)?\) = ([\d.]+) s$", line)
                self.assertIsNotNone(match, line)
                name, count, ll128, twice, g, size, bytes_, unit, gbps, latency, seconds = match.groups()
                moved = int(g) / int(size) * float(bytes_) * 1024 ** " KMG".index((unit or " ")[0]) / float(gbps) / 1e9
                one = moved * (16 / 15 if ll128 else 1) * (2 if twice else 1) + float(latency or 0) * 1e-6
                self.assertAlmostEqual(int(count) * one, float(seconds), delta=2e-6 + 0.002 * float(seconds), msg=line)
                found.add((name, bool(ll128)))
        self.assertTrue({("all-gather", True), ("all-gather", False), ("reduce-scatter", False)} <= found, found)

    def test_of_blocks_as_messages_adds_up(self):
        flags = ("--checkpoint", "off", "--what-if", "block-messages", "--overlap", "all-gather,reduce-scatter")
        found = self.plan("explain", "1x1x32x1", *self.FLAGS, *flags)
        blocks, others = found["messages_over_z"]
        self.assertEqual((blocks["count"], others["count"]), (found["sizes"]["layers"], 1))
        self.assertEqual(sum(layer["all_gather_z"] + layer["reduce_scatter_z"] for layer in found["one_pass"]), 0)
        passes, step = found["layout"]["micro_batches"], found["layout"]["collectives"]
        for key, times in (("all_gather_z", 2), ("reduce_scatter_z", 1)):
            self.assertAlmostEqual(passes * times * (blocks[key] + others[key]) / step[key], 1)
        weights = self.plan("explain", "1x1x32x1", *self.FLAGS, *flags[:2], *flags[4:])["layout"]["collectives"]
        self.assertLess(step["all_gather_z"], weights["all_gather_z"])
        text, terms = self.terms("1x1x32x1", *flags)
        self.assertIn("  blocks, together\n    all-gather z: 32 x (", text)
        self.assertIn("the weights of a block move over z in one message", text)
        self.assertEqual([name for name, _ in terms].count("all-gather"), 2)
        self.assertNotIn("messages_over_z", self.plan("explain", "8x4x1x1", *self.FLAGS, *flags))

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
