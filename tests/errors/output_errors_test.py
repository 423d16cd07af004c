"""A program whose standard output cannot be written, because the disk is full or the output is closed, ends with an
error in one sentence. Its other files are whole."""
import os
import pathlib
import subprocess
import unittest

from program_runs import ProgramTest

TOOLS = pathlib.Path(os.environ["AXONN_CHECKPOINT"]).parent
TRAINING = ("train --data text.txt --layers 1 --hidden 16 --heads 2 --sequence 16 --gemm mm --batch 4 --steps 2 "
            "--validate-every 0").split()
PROGRAM_TEXT = str(pathlib.Path(__file__).parents[1] / "optim/lion.program")


class Output(ProgramTest):
    def to(self, where, name, *arguments):
        """The exit status and the standard error of a program that prints to /dev/full, or to nothing."""
        if where == "full":
            with open("/dev/full", "w") as full:
                ended = subprocess.run([TOOLS / name, *arguments], cwd=self.directory, stdout=full,
                                       stderr=subprocess.PIPE, text=True)
        else:
            ended = subprocess.run(["sh", "-c", '"$@" >&-', "sh", TOOLS / name, *arguments], cwd=self.directory,
                                   stderr=subprocess.PIPE, text=True)
        return ended.returncode, ended.stderr

    def assert_told(self, where, status, name, *arguments):
        with self.subTest(name=name, where=where, arguments=arguments[:1]):
            ended, text = self.to(where, name, *arguments)
            self.assertEqual(ended, status, text)
            last = text.splitlines()[-1]
            self.assertTrue(last.startswith(f"{name}: "), text)
            self.assertEqual(text.count("the standard output cannot be written"), 1, text)

    def test_every_program_says_so(self):
        (self.directory / "text.txt").write_text("a text of some words\n" * 100)
        self.assert_told("closed", 1, "gpt", *TRAINING, "--out", "run")
        for line in (self.directory / "run/metrics.jsonl").read_text().splitlines():  # no other text has come in
            self.assertTrue(line.startswith('{"step":'), line)
        self.assert_told("full", 1, "gpt", "generate", "--checkpoint", "run", "--tokens", "3")
        self.assert_told("full", 1, "gpt", "--help")
        self.assert_told("full", 1, "unet", "--help-env")
        for where in ("full", "closed"):
            self.assert_told(where, 2, "axonn-checkpoint", "ls", "run")
        self.assert_told("full", 2, "axonn-checkpoint", "verify", "run")
        self.assert_told("full", 2, "axonn-config", "--gpus", "8", "--model", "gpt5b")
        self.assert_told("full", 2, "axonn-config", "machine", "perlmutter")
        self.assert_told("full", 2, "axonn-schedule", "show", PROGRAM_TEXT)


if __name__ == "__main__":
    unittest.main()
