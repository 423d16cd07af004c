"""A loss that is not finite ends the run before the update, on all ranks, with the place."""
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import losses, metrics, needs_mpi, tensors

DIVERGE = [*TRAINING, "--learning-rate", "1e38", "--clip", "0", "--warmup", "0", "--steps", "9"]


class NonFiniteLoss(GptTest):
    def diverge(self, *arguments, **options):
        ended = self.gpt("train", "--data", self.text, "--out", "run", *DIVERGE, *arguments, seconds=10, **options)
        self.assert_refused(ended, "the loss of micro-batch 0 on rank 0 (x0 y0 z0 d0) is not finite in step 2",
                            status=1)
        return ended

    def test_it_says_where_and_what_is_left(self):
        ended = self.diverge("--save-every", "1")
        self.assertIn("newest checkpoint: run/step-000001", ended.err)
        self.assertEqual(list(losses(self.directory / "run")), [1])
        self.assertEqual([path.name for path in sorted((self.directory / "run").iterdir())],
                         ["config.toml", "environment.json", "metrics.jsonl", "starts.jsonl", "status.json",
                          "step-000001", "tb", "tokens"])

    def test_the_checkpoint_before_it_is_whole(self):
        self.diverge("--save-every", "1")
        run = self.directory / "run"
        before = tensors(run, 1)
        ended = self.gpt("train", "--resume", "run", seconds=10)
        self.assert_refused(ended, "not finite in step 2", "run/step-000001", status=1)
        self.assertEqual(tensors(run, 1), before)

    def test_without_a_checkpoint(self):
        self.assertIn("no checkpoint has been written", self.diverge().err)

    @needs_mpi
    def test_on_four_ranks(self):
        ended = self.diverge("--grid", "2x1x2x1", "--save-every", "1", ranks=4)
        self.assertIn("newest checkpoint: run/step-000001", ended.err)

    def test_fp16_may_skip_some_steps_in_a_row_but_not_all(self):
        ended = self.gpt("train", "--data", self.text, "--out", "run", *TRAINING, "--steps", "9", "--dtype", "fp16",
                         "--loss-scale", "1e30", "--most-skips", "3", seconds=10)
        self.assert_refused(ended, "the gradient (every loss is finite) is not finite in step 4 after 3 skipped ones, "
                            "at a loss scale of 1.25e+29", status=1)
        self.assertEqual([line["skipped_steps"] for line in metrics(self.directory / "run")], [1, 2, 3])

    def test_over_tcp(self):
        self.diverge("--grid", "1x1x1x2", ranks=2, launcher="tcp")


if __name__ == "__main__":
    unittest.main()
