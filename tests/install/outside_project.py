"""What the tests of the package share: they install this build and build projects of someone else against it. CTest sets AXONN_CMAKE,
AXONN_BUILD, AXONN_SOURCE, AXONN_LAUNCHER, AXONN_SANITIZE, and where training is built AXONN_LIBTORCH and AXONN_MPIRUN (empty without MPI)."""
import os
import pathlib
import subprocess
import tempfile
import unittest

CMAKE, BUILD = os.environ["AXONN_CMAKE"], pathlib.Path(os.environ["AXONN_BUILD"])
SOURCE = pathlib.Path(os.environ["AXONN_SOURCE"])
LIBTORCH = pathlib.Path(os.environ.get("AXONN_LIBTORCH", ""))
MPIRUN = os.environ.get("AXONN_MPIRUN", "")
HERE = pathlib.Path(__file__).resolve().parent


def run(*command, status=0, environment=None, seconds=100):
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=seconds, env={**os.environ, **(environment or {})})
    assert ended.returncode == status, f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


def on_ranks(count, program, *arguments, **options):
    return run(MPIRUN, "-n", count, program, *arguments, **options)


class OutsideProject(unittest.TestCase):
    """`component`: what is installed into `prefix`, all of it unless a class says so."""
    component = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.prefix = cls.scratch / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, *(["--component", cls.component] if cls.component else []))

    @classmethod
    def configure(cls, source, build, *settings, **options):
        flags = [f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['AXONN_LAUNCHER']}"]
        if os.environ["AXONN_SANITIZE"]:  # the libraries want the sanitizers' run time
            flags.append("-DCMAKE_CXX_FLAGS=-fsanitize=" + os.environ["AXONN_SANITIZE"].replace(";", ","))
        return run(CMAKE, "-G", "Ninja", "-S", source, "-B", cls.scratch / build, *flags, *settings, **options)

    @classmethod
    def build(cls, source, build, *settings, seconds=100, **options):
        """The folder with the programs, and what CMake said."""
        text = cls.configure(source, build, *settings, **options)
        run(CMAKE, "--build", cls.scratch / build, seconds=seconds)
        return cls.scratch / build, text

    def refusal(self, find, *settings, **options):
        """What CMake says to a project that calls `find` (its lines joined), which must stop it."""
        folder = self.scratch / f"refused-{self.id()}"
        folder.mkdir(exist_ok=True)
        (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(refused LANGUAGES CXX)\n{find}\n")
        return " ".join(self.configure(folder, folder.name + "/build", *settings, status=1, **options).split())
