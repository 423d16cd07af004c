"""A list or a range of GPU counts: the best layout of each, and where more GPUs stop paying."""
import csv
import io
import unittest
import xml.etree.ElementTree

from planner_runs import PlannerTest

JOB = ("--model", "gpt5b", "--machine", "dgx-a100")


class Scaling(PlannerTest):
    def test_is_the_best_layout_of_every_count(self):
        found = self.plan("--gpus", "8..4096", *JOB)
        self.assertEqual([row["gpus"] for row in found["counts"]], [8 << i for i in range(10)])
        self.assertEqual(found["sizes"]["layers"], 24)
        for row in found["counts"][1:4]:
            alone = self.plan("--gpus", row["gpus"], *JOB, "--top", "1")["layouts"][0]
            self.assertEqual(alone.pop("rank"), 1)
            self.assertEqual(row["layout"], alone)

    def test_efficiency_and_cost_are_those_of_the_speeds(self):
        found = self.plan("--gpus", "16,64,256", *JOB)
        first = found["counts"][0]["layout"]["tokens_per_second"] / 16
        for row in found["counts"]:
            each = row["layout"]["tokens_per_second"] / row["gpus"]
            self.assertAlmostEqual(row["efficiency"], each / first)
            self.assertAlmostEqual(row["gpu_hours_per_billion"], 1e9 / each / 3600)
            self.assertAlmostEqual(row["dollars_per_billion"], row["gpu_hours_per_billion"] * 1.8)

    def test_names_the_last_count_that_pays(self):
        counts = self.plan("--gpus", "8..4096", *JOB)
        last = [row["gpus"] for row in counts["counts"] if row["efficiency"] >= 0.8][-1]
        self.assertEqual(counts["knee"], last)
        self.assertLess(last, 4096)
        self.assertEqual(self.plan("--gpus", "8..4096", *JOB, "--knee", "0.01")["knee"], 4096)
        text = self.run_program("--gpus", "8..4096", *JOB).stdout
        self.assertIn(f"knee: up to {last} GPUs keep 80% of the first count's speed per GPU", text)
        self.assertIn(f"next: axonn-config --gpus {last} --model gpt5b --machine dgx-a100\n", text)

    def test_says_why_a_count_has_no_layout(self):
        found = self.plan("--gpus", "4..64", "--model", "gpt20b", "--machine", "dgx-a100")
        self.assertEqual(found["counts"][0]["gpus"], 4)
        self.assertIn("no grid of 4 GPUs fits gpt20b", found["counts"][0]["reason"])
        self.assertAlmostEqual(next(row for row in found["counts"] if "layout" in row)["efficiency"], 1)
        odd = self.plan("--gpus", "30,32", *JOB)["counts"][0]
        self.assertIn("30 GPUs do not fill units of 8", odd["reason"])
        self.refuse("--gpus", "4,8", "--model", "gpt80b",
                    words=["no count of GPUs has a layout; with 4: no grid of 4 GPUs fits gpt80b"])

    def test_is_printed_as_csv_and_drawn(self):
        text = self.run_program("--gpus", "8..128", *JOB, "--csv", "--plot", "out.svg").stdout
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([row["gpus"] for row in rows], ["8", "16", "32", "64", "128"])
        self.assertAlmostEqual(float(rows[0]["efficiency"]), 1)
        svg = xml.etree.ElementTree.parse(self.directory / "out.svg").getroot()
        self.assertEqual(sum(one.tag.endswith("circle") for one in svg), 5)
        words = [one.text for one in svg if one.tag.endswith("text")]
        self.assertIn("128", words)
        self.assertIn("GPUs (A100)", words)

    def test_mistakes_are_one_sentence(self):
        for counts, words in (("8..7", "--gpus takes a range that ascends, such as 8..4096, got '8..7'"),
                              ("8..8", "a range that ascends"), ("..8", "--gpus"), ("8..", "--gpus"),
                              ("0..8", "--gpus must be from 1"), ("8..x", "--gpus"), ("8...9", "--gpus"),
                              ("64,64", "--gpus has 64 twice"), ("8..64,32", "--gpus has 32 twice"),
                              ("1..99999999999999", "--gpus must be from 1")):
            self.refuse("--gpus", counts, *JOB, words=[words])
        self.refuse("--gpus", "64", *JOB, "--knee", "0.5", words=["--knee is for several counts"])
        self.refuse("--gpus", "8..64", *JOB, "--knee", "1.5", words=["--knee must be more than 0 and at most 1"])
        self.refuse("--gpus", "8..64", *JOB, "--top", "5", words=["--top is for one number of GPUs"])
        self.refuse("--gpus", "8..64", *JOB, "--plot", "a.svg", "--measurements", "m.csv",
                    words=["--measurements is for one number of GPUs"])


if __name__ == "__main__":
    unittest.main()
