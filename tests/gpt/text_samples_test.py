"""Texts that the model writes while it is trained."""
import unittest

from event_files import curves
from gpt_runs import GptTest, TRAINING
from program_runs import losses, needs_mpi

SAMPLES = ["--tokenizer", "chars", "--sample-every", "2", "--sample-prompt", "line 7", "--sample-tokens", "9"]


class TextSamples(GptTest):
    def texts(self, run):
        return {int(path.stem[5:]): path.read_text() for path in sorted((run / "samples").iterdir())}

    def test_they_change_nothing_else_and_are_in_the_event_files(self):
        plain = self.train("plain", "--steps", "4", "--tokenizer", "chars")
        run = self.train("run", "--steps", "4", *SAMPLES)
        self.assertEqual(losses(run), losses(plain))
        self.assertFalse((plain / "samples").exists())
        texts = self.texts(run)
        self.assertEqual(sorted(texts), [2, 4])
        for step, text in texts.items():
            self.assertTrue(text.startswith("line 7") and text.endswith("\n"), text)
            self.assertEqual(len(text), len("line 7") + 9 + 1)
            shown = "".join(f"    {line}\n" for line in text.removesuffix("\n").split("\n"))
            self.assertEqual(curves(run)["samples"][step].rstrip(), shown.rstrip())

    @needs_mpi
    def test_they_are_the_same_on_every_grid(self):
        one = self.texts(self.train("one-rank", "--steps", "4", "--dtype", "fp64", *SAMPLES))
        for grid in ("2x1x1x1", "1x1x2x1"):
            run = self.train(grid, "--steps", "4", "--dtype", "fp64", *SAMPLES, "--grid", grid, ranks=2)
            self.assertEqual(self.texts(run), one, grid)

    def test_without_a_prompt_a_text_begins_as_generated_ones(self):
        run = self.train("run", "--steps", "1", "--sample-every", "1", "--sample-tokens", "3", "--tokenizer", "chars")
        self.assertTrue(self.texts(run)[1].startswith("\n"))

    def test_prompts_that_cannot_be_continued_are_refused(self):
        for flags, words in ((["--sample-prompt", "x" * 17], "--sample-prompt has 17 tokens, and this model reads at"),
                             (["--sample-prompt", "\u00e9", "--tokenizer", "chars"], "is not in the vocabulary of"),
                             (["--sample-tokens", "0"], "--sample-tokens must be")):
            ended = self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "1",
                             "--sample-every", "1", *flags)
            self.assert_refused(ended, words)


if __name__ == "__main__":
    unittest.main()
