"""Ranks that call different things, as processes over MPI and TCP: the job ends at once, and says what each
of them called. Every day each case goes over one of the transports, every night over all.
AXONN_PROGRAM is `misuse`."""
import os
import subprocess
import tempfile
import unittest

from program_runs import HAS_MPI, MPIRUN, PROGRAM, needs_mpi, nightly

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
    def check(self, case, start, **environment):
        name, ranks, named = case
        with self.subTest(name, start=start.__name__, **environment):
            status, text = start(name, int(ranks), environment)
            self.assertNotEqual(status, 0, text)
            self.assertIn(named, text)
            self.assertIn("every rank of a group makes the same calls in the same order", text)
            self.assertNotIn("made no progress for", text)  # the time-out's, after 600 s

    def test_each_case_over_one_transport(self):
        self.assertGreater(len(ALL), 15)
        ways = [(over_mpi, {"AXONN_SHARED_MEMORY": "1"}), (over_mpi, {"AXONN_SHARED_MEMORY": "0"})] if HAS_MPI else []
        ways.append((over_tcp, {}))
        for i, case in enumerate(ALL):
            start, environment = ways[i % len(ways)]
            self.check(case, start, **environment)

    @nightly
    @needs_mpi
    def test_in_shared_memory(self):
        for case in ALL:
            self.check(case, over_mpi, AXONN_SHARED_MEMORY="1")

    @nightly
    @needs_mpi
    def test_in_messages_of_mpi(self):
        for case in ALL:
            self.check(case, over_mpi, AXONN_SHARED_MEMORY="0")

    @nightly
    def test_over_tcp(self):
        for case in ALL:
            self.check(case, over_tcp)
