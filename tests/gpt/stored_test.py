"""A configuration and a checkpoint of version 0.1 still work."""
import unittest

from gpt_runs import GptTest
from program_runs import losses
from stored_runs import copy_stored


class Stored(GptTest):
    def setUp(self):
        super().setUp()
        copy_stored(self.directory)

    def test_a_configuration_of_every_key_trains(self):
        ended = self.gpt("--config", "gpt.toml")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(len(losses(self.directory / "from-file")), 2)

    def test_a_checkpoint_goes_on_as_it_did_then(self):
        ended = self.gpt("--resume", "gpt-run", "--steps", "5")
        self.assertEqual(ended.status, 0, ended.text)
        then = [1.93086576461792, 1.9342705011367798]  # another processor rounds differently, and bf16 differs more
        now = losses(self.directory / "gpt-run")
        for step, before in zip((4, 5), then):
            self.assertAlmostEqual(float(now[step]), before, delta=0.02)

    def test_a_checkpoint_keeps_the_order_of_samples_of_then(self):
        self.refuse("--resume", "gpt-run", "--steps", "5", "--sample-order", "epochs",
                    words=["--sample-order epochs is not what", "was trained with (drawn)"])
        self.refuse("--resume", "gpt-run", "--steps", "5", "--validation-tokens", "9", words=["(0)"])

    def test_a_checkpoint_writes_text_on_another_grid(self):
        ended = self.gpt("generate", "--checkpoint", "gpt-run", "--tokens", "5", "--grid", "2x1x1x1", ranks=2)
        self.assertEqual(ended.status, 0, ended.text)

    def test_what_a_run_keeps_is_still_kept(self):
        self.refuse("--resume", "gpt-run", "--steps", "5", "--hidden", "16", words=["--hidden 16 is not what", "(8)"])


if __name__ == "__main__":
    unittest.main()
