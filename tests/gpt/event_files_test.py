"""A run's event files for TensorBoard have the metrics, each step once, also after a kill, a resume and
a way back."""
import math
import signal
import struct
import unittest

from event_files import curves, event_files
from gpt_runs import GptTest, TRAINING
from program_runs import metrics, needs_mpi, wait_for_steps


def fp32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def by_step(run, *path):
    """The metric of these nested keys in every line that has it, as fp32."""
    found = {}
    for line in metrics(run):
        value = line
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found[line["step"]] = fp32(value)
    return found


class EventFiles(GptTest):
    def assert_shown(self, run):
        shown = curves(run)
        for path in (("loss",), ("validation_loss",), ("learning_rate",), ("gradient_norm",), ("tokens_per_second",),
                     ("utilisation",), ("peak_memory_bytes",), ("seconds", "step"), ("seconds", "backward")):
            self.assertEqual(shown.get("/".join(path), {}), by_step(run, *path), path)
        return shown

    def test_they_have_the_metrics(self):
        run = self.train("run", "--steps", "6", "--validate-every", "3")
        shown = self.assert_shown(run)
        self.assertEqual(sorted(shown["loss"]), [1, 2, 3, 4, 5, 6])
        self.assertEqual(sorted(shown["validation_loss"]), [3, 6])
        self.assertNotIn("step", shown)

    @needs_mpi
    def test_several_ranks_write_one_file_with_the_hidden_share(self):
        run = self.train("run", "--steps", "3", "--grid", "1x1x2x1", ranks=2)
        self.assertEqual(len(event_files(run)), 1)
        shown = self.assert_shown(run)
        self.assertEqual(shown["hidden_share"], by_step(run, "hidden_share"))
        self.assertTrue(all(0 <= share <= 1 for share in shown["hidden_share"].values()))
        self.assertFalse([tag for tag in shown if tag.startswith("communication")])

    def test_a_run_can_do_without(self):
        run = self.train("run", "--steps", "1", "--no-tensorboard")
        self.assertFalse((run / "tb").exists())

    def test_a_resumed_run_has_no_step_twice(self):
        run = self.train("run", "--steps", "5", "--save-every", "2")
        ended = self.gpt("train", "--resume", "run/step-000004", "--steps", "8")  # goes back
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(len(event_files(run)), 2)
        self.assertEqual(sorted(self.assert_shown(run)["loss"]), list(range(1, 9)))

    def test_a_killed_run_has_every_step_once(self):
        run = self.directory / "run"
        job = self.start("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "1000000",
                         "--save-every", "7", "--keep", "1000000")
        self.addCleanup(job.end)
        wait_for_steps(job, run, 40)
        job.signal(signal.SIGKILL)
        job.wait(10)
        saved = max(int(path.name[5:]) for path in run.glob("step-??????"))
        self.assertGreater(saved, 0)
        ended = self.gpt("train", "--resume", "auto", "--out", "run", "--steps", str(saved + 5))
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(sorted(self.assert_shown(run)["loss"]), list(range(1, saved + 6)))

    def test_a_run_that_began_anew_counts_from_its_first_step(self):
        lost = self.train("run", "--steps", "3", "--no-save-last")
        again = self.train("run", "--steps", "2", "--resume", "auto")
        self.assertEqual(lost, again)
        self.assertEqual(sorted(self.assert_shown(again)["loss"]), [1, 2])

    def test_what_is_not_finite_is_not_a_number(self):
        run = self.train("run", "--dtype", "fp16", "--loss-scale", "1e9", "--steps", "3")
        norms = curves(run)["gradient_norm"]
        self.assertTrue(norms and not any(map(math.isfinite, norms.values())), norms)


if __name__ == "__main__":
    unittest.main()
