"""The decisions of scripts/setup, and its sentences: in a copy of it, on a PATH that has only a few of
the system's commands, and fakes of dpkg, CMake, pip and the like. It needs no network."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["AXONN_SOURCE"])
COMMANDS = ("awk basename bash cat chmod cksum cp df dirname env flock grep head id ln ls mkdir mktemp mv "
            "nproc rm sed sh sort tail touch tr uname")
FOUND = ("compiler|12.2.0|/usr/bin/c++ mpi|3.1|/opt/mpi/libmpi.so spdlog|1.10.0|/usr/include fmt|9.1.0|/usr/include "
         "cli11|2.1.2|/usr/share/cmake/CLI11 toml++|3.3.0|/usr/include nlohmann-json|3.11.2|/usr/share "
         "xxhash|0.8.1|/usr/include libpng|1.6.39|/usr/include libjpeg|62|/usr/include "
         "zlib|1.2.13|/usr/include zstd||/usr/include "
         "googletest|1.12.1|/usr/lib").split()
# Asks the real Python for nothing: it knows its version, what it lacks, and a pip that logs.
PYTHON = """#!/bin/sh
log=$FAKES/pip.log
case "$*" in
  *"-c "*sys.version_info*) [ "{version}" != 3.9.18 ] ;;
  *"import platform"*) echo {version} ;;
  *ensurepip*) {ensurepip} ;;
  *"-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip download"*" wheel") echo "$*" >>"$log"; {index} ;;
  *"pip download"*) echo "$*" >>"$log"; mkdir -p "$FAKES/archives" ;;
  *"pip install"*torch==*)
    echo "$*" >>"$log"; folder=$(dirname "$0")/../lib/python3.11/site-packages/torch/lib
    mkdir -p "$folder" && touch "$folder/libtorch_cpu.so" ;;
  *"pip install"*clang-format*)
    echo "$*" >>"$log"; folder=$(dirname "$0")/../lib/python3.11/site-packages/clang_format/data/bin
    mkdir -p "$folder" && touch "$folder/clang-format" ;;
  *"pip install"*cmake==*)
    folder=$(dirname "$0")/../lib/python3.11/site-packages/cmake/data/bin; mkdir -p "$folder"
    cp "$FAKES/cmake.new" "$folder/cmake"; touch "$folder/ctest"; touch "$(dirname "$0")/cmake" ;;
  *"pip install"*) echo "$*" >>"$log" ;;
  *unpack_sources*) echo "$*" >>"$log" ;;
esac
"""
# It finds what stands in the file found, and everything once something was unpacked.
CMAKE = """#!/bin/sh
case "$*" in
  --version) echo "cmake version {version}" ;;
  *lib/needs*) found=found; ! grep -q unpack_sources "$FAKES/pip.log" 2>/dev/null || found=all; cat "$FAKES/$found" ;;
esac
"""


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fakes = pathlib.Path(folder.name) / "fakes"
        self.top = pathlib.Path(folder.name) / "checkout"
        self.fakes.mkdir()
        shutil.copytree(SOURCE / "scripts/lib", self.top / "scripts/lib")
        shutil.copy(SOURCE / "scripts/setup", self.top / "scripts")
        for name in COMMANDS.split():
            if path := shutil.which(name):
                (self.fakes / name).symlink_to(path)
        self.fake("cmake", CMAKE.format(version="3.25.1"))
        self.fake("ninja", "#!/bin/sh\necho 1.11.1\n")
        self.fake("git", "#!/bin/sh\n")
        self.fake("fallocate", "#!/bin/sh\n")  # there is room
        self.python()
        self.found(*FOUND)
        (self.fakes / "all").write_text("".join(f"need {line}\n" for line in FOUND))

    def fake(self, name, text):
        path = self.fakes / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def python(self, name="python3", version="3.11.2", ensurepip="true", index="true"):
        self.fake(name, PYTHON.format(version=version, ensurepip=ensurepip, index=index))

    def found(self, *lines):
        (self.fakes / "found").write_text("".join(f"need {line}\n" for line in lines))

    def lacks(self, *names):
        self.found(*(re.sub(r"[^|]*$", "", line) if line.split("|")[0] in names else line for line in FOUND))

    def pip(self):
        log = self.fakes / "pip.log"
        return log.read_text() if log.exists() else ""

    def has_torch(self):
        for name in ("torch-2.11.0/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",
                     "clang-format-19.1.7/lib/python3.11/site-packages/clang_format/data/bin/clang-format"):
            path = self.top / ".deps" / name
            path.parent.mkdir(parents=True)
            path.touch()

    def setup_ends(self, status, *arguments, **environment):
        fakes = str(self.fakes)
        ended = subprocess.run([self.fakes / "bash", self.top / "scripts/setup", *arguments], capture_output=True,
                               text=True, env={"PATH": fakes, "HOME": fakes, "FAKES": fakes, **environment})
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended

    def row(self, ended, name):
        return next(line for line in ended.stdout.splitlines() if line.startswith(name + " "))

    def test_prints_where_everything_is_and_changes_nothing(self):
        self.has_torch()
        before = sorted(self.top.rglob("*"))
        ended = self.setup_ends(0, "--print")
        self.assertRegex(self.row(ended, "libtorch"), r"2\.11\.0 +\.deps/torch-2\.11\.0$")
        self.assertRegex(self.row(ended, "mpi"), r"3\.1 +/opt/mpi/libmpi\.so$")
        self.assertIn("not needed", self.row(ended, "ccache"))
        self.assertNotIn("missing", ended.stdout)
        self.assertEqual(sorted(self.top.rglob("*")), before)
        self.assertEqual(self.pip(), "")

    def test_prints_what_a_site_has_to_provide(self):
        self.has_torch()
        self.lacks("mpi", "xxhash")
        ended = self.setup_ends(1, "--print")
        self.assertIn("missing: an MPI with mpicc", self.row(ended, "mpi"))
        self.assertIn("missing: xxHash (Spack: xxhash), or scripts/setup fetches it", self.row(ended, "xxhash"))

    def test_print_tells_of_no_libtorch_and_of_an_old_cmake(self):
        self.assertIn("missing: scripts/setup fetches it", self.row(self.setup_ends(1, "--print"), "libtorch"))
        self.fake("cmake", CMAKE.format(version="3.20.2"))
        ended = self.setup_ends(1, "--print")
        self.assertRegex(self.row(ended, "cmake"), r"3\.20\.2 +missing: CMake 3\.25 or later")
        self.assertIn("not looked for without compiler and CMake", self.row(ended, "spdlog"))

    def test_fetches_libtorch_first_and_then_what_cmake_does_not_find(self):
        self.lacks("xxhash", "spdlog", "fmt", "libpng", "googletest")
        ended = self.setup_ends(0)
        asked = re.findall(r"\S+(?===)|\bwheel$|unpack_sources", self.pip(), re.MULTILINE)
        self.assertEqual(asked[:2], ["wheel", "torch"])
        for name in ("tokenspeed-spdlog", "xxhash", "dlib", "ros-gtest-vendor"):
            self.assertEqual(asked.count(name), 1, asked)
        self.assertNotIn("pgm-build-deps", asked)
        self.assertIn(".deps/torch-2.11.0", self.row(ended, "libtorch"))
        # Nothing is asked, looked for or printed again, until the surroundings change.
        (self.fakes / "pip.log").unlink()
        self.assertEqual(self.setup_ends(0).stdout, "")
        self.assertEqual(self.pip(), "")
        self.assertIn("need ", self.setup_ends(0, CMAKE_PREFIX_PATH="/opt/site").stdout)
        (self.fakes / "ninja").unlink()
        self.assertIn("need ", self.setup_ends(1).stdout)

    def test_fetches_cmake_where_it_is_too_old(self):
        self.has_torch()
        (self.fakes / "cmake").rename(self.fakes / "cmake.new")
        self.fake("cmake", CMAKE.format(version="3.20.2"))
        (self.fakes / "cmake.new").chmod(0o755)
        ended = self.setup_ends(0)
        self.assertRegex(self.row(ended, "cmake"), r"3\.25\.1 +\.deps/site/bin/cmake$")
        self.assertIn("export PATH=", ended.stderr)
        self.assertTrue((self.top / ".deps/site/bin/ctest").exists())

    def test_names_what_only_the_site_can_provide_after_all_else_is_there(self):
        self.found(*(line for line in FOUND if not line.startswith("mpi")))
        (self.fakes / "all").write_text((self.fakes / "found").read_text())
        ended = self.setup_ends(1)
        self.assertIn("missing, and not to be had without root: mpi.", ended.stderr)
        self.assertIn("torch==2.11.0", self.pip())
        self.found()
        ended = self.setup_ends(1)
        self.assertIn("not to be had without root: compiler.", ended.stderr)

    def test_goes_on_without_root_on_debian(self):
        self.fake("dpkg-query", "#!/bin/sh\necho 'g++ installed'\n")
        self.fake("apt-get", "#!/bin/sh\necho apt >>$FAKES/apt.log\n")
        self.fake("id", "#!/bin/sh\necho 1000\n")
        self.lacks("cli11")
        ended = self.setup_ends(0)
        self.assertIn("sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake", ended.stderr)
        self.assertIn("pgm-build-deps", self.pip())
        self.assertFalse((self.fakes / "apt.log").exists())
        self.assertIn("these packages need root", self.setup_ends(1, "--slurm").stderr)

    def test_root_installs_packages_on_debian(self):
        self.fake("dpkg-query", "#!/bin/sh\necho 'g++ installed'\n")
        self.fake("apt-get", "#!/bin/sh\necho \"$@\" >>$FAKES/apt.log\n")
        self.fake("id", "#!/bin/sh\necho 0\n")
        self.setup_ends(0)
        asked = (self.fakes / "apt.log").read_text().splitlines()
        self.assertEqual(asked[0], "update -qq")
        self.assertIn(" libgtest-dev python3 python3-venv ccache iproute2", asked[1])
        self.assertNotIn("g++", asked[1])

    def test_is_silent_and_asks_nothing_where_packages_and_libtorch_are_there(self):
        self.has_torch()
        self.fake("dpkg-query", "#!/bin/sh\n[ $1 = -W ] || exit 0\nshift 2\nprintf '%s installed\\n' \"$@\"\n")
        self.fake("apt-get", "#!/bin/sh\nexit 1\n")
        for name in ("cmake", "python3"):
            (self.fakes / name).unlink()
        ended = self.setup_ends(0)
        self.assertEqual(ended.stdout + ended.stderr, "")

    def test_slurm_needs_debian(self):
        self.assertIn("--slurm needs Debian or Ubuntu", self.setup_ends(1, "--slurm").stderr)

    def test_takes_another_python_where_python3_is_too_old(self):
        self.python(version="3.9.18")
        self.python("python3.12", version="3.12.4")
        ended = self.setup_ends(0)
        self.assertRegex(self.row(ended, "python"), r"3\.12\.4 +\S+/python3\.12$")
        ended = self.setup_ends(1, "--cuda", AXONN_PYTHON=str(self.fakes / "python3"))
        self.assertRegex(ended.stderr, r"python3 is 3\.9\.18, and LibTorch needs 3\.10 or later: load a Python of the")

    def refused(self, sentence, **environment):
        """One sentence, before anything was fetched."""
        ended = self.setup_ends(1, **environment)
        self.assertRegex(ended.stderr, sentence)
        self.assertNotIn("torch==", self.pip())
        self.assertFalse(list((self.top / ".deps").glob(".partial-*")))

    def test_refuses_a_python_without_pip_or_none(self):
        self.python(ensurepip="false")
        self.refused(r"\A.*python3 cannot make an environment with pip \(it lacks venv or ensurepip\): load a Python "
                     r"of the site, install the packages python3 python3-venv, or set AXONN_PYTHON to one\n\Z")
        (self.fakes / "python3").unlink()
        self.refused(r"there is no python3: load a Python of the site")
        self.refused(r"there is no /no/python: load", AXONN_PYTHON="/no/python")

    def test_refuses_a_full_quota(self):
        self.fake("fallocate", "#!/bin/sh\necho 'fallocate: Disk quota exceeded' >&2\nexit 1\n")
        self.refused(r"\A.*no room for 2500 MB in .*/\.deps \(full disk or quota\): free some, or put the checkout on "
                     r"a scratch file system\n\Z")

    def test_counts_the_free_space_where_nothing_can_be_allocated(self):
        self.fake("fallocate", "#!/bin/sh\necho 'fallocate: Operation not supported' >&2\nexit 1\n")
        self.fake("df", "#!/bin/sh\necho head\necho 'disk 9000 8000 1000 90% /'\n")
        self.refused("no room for 2500 MB")
        self.fake("df", "#!/bin/sh\necho head\necho 'disk 9000 8000 9000 90% /'\n")
        self.setup_ends(0)

    def test_keeps_no_copies_where_only_home_is_full(self):
        self.fake("fallocate", '#!/bin/sh\ncase "$3" in .deps/*) ;; *) echo "No space left" >&2; exit 1 ;; esac\n')
        self.assertIn("pip keeps no copies there", self.setup_ends(0).stderr)

    def test_a_noexec_checkout_is_refused_and_a_noexec_tmpdir_does_no_harm(self):
        self.setup_ends(0, TMPDIR="/no/such/folder")
        shutil.rmtree(self.top / ".deps")
        (self.fakes / "pip.log").unlink()
        self.fake("chmod", "#!/bin/sh\n")
        self.refused(r"/\.deps is on a file system mounted noexec: put the checkout where programs may run")

    def test_refuses_an_index_that_does_not_answer(self):
        self.python(index="echo 'ERROR: no route to host' >&2; exit 1")
        self.refused(r"no route to host\n.*pip cannot reach its package index: .*PIP_INDEX_URL")

    def test_refuses_an_unknown_option(self):
        self.assertIn("unknown option '--prnt'", self.setup_ends(1, "--prnt").stderr)

    def test_its_needs_are_those_of_the_build(self):
        table = re.search(r"\nneeds='\n(.*?)'\n", (SOURCE / "scripts/setup").read_text(), re.DOTALL).group(1)
        names = {line.split("|")[0].strip() for line in table.splitlines()}
        build = re.findall(r"axonn_found\(([a-z0-9+-]+)", (SOURCE / "cmake/AxonnNeeds.cmake").read_text())
        self.assertEqual(set(build) | {"compiler", "cmake", "ninja", "git", "python", "ccache?", "iproute2?"}, names)
        found = re.findall(r"find_(?:package|path)\(\w+", (SOURCE / "cmake/AxonnNeeds.cmake").read_text())
        self.assertEqual(len(found), len(set(build)) + 1, "all but Threads are needs")
        self.assertNotRegex((SOURCE / "cmake/AxonnDependencies.cmake").read_text(), r"find_(package|path|library)")


class UnpackSources(unittest.TestCase):
    def unpack(self, known=True, **archives):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        (self.top / "archives").mkdir()
        for name, files in archives.items():
            if name == "xxhash":
                with tarfile.open(self.top / "archives/xxhash-1.tar.gz", "w:gz") as archive:
                    for file in files:
                        archive.addfile(tarfile.TarInfo(f"xxhash-1/{file}"))
            else:
                with zipfile.ZipFile(self.top / f"archives/{name}-1-py3-none-any.whl", "w") as archive:
                    for file in files:
                        archive.writestr(file, "")
        sums = {path.name.split("-")[0]: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in (self.top / "archives").iterdir()}
        program = "import sys; import unpack_sources as it; " + (f"it.SUMS = {sums}; " if known else "")
        return subprocess.run([sys.executable, "-c", program + "it.main(sys.argv[1:])",
                               *(self.top / part for part in ("archives", "site", "sources"))],
                              capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(SOURCE / "scripts/lib")})

    def files(self):
        return sorted(str(path.relative_to(self.top)) for part in ("site", "sources")
                      for path in (self.top / part).rglob("*") if path.is_file())

    def test_headers_go_to_the_site_and_sources_to_the_sources(self):
        ended = self.unpack(xxhash=["deps/xxhash/xxhash.h", "deps/xxhash/xxhash.c", "setup.py"],
                            ros_gtest_vendor=["x.data/data/src/gtest_vendor/src/gtest-all.cc"],
                            tokenspeed_spdlog=["tokenspeed_spdlog/include/spdlog/fmt/bundled/core.h"])
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.files(), ["site/include/fmt/core.h", "site/include/spdlog/fmt/bundled/core.h",
                                        "site/include/xxhash.h", "sources/googletest/src/gtest-all.cc"])

    def test_refuses_an_archive_with_other_bytes(self):
        ended = self.unpack(known=False, xxhash=["deps/xxhash/xxhash.h"])
        self.assertEqual(ended.returncode, 1)
        self.assertIn("xxhash-1.tar.gz is not the archive that axonn knows: its sha256 is", ended.stderr)
        self.assertEqual(self.files(), [])

    def test_refuses_an_archive_without_its_part_or_with_a_path_that_leads_out(self):
        self.assertIn("xxhash-1.tar.gz lacks site/include/", self.unpack(xxhash=["other.h"]).stderr)
        self.assertIn("leads out", self.unpack(xxhash=["deps/xxhash/../../../../../out.h"]).stderr)


if __name__ == "__main__":
    unittest.main()
