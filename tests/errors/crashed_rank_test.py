"""A rank that crashes says where it was, and ends the whole job at once."""
import os
import random
import re
import signal
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import REFUSAL_SECONDS, needs_mpi, wait_for_steps

SIGNALS = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT]
REPORT = re.compile(r"\[fatal\] rank (\d) of 2: (SIG\w+) ends process (\d+) in step (\d+); its last collective was "
                    r"[a-z -]+ #\d+ of group '[a-z+]+'")


class CrashedRank(GptTest):
    # The job has an all-reduce and an allocation at almost any moment: a handler that needs malloc
    # hangs in about one of 30 crashes.
    def crash_one(self, turn, **options):
        number, victim = SIGNALS[turn % len(SIGNALS)], turn % 2
        out = f"run-{turn}"
        job = self.start("train", "--data", self.text, "--out", out, *TRAINING, "--grid", "2x1x1x1",
                         "--steps", "1000000", ranks=2, **options)
        wait_for_steps(job, self.directory / out, 2)
        time.sleep(random.random() / 10)
        process = job.ranks()[victim]
        os.kill(process, number)
        ended = job.wait(REFUSAL_SECONDS)
        self.assertNotEqual(ended.status, 0)
        reports = REPORT.findall(ended.text)
        self.assertEqual(len(reports), 1, ended.text)
        self.assertEqual(reports[0][1:3], (number.name, str(process)), ended.text)
        self.assertGreaterEqual(int(reports[0][3]), 2)

    @needs_mpi
    def test_under_mpirun(self):
        for turn in range(int(os.environ.get("AXONN_TEST_CRASHES", "3"))):
            self.crash_one(turn)

    def test_over_tcp(self):
        self.crash_one(3, launcher="tcp")


if __name__ == "__main__":
    unittest.main()
