"""Shared by the tests of the package, which install this build and build outside projects against
it. CTest sets AXONN_CMAKE, AXONN_BUILD, AXONN_SOURCE, AXONN_LAUNCHER and AXONN_SANITIZE. If the
trainer is built, it also sets AXONN_STAGED (the folder in which the test staged_install installed
everything), AXONN_LIBTORCH and AXONN_MPIRUN (empty without MPI)."""
import concurrent.futures
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
HIDDEN = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON"
          for name in ("CLI11", "tomlplusplus", "PNG", "JPEG", "ZLIB", "MPI", "nlohmann_json")]


def run(*command, status=0, environment=None, seconds=100):
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=seconds,
                           env={**os.environ, **(environment or {})})
    assert ended.returncode == status, f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


def on_ranks(count, program, *arguments, **options):
    return run(MPIRUN, "-n", count, program, *arguments, **options)


def losses(text):
    return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("step")]


# With paths from the base directory, the compiler cache has what an earlier run compiled.
os.environ.setdefault("CCACHE_BASEDIR", str(SOURCE))


class OutsideProject(unittest.TestCase):
    """Projects against `prefix`, into which `component` is installed; against the staged
    installation of everything if it is None."""
    component = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(dir=BUILD)
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        if cls.component:
            cls.prefix = cls.scratch / "prefix"
            run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", cls.component)
        else:
            cls.prefix = pathlib.Path(os.environ["AXONN_STAGED"])
        cls.pool, cls.started = concurrent.futures.ThreadPoolExecutor(os.cpu_count()), {}
        cls.addClassCleanup(cls.pool.shutdown, cancel_futures=True)

    @classmethod
    def configure(cls, source, build, *settings, **options):
        flags = [f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['AXONN_LAUNCHER']}"]
        if os.environ["AXONN_SANITIZE"]:  # the libraries need the sanitizers' runtime
            flags.append("-DCMAKE_CXX_FLAGS=-fsanitize=" + os.environ["AXONN_SANITIZE"].replace(";", ","))
        return run(CMAKE, "-G", "Ninja", "-S", source, "-B", cls.scratch / build, *flags, *settings, **options)

    @classmethod
    def build(cls, source, build, *settings, seconds=100, **options):
        """Returns the folder with the programs, and CMake's output."""
        text = cls.configure(source, build, *settings, **options)
        run(CMAKE, "--build", cls.scratch / build, seconds=seconds)
        return cls.scratch / build, text

    @classmethod
    def start_build(cls, source, build, *settings, **options):
        """build() beside others: the compiler reads LibTorch's headers for half a minute per project, on
        one core."""
        cls.started[build] = cls.pool.submit(cls.build, source, build, *settings, seconds=300, **options)

    @classmethod
    def built(cls, build):
        """The result of build() of a started project."""
        return cls.started[build].result()

    def refusal(self, find, *settings, **options):
        """Configures a project that calls `find`, which must fail. Returns CMake's output, its
        lines joined."""
        folder = self.scratch / f"refused-{self.id()}"
        folder.mkdir(exist_ok=True)
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\n"
                                               f"project(refused LANGUAGES CXX)\n{find}\n")
        return " ".join(self.configure(folder, folder.name + "/build", *settings, status=1, **options).split())
