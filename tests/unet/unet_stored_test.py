"""A configuration and a checkpoint of version 0.1 still work."""
import unittest

from program_runs import losses
from stored_runs import copy_stored
from unet_runs import UnetTest


class Stored(UnetTest):
    def setUp(self):
        super().setUp()
        copy_stored(self.directory)

    def test_a_configuration_trains(self):
        ended = self.unet("--config", "unet.toml")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(len(losses(self.directory / "from-file")), 2)

    def test_a_checkpoint_goes_on_as_it_did_then(self):
        ended = self.unet("--resume", "unet-run", "--steps", "5")
        self.assertEqual(ended.status, 0, ended.text)
        then = [1.0228817462921143, 0.966680645942688]
        now = losses(self.directory / "unet-run")
        for step, before in zip((4, 5), then):
            self.assertAlmostEqual(float(now[step]), before, delta=1e-4)

    def test_a_checkpoint_draws_images(self):
        self.assertTrue(self.sample("unet-run", "out.png"))


if __name__ == "__main__":
    unittest.main()
