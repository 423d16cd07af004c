"""The planner installs without what trains, and a project of someone else finds, builds and runs it."""
import os
import pathlib
import subprocess
import tempfile
import unittest

CMAKE, BUILD = os.environ["AXONN_CMAKE"], os.environ["AXONN_BUILD"]
SOURCE = pathlib.Path(os.environ["AXONN_SOURCE"])


def run(*command, status=0):
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=100)
    assert ended.returncode == status, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.prefix = cls.scratch / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", "perfmodel")

    def configure(self, source, build, *settings, status=0):
        flags = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['AXONN_LAUNCHER']}"]
        if os.environ["AXONN_SANITIZE"]:  # the libraries want the sanitizers' run time
            flags.append("-DCMAKE_CXX_FLAGS=-fsanitize=" + os.environ["AXONN_SANITIZE"].replace(";", ","))
        return run(CMAKE, "-G", "Ninja", "-S", source, "-B", self.scratch / build, *flags, *settings, status=status)

    def test_is_found_built_against_and_run(self):
        self.configure(SOURCE / "examples/planner", "example", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(CMAKE, "--build", self.scratch / "example")
        program = self.scratch / "example" / "rank_grids"
        found = [line.split()[0] for line in run(program, "64", "gpt5b").splitlines()]
        table = run(self.prefix / "bin/axonn-config", "--gpus", "64", "--model", "gpt5b", "--top", "3", "--csv").splitlines()[1:]
        self.assertEqual(found, ["x".join(line.split(",")[:4]) for line in table])
        self.assertIn("unet2b", run(program, "64", "unet2", status=2))
        linked = run("ldd", program)
        for name in ("torch", "mpi", "cuda"):
            self.assertNotIn(name, linked)

    def test_needs_nothing_of_what_trains(self):
        for path in self.prefix.rglob("*"):
            if path.suffix not in (".hpp", ".cmake"):
                continue
            text = path.read_text()
            for name in ("torch/", "ATen/", "c10/", "mpi.h", "LibTorch", str(SOURCE)):
                self.assertNotIn(name, text, path)

    def test_says_which_components_there_are(self):
        (self.scratch / "other").mkdir()
        (self.scratch / "other/CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES CXX)\nfind_package(axonn CONFIG REQUIRED COMPONENTS layers)\n")
        text = " ".join(self.configure(self.scratch / "other", "other-build", f"-DCMAKE_PREFIX_PATH={self.prefix}", status=1).split())
        self.assertIn("axonn has no component 'layers'; installed are: core, grid, perfmodel", text)

    def test_configures_where_there_is_neither_libtorch_nor_mpi(self):
        text = self.configure(SOURCE, "alone", "-DAXONN_WITH_TORCH=OFF", "-DAXONN_LIBTORCH=/nowhere", "-DMPI_C_COMPILER=/nowhere/mpicc",
                              "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON")
        self.assertNotIn("LibTorch", text)


if __name__ == "__main__":
    unittest.main()
