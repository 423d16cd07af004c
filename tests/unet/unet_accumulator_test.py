"""TensorBoard's EventAccumulator reads the sheets of drawn images."""
import unittest

from accumulated_events import PYTHON, accumulated
from unet_runs import UnetTest


@unittest.skipUnless(PYTHON, "no TensorBoard in .deps (scripts/setup --interop)")
class Accumulator(UnetTest):
    def test_it_reads_images(self):
        run = self.train("run", "--steps", "4", "--sample-every", "2")
        found = accumulated(run)
        self.assertEqual([step for step, _ in found["scalars"]["images_per_second"]], [1, 2, 3, 4])
        self.assertEqual(found["images"]["samples"],
                         [[step, 18, 18, (run / f"samples/step-{step:06d}.png").stat().st_size] for step in (2, 4)])


if __name__ == "__main__":
    unittest.main()
