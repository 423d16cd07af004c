"""TensorBoard's EventAccumulator reads a run's curves, texts and images, each step once."""
import unittest

from accumulated_events import PYTHON, accumulated
from event_files import curves
from gpt_runs import GptTest


@unittest.skipUnless(PYTHON, "no TensorBoard in .deps (scripts/setup --interop)")
class Accumulator(GptTest):
    def test_it_reads_curves_and_texts_of_a_run_that_went_back(self):
        samples = ("--sample-every", "2", "--sample-tokens", "5")
        run = self.train("run", "--steps", "6", "--save-every", "2", *samples)
        ended = self.gpt("train", "--resume", "run/step-000004", "--steps", "8")
        self.assertEqual(ended.status, 0, ended.text)
        found, own = accumulated(run), curves(run)
        self.assertEqual([step for step, _ in found["scalars"]["loss"]], list(range(1, 9)))
        self.assertEqual({tag: dict(values) for tag, values in found["scalars"].items()},
                         {tag: values for tag, values in own.items() if tag != "samples"})
        self.assertEqual(dict(found["texts"]["samples"]), own["samples"])
        self.assertEqual(sorted(own["samples"]), [2, 4, 6, 8])
        self.assertEqual(found["plugins"], {"samples": "text"})


if __name__ == "__main__":
    unittest.main()
