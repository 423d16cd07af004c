"""Reduction programs: the paper's counts, and the same seconds in simulate and synthesize."""
import json
import unittest

from planner_runs import PlannerTest


class Reduction(PlannerTest):
    def json(self, *arguments):
        return json.loads(self.run_program(*arguments, "--json").stdout)

    def test_programs_are_as_many_as_the_papers(self):
        for matrix, limit, count in (("16", 4, 3), ("2x16", 4, 47), ("2x2", 3, 25)):
            machine = ("--machine", "dgx-a100")
            self.assertEqual(
                self.json("synthesize", matrix, "--synth", "paper", "--limit", limit, *machine)["considered"], count)

    def test_programs_simulate_to_the_seconds_they_are_ranked_by(self):
        found = self.json("synthesize", "2x1,1x4", "--reduce", "0", "--top", "3")
        for one in found["programs"]:
            again = self.json("simulate", "2x1,1x4", "--reduce", "0", "--program", one["program"])
            self.assertAlmostEqual(again["seconds"], one["seconds"])
        self.assertAlmostEqual(self.json("simulate", "2x1,1x4", "--reduce", "0")["seconds"],
                               found["all_reduce_seconds"])

    def test_the_best_program_uses_the_node_first(self):
        found = self.json("synthesize", "[[2 2] [2 2]]", "--reduce", "0")
        self.assertGreater(found["programs"][0]["speedup"], 1.2)
        self.assertEqual(sorted(one["seconds"] for one in found["programs"]),
                         [one["seconds"] for one in found["programs"]])

    def test_may_first_copy_its_input(self):
        # 2^30 bytes, read and written at the A100's 1555 GB/s.
        plain, copied = (self.json("simulate", "1x4", *flags) for flags in ((), ("--copy",)))
        self.assertAlmostEqual(copied["seconds"] - plain["seconds"], 2 * 2**30 / 1555e9)
        self.assertAlmostEqual(copied["copy_seconds"], 2 * 2**30 / 1555e9)
        self.assertIn("  copy: 0.001381 s\n", self.run_program("simulate", "1x4", "--copy").stdout)

    def test_of_many_gpus_is_found(self):
        self.assertEqual(self.json("synthesize", "[[4096 4]]", "--top", "1")["considered"], 71)

    def test_for_people_is_a_table(self):
        self.assertIn("speedup  program", self.run_program("synthesize", "2x4").stdout)
        self.assertIn("all-reduce on 4 groups of 2", self.run_program("simulate", "2x1,1x4", "--reduce", "0").stdout)

    def test_what_is_wrong_is_one_sentence(self):
        self.refuse("synthesize", "2y4", words=["a parallelism matrix is", "'2y4'"])
        self.refuse("synthesize", "2x2x2", words=["has 3 levels, machine perlmutter has 2"])
        self.refuse("synthesize", "2x4", "--reduce", "5", words=["axonn-config: "])
        self.refuse("synthesize", "2x4", "--synth", "papr", words=["full, paper", "did you mean 'paper'?"])
        self.refuse("synthesize", "2x4", "--limit", "99", words=["--limit"])
        self.refuse("simulate", "2x4", "--program", "all-reduc:0-7", words=["all-reduc"])
        self.refuse("simulate", "2x4", "--program", "all-reduce:0-9", words=["axonn-config: "])
        self.refuse("simulate", "2x4", "--bytes", "lots", words=["--bytes", "'lots'"])


if __name__ == "__main__":
    unittest.main()
