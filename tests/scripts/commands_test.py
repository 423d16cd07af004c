"""scripts/checks/commands.py runs what a page says, and compares what the page says is printed."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMANDS = pathlib.Path(os.environ["AXONN_SOURCE"]) / "scripts/checks/commands.py"


class CommandsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / "docs").mkdir()

    def ended(self, text, *arguments, page="docs/page.md", status=0):
        (self.root / page).write_text(text)
        ended = subprocess.run([sys.executable, COMMANDS, self.root, self.root / "none", *arguments],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout

    def printed(self, command, *lines, **options):
        return self.ended("\n".join(["```sh run", command, "```", "It prints:", "", "```text printed", *lines, "```"]),
                          **options)

    def test_words_must_come_in_their_order_and_numbers_may_be_others(self):
        command = "echo 'loss  3.5 of 1,200'; echo other; echo 'rate -1e-3 done'"
        self.printed(command, "loss 2.75 of 8", "rate 0.1 done")
        self.printed(command, "loss 2.75 ...", "...", "rate ... done")
        for lines in (("rate 0.1 done", "loss 2.75 of 8"), ("lost 2.75 of 8",), ("loss 2.75 of x",)):
            said = self.printed(command, *lines, status=1)
            self.assertIn("not printed: " + (lines[-1] if len(lines) > 1 else lines[0]), said)

    def test_a_page_ends_at_its_first_failure_and_names_the_line(self):
        said = self.ended("```sh run\nfalse\n```\n```sh run\ntouch there\n```\n", status=1)
        self.assertIn("docs/page.md:2: status 1", said)
        self.assertNotIn("docs/page.md:5", said)

    def test_blocks_of_a_page_share_a_folder(self):
        self.ended("```sh run\necho one >made\n```\n\n```sh run\ngrep one made\nls docs/page.md\n```\n")

    def test_long_blocks_are_for_the_night_with_all_others_of_their_page(self):
        text = "```sh run\necho short\n```\n\n```sh run long\necho long\n```\n"
        self.assertEqual(self.ended(text).count("status 0"), 1)
        self.assertEqual(self.ended(text, "--long").count("status 0"), 2)
        self.assertIn("no block was run", self.ended("```sh run\ntrue\n```\n", "--long", status=1))

    def test_a_page_changes_its_commands_by_day_and_by_night(self):
        text = ("<!-- by day: `--steps 50` is `--steps 5`;\n  `--batch 8` is `--batch 2` -->\n"
                "<!-- by night: `--steps 50` is `--steps 9` -->\n\n"
                "```sh run\necho --steps 50 --batch 8 | tee said\n```\n\n"
                "```sh run\ngrep -x -- \"$(cat want)\" said\n```\n")
        for want, options in (("--steps 5 --batch 2", ()), ("--steps 9 --batch 8", ("--long",))):
            (self.root / "want").write_text(want)
            self.ended(text, *options)
        said = self.ended(text.replace("--batch 8 |", "--batch 80 |"), status=1)
        self.assertEqual(said, "")  # a change that names nothing ends the check

    def test_a_page_is_skipped_without_what_it_needs(self):
        text = "<!-- needs: model/file, which scripts/setup makes -->\n\n```sh run\nls model/file\n```\n"
        self.assertIn("docs/page.md is skipped, it needs model/file, which", self.ended(text, status=77))
        (self.root / "model").mkdir()
        (self.root / "model/file").touch()
        self.ended(text)

    def test_python_finds_the_packages_of_a_folder_that_a_page_needs(self):
        folder = self.root / "kept/one-1.2/lib/python3.11/site-packages"
        folder.mkdir(parents=True)
        (folder / "of_the_page.py").write_text("words = 'found'\n")
        text = "```sh run\npython3 -c 'import of_the_page; print(of_the_page.words)'\n```\n"
        self.ended(text, status=1)
        self.ended("<!-- needs: kept/one-*, which somebody makes -->\n" + text)

    def test_tutorials_are_run_if_they_are_named(self):
        page = "docs/tutorial-one.md"
        self.assertIn("no block was run", self.ended("```sh run\ntrue\n```\n", page=page, status=1))
        self.assertIn(f"{page}:2: status 0", self.ended("```sh run\ntrue\n```\n", page, page=page))


if __name__ == "__main__":
    unittest.main()
