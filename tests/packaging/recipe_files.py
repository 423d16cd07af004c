"""Shared by the tests of packaging/. CTest sets AXONN_SOURCE, AXONN_BUILD,
AXONN_CMAKE, AXONN_CPACK and AXONN_VERSION (PROJECT_VERSION of CMakeLists.txt)."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["AXONN_SOURCE"])
PACKAGING = SOURCE / "packaging"
VERSION = os.environ["AXONN_VERSION"]
BUILD = pathlib.Path(os.environ["AXONN_BUILD"])
CMAKE = os.environ["AXONN_CMAKE"]
CLONE = shutil.which("git") is not None and (SOURCE / ".git").exists()
NO_CLONE = "these sources are no clone with its git, and scripts/release makes an archive of a commit"


def run(*command, status=0, environment=None, folder=None):
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, cwd=folder,
                           env=environment)
    assert ended.returncode == status, f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


def options_of_the_build():
    """Names that CMakeLists.txt and cmake/ read: options, cached settings and searched programs."""
    files = [SOURCE / "CMakeLists.txt", *sorted((SOURCE / "cmake").glob("*.cmake"))]
    text = "\n".join(file.read_text() for file in files)
    return set(re.findall(r"(?:option|find_program|set)\(\s*(AXONN_\w+)", text))


def cached(name):
    """A variable of the build's CMakeCache.txt."""
    return re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]


class Scratch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
