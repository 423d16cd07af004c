"""Runs axonn-config in a scratch directory."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["AXONN_CONFIG"]
SOURCE = pathlib.Path(os.environ["AXONN_SOURCE"])


class PlannerTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def run_program(self, *arguments, status=0):
        ended = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.directory, capture_output=True, text=True,
                               timeout=30)
        self.assertEqual(ended.returncode, status, f"{arguments}\n{ended.stdout}{ended.stderr}")
        return ended

    def plan(self, *arguments):
        return json.loads(self.run_program(*arguments, "--json").stdout)

    def refuse(self, *arguments, words, status=2):
        """Expects this status and one sentence with these words, and no other output."""
        ended = self.run_program(*arguments, status=status)
        self.assertEqual(ended.stdout, "")
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
        self.assertTrue(ended.stderr.startswith("axonn-config: "), ended.stderr)
        for word in words:
            self.assertIn(word, ended.stderr)

    def write(self, name, text):
        (self.directory / name).write_text(text)
        return name
