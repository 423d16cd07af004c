"""Manual pages of the Debian packages are made from --help."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from recipe_files import BUILD, SOURCE, VERSION, Scratch, run

HELP = """Makes \\things, "quickly". And more.

  things --all       .all of them

Usage: things [OPTIONS] [SUBCOMMAND]

Options:
  -h,--help                   Print this help message and exit
  --a-flag-with-a-long-name ONE|TWO
                              one of two
  --exactly-twenty-nine TEXT  its description begins after one space

[model]:
  --size INT Excludes: --all  'size'

Subcommands:
  make                        makes them

Exit status: 0 done.
"""
SUBCOMMAND = """makes them
Usage: things make [OPTIONS] name

Positionals:
  name TEXT REQUIRED          its name

Options:
  -h,--help                   Print this help message and exit
"""


def page_of(program):
    return run(sys.executable, SOURCE / "scripts/lib/manual_page.py", program, VERSION)


class ManualPages(Scratch):
    def program(self):
        program = self.scratch / "things"
        program.write_text("#!/bin/sh\n[ $# = 1 ] && cat <<'END' && exit\n" + HELP + "END\ncat <<'END'\n" + SUBCOMMAND +
                           "END\n")
        program.chmod(0o755)
        return program

    def assert_is_a_page(self, page):
        self.assertRegex(page, r"\A\.TH ")
        if shutil.which("groff"):
            ended = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_a_page_has_what_help_says(self):
        page = page_of(self.program())
        self.assert_is_a_page(page)
        for part in (f'.TH THINGS 1 "" "axonn {VERSION}" "axonn"\n',
                     "\nthings \\- makes \\ethings, \\(dqquickly\\(dq\n",
                     ".B things\n[OPTIONS] [SUBCOMMAND]\n", ".nf\n  things \\-\\-all       .all of them\n.fi\n",
                     ".B \\-\\-a\\-flag\\-with\\-a\\-long\\-name ONE|TWO\none of two\n",
                     ".B \\-\\-exactly\\-twenty\\-nine TEXT\nits description begins", ".SS model\n",
                     ".B \\-\\-size INT\n\\&'size'\n", ".SH COMMANDS\n.TP\n.B make\nmakes them\n",
                     '.SH "THINGS MAKE"\n.B things make\n[OPTIONS] name\n',
                     ".SS Positionals\n.TP\n.B name TEXT REQUIRED",
                     ".SH NOTES\nExit status: 0 done.\n"):
            self.assertIn(part, page)
        self.assertEqual(page.count("Print this help message"), 1)

    def test_a_program_without_help_has_no_page(self):
        program = self.scratch / "silent"
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)
        ended = subprocess.run([sys.executable, SOURCE / "scripts/lib/manual_page.py", program, VERSION],
                               capture_output=True)
        self.assertNotEqual(ended.returncode, 0)

    @unittest.skipUnless((BUILD / "bin/axonn-config").exists(), "this build has no axonn-config")
    def test_the_planner_has_a_page(self):
        page = page_of(BUILD / "bin/axonn-config")
        self.assert_is_a_page(page)
        for name in ("explain", "launch", "calibrate"):
            self.assertIn(f'.SH "AXONN\\-CONFIG {name.upper()}"', page)
        self.assertGreater(len(re.findall(r"^\.TP$", page, re.M)), 60)


if __name__ == "__main__":
    unittest.main()
