"""Ranks that call different things, as processes over MPI and TCP: the job ends at once, and says what each
of them called. Every day each case goes over one of the transports, every night over all. Two jobs run side by
side, since each mostly loads LibTorch and waits for its first probe.
AXONN_PROGRAM is `misuse`."""
import concurrent.futures
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


def start_over_tcp(folder, name, ranks, environment):
    return [subprocess.Popen([PROGRAM, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env={**os.environ, **environment, "AXONN_INIT_FILE": folder + "/meet",
                                  "WORLD_SIZE": str(ranks), "RANK": str(rank)}) for rank in range(ranks)]


def over_tcp(name, ranks, environment):
    with tempfile.TemporaryDirectory() as folder:
        jobs = start_over_tcp(folder, name, ranks, environment)
        text = "".join(job.communicate(timeout=60)[0] for job in jobs)
        return max(job.returncode for job in jobs), text


class Misuses(unittest.TestCase):
    def check(self, cases):
        """Of a case, how it is started, and in which environment."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = [(*each, pool.submit(each[1], each[0][0], int(each[0][1]), each[2])) for each in cases]
        for (name, _, named), start, environment, job in jobs:
            with self.subTest(name, start=start.__name__, **environment):
                status, text = job.result()
                self.assertNotEqual(status, 0, text)
                self.assertIn(named, text)
                self.assertIn("every rank of a group makes the same calls in the same order", text)
                self.assertNotIn("made no progress for", text)  # the time-out's, after 600 s

    def test_each_case_over_one_transport(self):
        self.assertGreater(len(ALL), 15)
        ways = [(over_mpi, {"AXONN_SHARED_MEMORY": "1"}), (over_mpi, {"AXONN_SHARED_MEMORY": "0"})] if HAS_MPI else []
        ways.append((over_tcp, {}))
        self.check([(case, *ways[i % len(ways)]) for i, case in enumerate(ALL)])

    def test_a_rank_that_is_stopped_before_the_end_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            ends, stopped = start_over_tcp(folder, "--stop", 2, {"AXONN_TIMEOUT_SECONDS": "2"})
            self.addCleanup(stopped.communicate)
            self.addCleanup(stopped.kill)
            text, _ = ends.communicate(timeout=60)
        self.assertNotEqual(ends.returncode, 0)
        self.assertRegex(text, "'the end of the program'.*made no progress for 2 s: .*rank 1 does not answer")

    @nightly
    @needs_mpi
    def test_in_shared_memory(self):
        self.check([(case, over_mpi, {"AXONN_SHARED_MEMORY": "1"}) for case in ALL])

    @nightly
    @needs_mpi
    def test_in_messages_of_mpi(self):
        self.check([(case, over_mpi, {"AXONN_SHARED_MEMORY": "0"}) for case in ALL])

    @nightly
    def test_over_tcp(self):
        self.check([(case, over_tcp, {}) for case in ALL])
