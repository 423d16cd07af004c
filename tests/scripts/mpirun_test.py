"""scripts/mpirun with launchers of each family, which print their version, arguments and variables."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(os.environ["AXONN_SOURCE"]) / "scripts"
LAUNCHER = """#!/bin/sh
[ "$1" != --version ] || { cat "$0.version"; exit; }
printf '%s\n' "$*"
env | grep -E '^(PRTE_|OMPI_|I_MPI_|AXONN_PROGRESS)' | sort
"""
VERSIONS = {
    "openmpi-4": "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
    "openmpi-5": "mpirun (Open MPI) 5.0.7\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
    "mpich": "HYDRA build details:\n    Version:                                 4.0.2\n",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701\n",
}


class Mpirun(unittest.TestCase):
    def run_with(self, version, *arguments, script="mpirun", **environment):
        with tempfile.TemporaryDirectory() as folder:
            launcher = pathlib.Path(folder) / "launcher"
            launcher.write_text(LAUNCHER)
            launcher.chmod(0o755)
            pathlib.Path(f"{launcher}.version").write_text(version)
            kept = {name: value for name, value in os.environ.items()
                    if not name.startswith(("PRTE_", "OMPI_", "I_MPI"))}
            return subprocess.run([SCRIPTS / script, *arguments], capture_output=True, text=True,
                                  env={**kept, "AXONN_MPIEXEC": str(launcher), **environment})

    def lines(self, family, *arguments, **environment):
        ended = self.run_with(VERSIONS[family], *arguments, **environment)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout.splitlines()

    def test_open_mpi_4_gets_its_own_options(self):
        first, *variables = self.lines("openmpi-4", "-n", "4", "gpt")
        self.assertEqual(first, "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "
                                "--mca btl_vader_single_copy_mechanism none -n 4 gpt")
        self.assertIn("OMPI_ALLOW_RUN_AS_ROOT=1", variables)

    def test_open_mpi_5_gets_its_own_and_leaves_mapping_to_the_caller(self):
        first, *variables = self.lines("openmpi-5", "-n", "4", "--map-by", "slot", "gpt")
        self.assertEqual(first, "--mca mpi_yield_when_idle 1 --mca smsc ^cma,knem,xpmem -n 4 --map-by slot gpt")
        for variable in ("PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe",
                         "PRTE_MCA_hwloc_default_binding_policy=none"):
            self.assertIn(variable, variables)
        kept = self.lines("openmpi-5", "gpt", PRTE_MCA_hwloc_default_binding_policy="core")
        self.assertIn("PRTE_MCA_hwloc_default_binding_policy=core", kept)

    def test_hydra_gets_no_option_of_open_mpi(self):
        for family in ("mpich", "intel"):
            first, *variables = self.lines(family, "-n", "4", "gpt")
            self.assertEqual(first, "-n 4 gpt")
            self.assertIn("I_MPI_PIN=0", variables)

    def test_ranks_without_a_terminal_print_lines(self):
        self.assertIn("AXONN_PROGRESS=lines", self.lines("mpich", "gpt"))

    def test_names_the_family(self):
        for family, name in (("openmpi-4", "openmpi-4"), ("openmpi-5", "openmpi-5"), ("intel", "hydra")):
            self.assertEqual(self.lines(family, "--family"), [name])

    def test_refuses_another_program_and_none(self):
        ended = self.run_with("mpirun of the future 1.0\n", "-n", "4", "gpt")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("names neither Open MPI nor MPICH or Intel MPI: set AXONN_MPIEXEC", ended.stderr)
        ended = self.run_with("", "-n", "4", "gpt", AXONN_MPIEXEC="no-such-mpirun")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("there is no 'no-such-mpirun': load the site's MPI", ended.stderr)

    @unittest.skipUnless(os.getuid() == 0, "scripts/cluster needs root")
    def test_a_cluster_refuses_hydra_before_it_makes_hosts(self):
        ended = self.run_with(VERSIONS["mpich"], "run", "--nodes", "2", "--rate", "200mbit", "-n", "2", "--",
                              "hostname", script="cluster")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("is no Open MPI, whose daemons start on the hosts", ended.stderr)


if __name__ == "__main__":
    unittest.main()
