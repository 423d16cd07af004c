"""A message that is shorter than the receive: MPI takes it without an error, our transport names both sizes.
AXONN_PROGRAM is `short_message`. Its rank aborts the job, and mpirun's own status says only that it failed:
Open MPI 4.1's mpirun now and then crashes in PMIx while it ends an aborted job."""
import subprocess
import unittest

from program_runs import MPIRUN, PROGRAM, needs_mpi


class ShortMessage(unittest.TestCase):
    @needs_mpi
    def test_names_both_sizes(self):
        ended = subprocess.run([MPIRUN, "-n", "2", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("rank 0 sent 40 bytes, but rank 1 expects 80", ended.stdout + ended.stderr)
