"""The losses of `gpt` beside nanoGPT's loop in PyTorch, which scripts/setup --interop installs: the short
form of bench/loss_beside_pytorch.py."""
import json
import pathlib
import subprocess
import unittest

from gpt_runs import GptTest
from program_runs import PROGRAM
from transformers_export_test import PYTHON

COMPARE = pathlib.Path(__file__).resolve().parents[2] / "bench/loss_beside_pytorch.py"
GRIDS = ["1x1x1x1", "2x1x1x2"]
# Rounding only; the program allows 1e-3, for 500 steps.
CLOSE = 1e-4


@unittest.skipUnless(PYTHON, "no PyTorch in .deps (scripts/setup --interop)")
class LossBesidePyTorch(GptTest):
    def compared(self, *flags):
        """The exit status, and what is printed for each grid."""
        ended = subprocess.run(
            [PYTHON, COMPARE, "--data", self.text, "--bin", pathlib.Path(PROGRAM).parent, "--steps", "20",
             "--vocabulary", "300", "--layers", "2", "--hidden", "32", "--heads", "4", "--sequence", "16", "--batch",
             "32", *flags], capture_output=True, text=True, timeout=200, check=False)
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        self.assertTrue(lines, ended.stderr)
        return ended.returncode, lines

    def test_losses_are_equal_on_one_rank_and_on_four(self):
        status, lines = self.compared("--grids", *GRIDS)
        self.assertEqual(status, 0, lines)
        self.assertEqual([line["grid"] for line in lines], GRIDS)
        for line in lines:
            self.assertEqual(line["steps"], 20)
            self.assertLess(line["worst_relative"], CLOSE)
            self.assertLess(line["last_loss"], line["first_loss"] - 0.1)

    def test_other_samples_and_other_updates_are_seen(self):
        for flags in ("--sample-order drawn", "--weight-decay 20", "--beta2 0.5", "--warmup 4"):
            with self.subTest(flags):
                status, lines = self.compared("--grids", "1x1x1x1", f"--flags={flags}")
                self.assertEqual(status, 1, lines)


if __name__ == "__main__":
    unittest.main()
