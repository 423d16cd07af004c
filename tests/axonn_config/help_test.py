"""Help lists every subcommand, and each subcommand's flags, wherever its name stands. The flags for
experts are in --help-all only."""
import re
import unittest

from planner_runs import PlannerTest

FLAGS = {"explain": ["grid", "--model", "--hidden", "--machine", "--json", "--against", "--verbose"],
         "launch": ["grid", "--model", "--batch", "--launcher", "--verbose"],
         "machine": ["name", "--verbose"],
         "fit": ["runs", "--machine", "--model", "--out", "--json"],
         "validate": ["runs", "--machine", "--model", "--plot", "--json"],
         "simulate": ["--program", "--machine", "--bytes", "--verbose"],
         "synthesize": ["--reduce", "--goal", "--top", "--json", "--verbose"],
         "export": ["grid", "--to", "--model", "--precision", "--verbose"],
         "import": ["file", "--from", "--gpus", "--verbose"]}

EXPERTS = ["--mode", "--coefficients", "--order", "--reduction", "--memory-margin", "--overlap",
           "--optimizer-schedule", "--what-if", "--min-tensor", "--max-tensor", "--knee", "--csv", "--sensitivity",
           "--measurements", "--kv-heads", "--gated,--no-gated", "--experts"]


class Help(PlannerTest):
    def test_of_the_program_lists_subcommands_and_flags(self):
        text = self.run_program("--help").stdout
        for word in [*FLAGS, "calibrate", "--gpus", "--top", "--fix", "--plot", "--version"]:
            self.assertRegex(text, rf"(?m)^  (-\w,)?{word}\b")
        self.assertNotIn("--against", text)

    def test_of_each_subcommand_lists_its_flags(self):
        for command, flags in FLAGS.items():
            text = self.run_program(command, "--help").stdout
            for flag in flags:
                self.assertRegex(text, rf"(?m)^  {flag}\b", command)
            self.assertEqual(self.run_program("--gpus", "8", command, "--help").stdout, text)

    def test_flags_for_experts_are_in_the_whole_help_only(self):
        first, whole = (self.run_program(flag).stdout for flag in ("--help", "--help-all"))
        flags_of = lambda text: set(re.findall(r"(?m)^  (?:-\w,)?(--\S+)", text))
        self.assertLess(flags_of(first), flags_of(whole))
        self.assertLessEqual(set(EXPERTS), flags_of(whole) - flags_of(first))
        for command, flag in (("explain", "--what-if"), ("launch", "--overlap"), ("fit", "--kv-heads")):
            self.assertNotIn(f"\n  {flag} ", self.run_program(command, "--help").stdout)
            self.assertIn(f"\n  {flag} ", self.run_program(command, "--help-all").stdout)

    def test_names_of_subcommands_may_be_values(self):
        self.refuse("--gpus", "8", "--model", "fit", words=["unknown model 'fit'"])
        self.refuse("explain", "export", "--model", "gpt5b", words=["got 'export'"])


if __name__ == "__main__":
    unittest.main()
