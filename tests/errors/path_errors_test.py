"""A path that the system refuses ends every program with one sentence: the path, the reason and a cure. Root may
read and write everything, so the paths here are links that loop, names that are too long, and files in the place of
folders."""
import os
import pathlib
import subprocess
import unittest

from gpt_runs import GptTest, TRAINING

TOOLS = pathlib.Path(os.environ["AXONN_CHECKPOINT"]).parent
LOOP = "Too many levels of symbolic links; a link in the path leads back to itself"
LONG = "n" * 300
TOO_LONG = "File name too long; give it a shorter name"
NO_FOLDER = "a part of the path is a file where a folder is needed"


class PathErrors(GptTest):
    def setUp(self):
        super().setUp()
        (self.directory / "self").symlink_to("self")

    def test_of_a_training(self):
        training = ["train", *TRAINING, "--steps", "1"]
        text = ["--data", self.text.name]
        self.refuse(*training, *text, "--out", "self/run", words=["cannot use self/run: ", LOOP])
        self.refuse(*training, *text, "--out", LONG, words=[TOO_LONG])
        self.refuse(*training, "--data", "self", "--out", "run", words=["data path self: ", LOOP])
        self.refuse("train", "--resume", "self", words=["cannot use self: ", LOOP])
        self.refuse("train", "--config", "text.txt/a.toml", words=["configuration file text.txt/a.toml: ", NO_FOLDER])
        self.refuse("generate", "--checkpoint", LONG, words=[TOO_LONG])

    def test_on_ranks(self):
        self.refuse("train", *TRAINING, "--data", self.text.name, "--out", "self/run", "--grid", "1x1x1x2", ranks=2,
                    launcher="ranks", words=["cannot use self/run: ", LOOP])

    def refuse_by(self, name, *arguments, words):
        ended = subprocess.run([TOOLS / name, *arguments], cwd=self.directory, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
        self.assertTrue(ended.stderr.startswith(f"{name}: "), ended.stderr)
        self.assertNotIn("filesystem error", ended.stderr)
        self.assertIn(words, ended.stderr)

    def test_of_the_other_programs(self):
        for command in (["ls"], ["verify"], ["show"], ["export", "--out", "a.safetensors"]):
            self.refuse_by("axonn-checkpoint", *command, "self", words=f"cannot use self: {LOOP}")
        self.refuse_by("axonn-checkpoint", "diff", LONG, "self", words=TOO_LONG)
        self.refuse_by("axonn-config", "--gpus", "8", "--model", "gpt5b", "--machine", "self/a.toml", words=LOOP)
        self.refuse_by("axonn-config", "--gpus", "8", "--model", "gpt5b", "--plot", "text.txt/a.svg", words=NO_FOLDER)
        self.refuse_by("axonn-config", "fit", LONG, "--machine", "dgx-h100", words=TOO_LONG)
        self.refuse_by("axonn-schedule", "show", LONG, words=TOO_LONG)


if __name__ == "__main__":
    unittest.main()
