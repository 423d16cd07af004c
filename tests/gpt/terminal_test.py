"""The progress of a run on a terminal, and in a file."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import PROGRAM

NO_TERMINAL = ("AXONN_PROGRESS", "NO_COLOR", "TERM")


def read_all(descriptor):
    """All that was written to a terminal whose other end is closed by now, or will be."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # EIO: nobody has the other end any more
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


class Terminal(GptTest):
    def on_terminal(self, *arguments, columns=200, stream="stdout", **environment):
        """All that a terminal gets from this stream of the program."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        base = {name: value for name, value in os.environ.items() if name not in NO_TERMINAL}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: its}
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.directory, **streams,
                                   env=base | {"OMP_NUM_THREADS": "1", "TERM": "xterm"} | environment)
        os.close(its)
        try:
            text = read_all(ours)
        finally:
            os.close(ours)
        self.assertEqual(process.wait(), 0, text)
        return text.replace("\r\n", "\n")

    def training(self, out, **options):
        return self.on_terminal("train", "--data", self.text.name, "--out", out, *TRAINING, "--steps", "4",
                                "--validate-every", "2", **options)

    def test_a_terminal_has_a_bar_that_is_redrawn_and_ends_with_a_line(self):
        drawn = self.training("run").split("\r")
        self.assertGreaterEqual(len(drawn), 3, drawn)  # the first and the last step, at least
        for line in drawn[1:]:
            self.assertIn("\x1b[K", line)
        first, last = drawn[1].split("\x1b[K")[0], drawn[-1].split("\x1b[K")[0]
        self.assertRegex(first, r"^step 1/4 ██████████ +loss [\d.]+  best [\d.]+  .*128 tok .*  "
                                r"\d+:\d\d left  ends (\d\d [A-Z][a-z][a-z] )?\d\d:\d\d$")
        self.assertRegex(last, r"^step 4/4 █{40}  loss [\d.]+  val ([\d.]+)  best [\d.]+  .* 512 tok .* 0:00 left$")
        self.assertTrue(drawn[-1].split("\x1b[K")[1].startswith("\n"), drawn[-1])

    def test_no_line_is_wider_than_the_terminal_and_none_has_a_colour(self):
        for columns in (20, 60, 100):
            text = self.training(f"run-{columns}", columns=columns, NO_COLOR="1")
            for line in re.findall(r"\r([^\r\x1b]*)\x1b\[K", text):
                self.assertLess(len(line), columns, line)
            self.assertEqual(set(re.findall(r"\x1b[^K]*.", text)), {"\x1b[K"})

    def test_a_terminal_that_cannot_redraw_gets_lines(self):
        for name, environment in (("dumb", {"TERM": "dumb"}), ("asked", {"AXONN_PROGRESS": "lines"})):
            with self.subTest(name):
                text = self.training(name, **environment)
                self.assertNotIn("\r", text)
                self.assertNotIn("\x1b", text)
                self.assertRegex(text, r"\nstep 4/4  loss .* 0:00 left\n")
        self.assertIn("\r", self.training("both", TERM="dumb", AXONN_PROGRESS="bar"))

    def test_an_evaluation_has_its_line_on_a_terminal_only(self):
        run = self.train("run", "--steps", "1")
        evaluation = ("eval", run, "--data", self.text.name)
        self.assertRegex(self.on_terminal(*evaluation, stream="stderr"), r"\rwindow \d+/\d+  \d+:\d\d left\x1b\[K")
        self.assertNotIn("\r", self.on_terminal(*evaluation, stream="stderr", TERM="dumb"))

    def test_a_file_gets_lines_and_a_resumed_run_knows_its_best_loss(self):
        def rows(*arguments):
            ended = self.gpt("train", *arguments, "--log-every", "1")
            self.assertEqual(ended.status, 0, ended.text)
            self.assertNotRegex(ended.out, r"[\r\x1b]")
            found = re.findall(r"^step (\d)/\d  loss ([\d.]+)  best ([\d.]+) ", ended.out, re.M)
            self.assertEqual([line[:5] for line in ended.out.splitlines() if "left" in line], ["step "] * len(found))
            return [(int(step), float(loss), float(best)) for step, loss, best in found]

        diverging = ("--learning-rate", "10", "--learning-rate-end", "10", "--validation-fraction", "0")
        whole = rows("--data", self.text.name, "--out", "run", *TRAINING, *diverging, "--steps", "4")
        self.assertEqual([step for step, _, _ in whole], [1, 2, 3, 4])
        for number, (_, _, best) in enumerate(whole, 1):
            self.assertEqual(best, min(loss for _, loss, _ in whole[:number]))
        (step, loss, best), = rows("--resume", "run", "--steps", "5")
        self.assertEqual((step, best), (5, whole[-1][2]))
        self.assertGreater(loss, best)  # or this run would not have to know the earlier lines


if __name__ == "__main__":
    unittest.main()
