"""The list of the slowest tests that scripts/test prints."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["AXONN_SOURCE"]) / "scripts/lib/slowest.py"
CASE = '<testcase name="{}" classname="{}" time="{}" status="{}"/>'


class Slowest(unittest.TestCase):
    def of(self, *cases, count=()):
        text = "".join(CASE.format(name, name, time, status) for name, time, status in cases)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite name="t" tests="1">{text}</testsuite>')
            file.flush()
            ended = subprocess.run([sys.executable, SCRIPT, file.name, *count], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout.splitlines()

    def test_names_the_slowest_first_and_the_sum_of_all(self):
        lines = self.of(("quick", 0.5, "run"), ("slow", 12.25, "run"), ("middle", 3.0, "run"), count=["2"])
        self.assertIn("the 2 slowest of 3 tests, 15.8 s together", lines[0])
        self.assertEqual([line.split() for line in lines[1:]], [["12.2", "s", "slow"], ["3.0", "s", "middle"]])

    def test_counts_a_failed_test_and_leaves_out_what_did_not_run(self):
        lines = self.of(("failed", 2.0, "fail"), ("skipped", 0.1, "notrun"), ("off", 0.0, "disabled"))
        self.assertIn("of 1 tests, 2.0 s", lines[0])
        self.assertEqual(lines[1].split(), ["2.0", "s", "failed"])

    def test_names_fifteen_of_many(self):
        self.assertEqual(len(self.of(*((f"t{i}", i, "run") for i in range(20)))), 16)


if __name__ == "__main__":
    unittest.main()
