"""The wheel of axonn-config: pip installs it without a network, it needs nothing of the machine, and its
program says what the build's says. scripts/wheel makes it of preset wheel, this test of any build."""
import base64
import email
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from recipe_files import BUILD, SOURCE, VERSION, Scratch, cached, run

STATIC = BUILD / "static/axonn-config"
WRITE = SOURCE / "scripts/lib/write_wheel.py"
LICENCES = [library for part in ("PLANNER", "STATIC") for library in cached(f"AXONN_{part}_LICENCES").split(";")]
MISSING = [library for library in LICENCES if not pathlib.Path(f"/usr/share/doc/{library}/copyright").exists()]
LINES = (["--version"], ["--help"], ["--help-all"], ["--gpus", "64", "--model", "gpt5b", "--top", "3"],
         ["--gpus", "256", "--model", "unet2b", "--csv"], ["--gpus", "8..512", "--model", "gpt5b", "--json"],
         ["explain", "8x1x8x1", "--model", "gpt5b", "--json"], ["machine", "perlmutter"],
         ["synthesize", "[[2 2] [2 2]]", "--reduce", "0"], ["--gpus", "8", "--model", "gpt6b"],
         ["--gpus", "8", "--model", "nowhere/config.json"])


def answer(program, line):
    ended = subprocess.run([program, *line], capture_output=True, text=True, timeout=60)
    return ended.returncode, re.sub(r"in [\d.]+ ms", "in some ms", ended.stdout), ended.stderr


@unittest.skipUnless(STATIC.exists(), "this build makes no static programs: sanitizers are on, or there is no libc.a")
@unittest.skipIf(MISSING, f"wheels are made on a Debian with {', '.join(MISSING)}, whose licences they carry")
class Wheel(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.write("dist")
        cls.archive = zipfile.ZipFile(cls.file)
        cls.addClassCleanup(cls.archive.close)
        cls.info = f"axonn_config-{VERSION}.dist-info"
        cls.venv = cls.scratch / "venv"
        run(sys.executable, "-m", "venv", cls.venv)
        run(cls.venv / "bin/python", "-m", "pip", "install", "--no-index", "--disable-pip-version-check", cls.file)
        cls.program = cls.venv / "bin/axonn-config"

    @classmethod
    def write(cls, folder, environment=None):
        run(sys.executable, WRITE, BUILD, cls.scratch / folder, environment=environment)
        file, = (cls.scratch / folder).iterdir()
        return file

    def test_its_program_says_what_the_builds_says(self):
        for line in LINES:
            with self.subTest(line):
                mine, its = answer(self.program, line), answer(BUILD / "bin/axonn-config", line)
                self.assertEqual(mine, its)
                self.assertTrue(mine[1] or mine[2])

    def test_its_program_needs_no_library(self):
        self.assertEqual(self.program.read_bytes(), STATIC.read_bytes())
        headers = run("readelf", "--wide", "--program-headers", "--dynamic", self.program)
        self.assertIn("There is no dynamic section in this file", headers)
        self.assertNotIn("INTERP", headers)
        self.assertNotIn("NEEDED", headers)
        # The same in a folder where nothing else is.
        ended = subprocess.run([self.program, "--version"], env={}, capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stdout), (0, f"{VERSION}\n"))

    def test_it_is_small(self):
        self.assertLess(self.file.stat().st_size, 5_000_000)

    def test_the_same_program_gives_the_same_bytes(self):
        environment = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
        self.assertEqual(self.write("again", environment).read_bytes(), self.file.read_bytes())

    def test_its_name_and_tags_are_those_of_a_static_program(self):
        tags = [f"{system}_{os.uname().machine}" for system in ("manylinux2014", "manylinux_2_17", "musllinux_1_1")]
        self.assertEqual(self.file.name, f"axonn_config-{VERSION}-py3-none-{'.'.join(tags)}.whl")
        wheel = email.message_from_bytes(self.archive.read(f"{self.info}/WHEEL"))
        self.assertEqual(wheel.get_all("Tag"), [f"py3-none-{tag}" for tag in tags])
        self.assertEqual(wheel["Root-Is-Purelib"], "false")

    def test_its_record_names_every_file_with_its_sum(self):
        rows = [line.split(",") for line in self.archive.read(f"{self.info}/RECORD").decode().splitlines()]
        self.assertEqual([row[0] for row in rows], self.archive.namelist())
        for name, digest, size in rows[:-1]:
            content = self.archive.read(name)
            its = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            self.assertEqual((digest, size), (f"sha256={its}", str(len(content))))

    def test_its_metadata_is_complete(self):
        metadata = email.message_from_string(self.archive.read(f"{self.info}/METADATA").decode())
        self.assertEqual((metadata["Name"], metadata["Version"]), ("axonn-config", VERSION))
        self.assertEqual(metadata.get_payload(), (SOURCE / "packaging/wheel/description.md").read_text())
        self.assertEqual(metadata["Description-Content-Type"], "text/markdown")
        for licence in ("Apache-2.0", "LGPL-2.1-or-later", "GPL-3.0-or-later WITH GCC-exception-3.1"):
            self.assertIn(licence, metadata["License-Expression"])
        files = metadata.get_all("License-File")
        self.assertEqual({f"{self.info}/licenses/{file}" for file in files},
                         {name for name in self.archive.namelist() if "/licenses/" in name})
        libraries = self.archive.read(f"{self.info}/licenses/libraries.txt").decode()
        for library in LICENCES:
            self.assertIn(f"==== {library} ", libraries)
        said = run(self.venv / "bin/python", "-m", "pip", "show", "--disable-pip-version-check", "axonn-config")
        self.assertIn(f"Version: {VERSION}\n", said)

    def test_the_description_shows_what_the_program_prints(self):
        text = (SOURCE / "packaging/wheel/description.md").read_text()
        blocks = re.findall(r"```\n\$ axonn-config (.*)\n((?:.*\n)*?)```", text)
        self.assertGreater(len(blocks), 2)
        for command, shown in blocks:
            said = answer(self.program, command.split())[1]
            for line in shown.splitlines():  # shortened on its right side
                self.assertIn("\n" + line, said)

    def test_programs_with_shared_libraries_are_refused(self):
        build = self.scratch / "build"
        (build / "static").mkdir(parents=True)
        shutil.copy(BUILD / "CMakeCache.txt", build)
        self.assertIn("build the target axonn-config-static", run(sys.executable, WRITE, build, self.scratch, status=1))
        shutil.copy(BUILD / "bin/axonn-config", build / "static")
        self.assertIn("the program loads shared libraries", run(sys.executable, WRITE, build, self.scratch, status=1))


class Refusals(Scratch):
    def test_unknown_options_and_two_folders(self):
        script = SOURCE / "scripts/wheel"
        self.assertIn("unknown option '--fast'; usage: scripts/wheel [FOLDER]", run(script, "--fast", status=1))
        self.assertIn("needs one folder, got 2: a b", run(script, "a", "b", status=1))


if __name__ == "__main__":
    unittest.main()
