"""`unet` trains, resumes, and draws images during and after training. An image is the same on every
grid."""
import json
import os
import pathlib
import re
import signal
import time
import unittest

from event_files import curves
from program_runs import NIGHT, REFUSAL_SECONDS, losses, metrics, needs_mpi, tensors
from unet_runs import TRAINING, UnetTest

EVERYTHING = ["--classes", "-1", "--class-dropout", "0.2", "--loss", "hybrid", "--importance", "--ema", "0.9",
              "--mirror"]


class Training(UnetTest):
    def test_losses_fall_and_are_in_the_metrics(self):
        run = self.train("run", "--steps", "60", "--learning-rate", "0.01")
        lines = metrics(run)
        self.assertEqual(len(lines), 60)
        self.assertLess(sum(line["loss"] for line in lines[-10:]), 0.8 * sum(line["loss"] for line in lines[:10]))
        self.assertIsNotNone(lines[-1]["validation_loss"])
        self.assertGreater(lines[-1]["images_per_second"], 0)

    def test_a_run_goes_on_bit_for_bit(self):
        whole = self.train("whole", *EVERYTHING, "--steps", "6", "--save-every", "3")
        again = self.unet("train", "--resume", "whole/step-000003", "--steps", "6", "--out", "again")
        self.assertEqual(again.status, 0, again.text)
        self.assertEqual(losses(self.directory / "again"),
                         {step: loss for step, loss in losses(whole).items() if step > 3})
        self.assertEqual(tensors(self.directory / "again", 6), tensors(whole, 6))

    def test_a_resumed_run_keeps_the_kernels_that_were_measured(self):
        measured = [word for word in TRAINING if word not in ("--gemm", "mm")]
        first = self.unet("train", "--out", "first", *measured, "--steps", "2", "--save-every", "1", "--verbose")
        self.assertEqual(first.status, 0, first.text)
        manifest = self.directory / "first/step-000001/manifest.json"
        choices = json.loads(manifest.read_text())["choices"]
        shapes = dict(shape.split("=") for shape in choices["convolutions"].split(";"))
        self.assertIn("8x8:8>8", shapes)
        self.assertNotIn("8x8:3>16", shapes)
        self.assertIn("convolutions: ", first.text)
        again = self.unet("train", "--resume", "first/step-000001", "--steps", "2", "--out", "again")
        self.assertEqual(again.status, 0, again.text)
        kept = json.loads((self.directory / "again/step-000002/manifest.json").read_text())["choices"]
        self.assertEqual(kept, choices)
        self.assertEqual(tensors(self.directory / "again", 2), tensors(self.directory / "first", 2))
        self.assertNotIn("best matrix product", again.text)
        named = self.unet("train", "--out", "named", *TRAINING, "--steps", "1", "--verbose")
        self.assertIn("best matrix product", named.text)
        self.assertNotIn("convolutions: ", named.text)

    @needs_mpi
    def test_losses_are_those_of_one_rank(self):
        alone = metrics(self.train("one-rank", *EVERYTHING, "--dtype", "fp64", "--steps", "4"))
        for grid in ("2x2x1x1", "1x1x2x2"):
            lines = metrics(self.train(grid, *EVERYTHING, "--dtype", "fp64", "--steps", "4", "--grid", grid, ranks=4))
            for mine, expected in zip(lines, alone, strict=True):
                self.assertAlmostEqual(mine["loss"], expected["loss"], delta=1e-11 * abs(expected["loss"]))

    def test_images_are_drawn_on_the_way(self):
        run = self.train("run", "--steps", "4", "--sample-every", "2")
        self.assertEqual(sorted(path.name for path in (run / "samples").iterdir()),
                         ["step-000002.png", "step-000004.png"])
        sheets = curves(run)["samples"]
        self.assertEqual(sorted(sheets), [2, 4])
        for step, sheet in sheets.items():  # height, width, colours, file
            self.assertEqual((sheet[1], sheet[2], sheet[3]), (18, 18, 3))
            self.assertEqual(sheet[4], (run / f"samples/step-{step:06d}.png").read_bytes())

    @needs_mpi
    def test_a_signal_while_images_are_drawn_is_obeyed_by_all_ranks(self):
        run = self.directory / "run"
        job = self.start("train", "--out", "run", *TRAINING, "--grid", "1x1x2x1", "--steps", "4", "--sample-every", "1",
                         "--sampling-steps", "1000", "--count", "640", ranks=2)
        self.addCleanup(job.end)
        while not (run / "status.json").exists():
            self.assertIsNone(job.processes[0].poll(), "the run has ended")
            time.sleep(0.005)
        time.sleep(0.5)
        os.kill(job.ranks()[1], signal.SIGUSR1)
        ended = job.wait(REFUSAL_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("stopped early: step 1,", ended.out)
        self.assertFalse((run / "samples").exists())
        self.assertTrue((run / "step-000001/manifest.json").exists())

    @needs_mpi
    def test_a_image_is_the_same_on_every_grid(self):
        self.train("run", "--steps", "20", "--learning-rate", "0.01", "--dtype", "fp64", "--classes", "-1",
                   "--class-dropout", "0.2")
        how = ["--guidance", "2", "--method", "ddpm"]
        alone = self.sample("run", "one-rank.png", *how)
        for grid in ("2x2x1x1", "1x1x2x2"):
            self.assertEqual(self.sample("run", f"{grid}.png", *how, "--grid", grid, ranks=4), alone, grid)
        for schedule in ("mm-rs-c-ag", "overlap", "auto") if NIGHT else ("overlap",):
            self.assertEqual(self.sample("run", f"{schedule}.png", *how, "--grid", "2x2x1x1", "--linear-schedule",
                                         schedule, ranks=4), alone, schedule)
        self.assertNotEqual(self.sample("run", "other.png", *how, "--sampling-seed", "2"), alone)

    def test_a_strip_shows_the_way_from_noise(self):
        self.train("run", "--steps", "2")
        self.sample("run", "sheet.png", "--trajectory", "strip.png", "--moments", "4")
        header = (self.directory / "strip.png").read_bytes()[16:24]
        width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
        self.assertEqual((width, height), (4 * 8 + 3 * 2, 6 * 8 + 5 * 2))

    def test_help_names_every_flag_of_the_configuration_files(self):
        ended = self.unet("--help")
        for file in (pathlib.Path(__file__).resolve().parents[2] / "configs").glob("unet-*.toml"):
            for key in re.findall(r"^([a-z0-9_]+) *=", file.read_text(), re.M):
                self.assertIn("--" + key.replace("_", "-"), ended.out)

    def test_a_dry_run_tells_every_block(self):
        ended = self.unet("--dry-run", "--model", "unet250m", "--grid", "2x2x2x4", "--batch", "64")
        self.assertEqual(ended.status, 0, ended.text)
        for words in ("on 2x2x2x4 (32 ranks)", "down.0.residual.in.weight", "arena, cut over z", "images per rank"):
            self.assertIn(words, ended.out)


class Verify(UnetTest):
    def test_a_grid_equals_one_rank(self):
        for more in (*([[]] if NIGHT else []), ["--classes", "-1", "--scale-shift", "--loss", "hybrid"]):
            ended = self.unet("verify", "--grid", "2x2x2x1", "--steps", "2", *more)
            self.assertEqual(ended.status, 0, ended.text)
            self.assertIn("gradient middle.0.in.weight", ended.out)
            # 0 would mean that there is no gradient.
            self.assertNotIn("gradient middle.0.in.weight                      0.00e+00", ended.out)
            self.assertTrue(ended.out.endswith("\nequal\n"), ended.out[-2000:])

    def test_it_says_by_which_schedule_convolutions_ran(self):
        for schedule in ("mm-ar-c", "mm-rs-c-ag", "overlap"):
            ended = self.unet("verify", "--grid", "2x1x1x1", "--steps", "1", "--linear-schedule", schedule)
            self.assertEqual(ended.status, 0, ended.text)
            self.assertIn(f"linear {schedule}: 22 sums per step by {schedule}\n", ended.out)


if __name__ == "__main__":
    unittest.main()
