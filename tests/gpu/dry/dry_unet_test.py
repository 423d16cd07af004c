"""What a step of the UNet asks of the GPU is what docs/gpu.md says."""
import os
import unittest

from dry_gpu import DryTest

CONFIG = os.path.join(os.path.dirname(os.environ["AXONN_TABLE"]), os.pardir, "configs", "unet-cifar.toml")


class DryUnetTest(DryTest):
    def test_step(self):
        record, events = self.counts_of_a_step("UNet 53M, 64 images", "--config", CONFIG, "--synthetic-images", 128,
                                               "--batch", 64, "--sample-every", 0, "--count", 1, "--sampling-steps", 2)
        self.assert_no_wait(record, events)


if __name__ == "__main__":
    unittest.main()
