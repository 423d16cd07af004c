"""The guard against spikes: a text with a stretch of noise in a regular one."""
import random
import unittest

from event_files import curves
from gpt_runs import GptTest, NETWORK
from program_runs import losses, metrics, needs_mpi, nightly, tensors

TRAINING = [*NETWORK, "--gemm", "mm", "--batch", "4", "--warmup", "2", "--learning-rate", "0.02", "--learning-rate-end",
            "0.02", "--validate-every", "0", "--save-every", "10", "--validation-fraction", "0"]
GUARD = ["--spike-window", "8", "--spike-factor", "3"]
STEPS = 60


class Spike(GptTest):
    def setUp(self):
        super().setUp()
        noise = random.Random(1)
        calm, wild = "abcdefgh" * 400, "".join(noise.choice("abcdefghijklmnop") for _ in range(140))
        self.text.write_text(calm + wild + calm)

    def guarded(self, out, action, *arguments, steps=STEPS, **options):
        ended = self.gpt("train", "--data", self.text, "--out", out, *TRAINING, *GUARD, "--on-spike", action, "--steps",
                         steps, *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return self.directory / out, ended

    def test_a_skipped_spike_changes_nothing(self):
        plain, _ = self.guarded("plain", "off")
        run, ended = self.guarded("run", "skip")
        spikes = [line["step"] for before, line in zip(metrics(run), metrics(run)[1:])
                  if line["spikes"] > before["spikes"]]
        self.assertTrue(spikes, [line["loss"] for line in metrics(run)])
        self.assertIn(f"step {spikes[0]} is a spike: loss ", ended.text)
        self.assertIn("its update is skipped", ended.text)
        same = [losses(plain)[step] == losses(run)[step] for step in range(1, STEPS + 1)]
        self.assertTrue(all(same[:spikes[0]]))
        self.assertFalse(any(same[spikes[0]:]))

    @nightly
    def test_a_resumed_run_decides_as_one_that_was_never_interrupted(self):
        for action in ("skip", "rollback"):
            with self.subTest(action):
                whole, ended = self.guarded(f"whole-{action}", action)
                self.assertIn("is a spike", ended.text)
                for steps in range(10, STEPS + 1, 10):
                    parts, _ = self.guarded(f"parts-{action}", action, "--resume", "auto", steps=steps,
                                            **{})
                self.assertEqual(losses(parts), losses(whole))
                self.assertTrue(tensors(whole, STEPS))
                self.assertTrue(tensors(parts, STEPS) == tensors(whole, STEPS))

    def test_a_rollback_goes_on_behind_the_spike(self):
        run, ended = self.guarded("run", "rollback")
        spikes = metrics(run)[-1]["spikes"]
        self.assertGreaterEqual(spikes, 1)
        self.assertEqual(ended.text.count(", and on with the batch after it"), spikes, ended.text)
        self.assertEqual([line["step"] for line in metrics(run)], list(range(1, STEPS + 1)))
        self.assertEqual(sorted(curves(run)["loss"]), list(range(1, STEPS + 1)))

    @needs_mpi
    def test_all_ranks_decide_alike(self):
        for action in ("skip", "rollback"):
            with self.subTest(action):
                one, _ = self.guarded(f"one-{action}", action)
                four, _ = self.guarded(f"four-{action}", action, "--grid", "1x2x1x2", "--check-replicas", "1", ranks=4)
                self.assertEqual([line["spikes"] for line in metrics(one)], [line["spikes"] for line in metrics(four)])
                for a, b in zip(metrics(one), metrics(four)):
                    self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3 * max(1, a["loss"]))

    @needs_mpi
    def test_what_it_cannot_guard_is_refused(self):
        common = ["train", "--data", self.text, "--out", "run", *TRAINING, "--steps", "5", "--on-spike", "skip"]
        self.refuse(*common, "--clip", "0", "--optimizer-schedule", "fuse", "--grid", "1x1x1x2", ranks=2,
                    words=["--on-spike needs the gradient norm before weights change"])
        self.refuse(*common, "--spike-factor", "1", words=["spike_factor must be more than 1"])
        self.refuse(*common, "--on-spike", "stop", words=["--on-spike must be one of off, skip, rollback"])


if __name__ == "__main__":
    unittest.main()
