"""The check of plain words, scripts/checks/words.py, refuses each line of words_test.tsv that has an end
of its refusal, and takes the others. A line is a file's name, its text, and this end."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["AXONN_SOURCE"]) / "scripts/checks/words.py"
CASES = [line.split("\t") for line in pathlib.Path("words_test.tsv").read_text().splitlines()]


class Words(unittest.TestCase):
    def test_refuses_and_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [name.replace("*", str(number)) for number, (name, _, _) in enumerate(CASES)]
            for path, (_, text, _) in zip(paths, CASES):
                (pathlib.Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / path).write_text(text.replace(r"\n", "\n"))
            ended = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
            self.assertEqual(ended.returncode, 1, ended.stderr)
        for path, (_, text, end) in zip(paths, CASES):
            with self.subTest(path=path, text=text):
                found = [line for line in ended.stdout.splitlines() if line.startswith(f"{path}:")]
                self.assertEqual(len(found), 1 if end else 0, found)
                self.assertTrue(not end or found[0].endswith(end), found)

    def test_takes_a_tree_without_odd_words(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stdout), (0, "plain words everywhere\n"))


if __name__ == "__main__":
    unittest.main()
