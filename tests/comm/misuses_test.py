"""Ranks that call different things, as processes over MPI and TCP: the job ends at once, and says what each
of them called. AXONN_PROGRAM is `misuse`."""
import os
import re
import subprocess
import tempfile
import unittest

from program_runs import MPIRUN, PROGRAM, needs_mpi

LIMIT = 2  # seconds from the call to the error; kMisuseSeconds
ALL = [line.split("\t") for line in subprocess.run([PROGRAM], capture_output=True, text=True,
                                                   check=True).stdout.splitlines()]


def over_mpi(name, ranks, environment):
    run = subprocess.run([MPIRUN, "-n", str(ranks), PROGRAM, name], capture_output=True, text=True, timeout=60,
                         env={**os.environ, **environment})
    return run.returncode, run.stdout + run.stderr


def over_tcp(name, ranks, environment):
    with tempfile.TemporaryDirectory() as folder:
        jobs = [subprocess.Popen([PROGRAM, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, **environment, "AXONN_INIT_FILE": folder + "/meet",
                                      "WORLD_SIZE": str(ranks), "RANK": str(rank)}) for rank in range(ranks)]
        text = "".join(job.communicate(timeout=60)[0] for job in jobs)
        return max(job.returncode for job in jobs), text


class Misuses(unittest.TestCase):
    def check(self, start, **environment):
        self.assertGreater(len(ALL), 15)
        for name, ranks, named in ALL:
            with self.subTest(name):
                status, text = start(name, int(ranks), environment)
                self.assertNotEqual(status, 0, text)
                self.assertIn(named, text)
                self.assertIn("every rank of a group makes the same calls in the same order", text)
                seconds = [float(found) for found in re.findall(r"after ([\d.]+) s: ", text)]
                self.assertTrue(seconds, text)
                self.assertLess(min(seconds), LIMIT * max(1, os.getloadavg()[0] / os.cpu_count()), text)

    @needs_mpi
    def test_in_shared_memory(self):
        self.check(over_mpi, AXONN_SHARED_MEMORY="1")

    @needs_mpi
    def test_in_messages_of_mpi(self):
        self.check(over_mpi, AXONN_SHARED_MEMORY="0")

    def test_over_tcp(self):
        self.check(over_tcp)
