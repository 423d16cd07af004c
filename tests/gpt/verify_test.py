"""`gpt verify` shows that a grid equals one rank, with every way to start the ranks. Its exit
status reports the result."""
import unittest

from gpt_runs import GptTest
from program_runs import needs_mpi

SMALL = ["--layers", "1", "--steps", "2"]


class Verify(GptTest):
    def assert_equal(self, ended, transport):
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn(f", {transport}) against one rank", ended.out)
        self.assertTrue(ended.out.endswith("\nequal\n"), ended.out)
        self.assertIn("gradient h.0.attn.qkv.weight", ended.out)

    def test_it_starts_the_ranks_itself(self):
        for grid in ("2x1x1x1", "1x2x2x1"):
            with self.subTest(grid):
                self.assert_equal(self.gpt("verify", "--grid", grid, *SMALL), "tcp")

    @needs_mpi
    def test_it_runs_under_mpirun(self):
        for grid, ranks in (("1x2x1x1", 2), ("2x1x2x1", 4)):
            with self.subTest(grid):
                self.assert_equal(self.gpt("verify", "--grid", grid, *SMALL, "--micro-batches", "2", ranks=ranks),
                                  "mpi")

    def test_it_takes_an_order_a_policy_and_a_reduction_program(self):
        self.assert_equal(self.gpt("verify", "--grid", "1x1x2x2", *SMALL, "--order", "dzxy",
                                   "--overlap", "reduce-scatter,buckets", "--bucket", "1k",
                                   "--reduction", "all-reduce:0+1,2+3"), "tcp")
        self.refuse("verify", "--grid", "1x1x1x2", *SMALL, "--reduction", "auto",
                    words=["--reduction must be ring or programs here"])

    def test_it_says_by_which_schedule_sums_ran(self):
        for schedule, ran in (("mm-ar-c", "mm-ar-c"), ("mm-rs-c-ag", "mm-rs-c-ag"), ("overlap", "overlap"),
                              ("auto", "(mm-ar-c|overlap)")):
            ended = self.gpt("verify", "--grid", "2x1x1x1", *SMALL, "--linear-schedule", schedule)
            self.assert_equal(ended, "tcp")
            self.assertRegex(ended.out, f"linear {schedule}: 2 sums per step by {ran}\n")
        ended = self.gpt("verify", "--grid", "1x1x2x1", *SMALL, "--linear-schedule", "overlap")
        self.assertIn("linear overlap: no layer has a sum over ranks\n", ended.out)

    def test_its_rate_follows_a_schedule(self):
        # To a rate that is too large, as below.
        steps = ["--grid", "2x1x1x1", "--layers", "1", "--steps", "12", "--learning-rate-end", "20"]
        self.assert_equal(self.gpt("verify", *steps), "tcp")
        ended = self.gpt("verify", *steps, "--learning-rate-schedule", "linear")
        self.assertEqual(ended.status, 1, ended.text)
        self.assertTrue(ended.out.endswith("\nNOT equal\n"), ended.out)

    def test_ranks_divide_the_rows_of_attention(self):
        for flags in (["--grid", "1x2x1x1"], ["--grid", "2x2x1x1", "--window", "3"]):
            self.assert_equal(self.gpt("verify", *flags, *SMALL, "--attention-rows", "on"), "tcp")
        self.refuse("verify", "--grid", "1x2x1x1", *SMALL, "--attention-rows", "yes",
                    words=["attention-rows must be one of auto, on, off, got 'yes'"])

    def test_ranks_divide_the_rows_of_norms(self):
        for flags in (["--grid", "2x1x1x1", "--dropout", "0.1"], ["--grid", "2x2x1x1", "--attention-rows", "on"]):
            ended = self.gpt("verify", *flags, *SMALL, "--norm-rows", "on")
            self.assert_equal(ended, "tcp")
            self.assertIn("mm-rs-c-ag", ended.out)
        self.refuse("verify", "--grid", "2x1x1x1", *SMALL, "--norm-rows", "on", "--split-forward", "2",
                    words=["norm_rows divides all rows of a micro-batch", "choose split = 1, or norm_rows off"])

    def test_ranks_divide_sequences(self):
        for flags in (["--grid", "1x1x2x1", "--dropout", "0.1"],
                      ["--grid", "1x2x2x1", "--window", "3", "--attention-rows", "on"],
                      ["--grid", "2x1x2x1", "--norm-rows", "on"]):
            self.assert_equal(self.gpt("verify", *flags, *SMALL, "--sequence", "8", "--context", "2"), "tcp")
        self.refuse("verify", "--grid", "1x2x1x1", *SMALL, "--context", "2",
                    words=["context must divide z", "got context = 2 and z = 1", "it may be 1"])
        self.refuse("verify", "--grid", "1x1x2x1", *SMALL, "--context", "2", "--sequence", "10",
                    words=["must divide by 2 * context = 4, got 10; next ones that do: 8 and 12"])

    def test_a_difference_past_the_tolerance_is_a_failure(self):
        # The steps are so large that rounding differences grow beyond every tolerance.
        ended = self.gpt("verify", "--grid", "2x1x1x1", "--layers", "1", "--steps", "8", "--learning-rate", "10")
        self.assertEqual(ended.status, 1, ended.text)
        self.assertIn("FAILED", ended.out)
        self.assertTrue(ended.out.endswith("\nNOT equal\n"), ended.out)


if __name__ == "__main__":
    unittest.main()
