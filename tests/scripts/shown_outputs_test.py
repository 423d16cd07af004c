"""scripts/shown_outputs.py runs the commands of a block on a terminal, and keeps what a reader would see."""
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["AXONN_SOURCE"])
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "scripts/checks")]
import markdown  # noqa: E402
import shown_outputs  # noqa: E402


class ShownOutputs(unittest.TestCase):
    def made_again(self, text, *info):
        with tempfile.TemporaryDirectory() as folder:
            return shown_outputs.made_again(markdown.Block(1, ["console", *info], text), folder)

    def test_each_command_gets_its_new_output(self):
        text, failed = self.made_again("$ echo one \\\n  two\nold\nlines\n$ echo three >&2\nold\n")
        self.assertEqual((text, failed), ("$ echo one \\\n  two\none two\n$ echo three >&2\n", []))

    def test_the_output_is_a_terminal_of_100_columns(self):
        text, failed = self.made_again("$ [ -t 1 ]; stty size <&1\n")
        self.assertEqual((text, failed), ("$ [ -t 1 ]; stty size <&1\n24 100\n", []))

    def test_a_line_that_was_redrawn_has_its_last_state(self):
        self.assertEqual(shown_outputs.shown("a\r\n\rstep 1\x1b[K\rstep 2 of 2\x1b[K\r\nend  \r\n", 9),
                         ["a", "step 2 of 2", "end"])

    def test_long_outputs_lose_their_middle_and_long_lines_their_end(self):
        self.assertEqual(shown_outputs.shown("".join(f"{i}\r\n" for i in range(20)), 8),
                         ["0", "1", "2", "3", "4", "...", "18", "19"])
        self.assertEqual(shown_outputs.shown("x" * 150, 8), ["x" * 100])

    def test_a_command_that_fails_is_a_fault_with_its_error(self):
        _, (fault,) = self.made_again("$ echo why >&2; exit 3\n")
        self.assertTrue(fault.startswith("status 3: echo why"), fault)
        self.assertIn("\nwhy\n", fault.replace("\r", ""))

    def test_times_may_differ_and_nothing_else(self):
        same = shown_outputs.without_times
        self.assertEqual(same("286 grids in 3.7 ms\n1 2\n"), same("286 grids in 10.\n1 2\n"))
        self.assertNotEqual(same("286 grids in 3.7 ms\n1 2\n"), same("285 grids in 3.7 ms\n1 2\n"))
        self.assertNotEqual(same("1 2\n"), same("1 3\n"))


if __name__ == "__main__":
    unittest.main()
