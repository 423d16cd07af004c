"""An exception at each place of a step, on every rank, destroys all that there is: the program ends with
status 1, and nothing is read or freed that was freed before.

Every day each by itself on two ranks, and all after each other in one program that goes on; every night each
by itself on 1, 2 and 4 ranks over MPI and TCP, and under valgrind where the build has no AddressSanitizer of
its own."""
import shutil
import subprocess
import unittest

from program_runs import HAS_MPI, PROGRAM, ProgramTest, nightly

FAULTS = ("AddressSanitizer", "terminate called", "SIGABRT", "SIGSEGV", "corrupted", "free()", "Invalid read",
          "Invalid write", "Invalid free", "runtime error:")
# Memory that MPI's libraries never free is theirs; over TCP, leaks are looked for too.
WITHOUT_LEAKS = {"mpi": {"ASAN_OPTIONS": "detect_leaks=0"}, "tcp": {}}
VALGRIND = ["valgrind", "--error-exitcode=99", "--undef-value-errors=no", "--leak-check=no", "--quiet"]
PLACES = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout.split()


def is_sanitized():
    return b"__asan_init" in subprocess.run(["nm", "-D", "--undefined-only", PROGRAM], capture_output=True,
                                            check=False).stdout


class StepErrors(ProgramTest):
    def check(self, place, ranks, launcher, seconds=60, **options):
        with self.subTest(place=place, ranks=ranks, launcher=launcher):
            ended = self.run_program(place, f"1x1x{ranks}x1", ranks=ranks, launcher=launcher, seconds=seconds,
                                     environment=WITHOUT_LEAKS[launcher], **options)
            self.assertEqual(ended.status, 1, ended.text)
            self.assertIn("caught: ", ended.text)
            for fault in FAULTS:
                self.assertNotIn(fault, ended.text)
            return ended

    def test_two_ranks_end_with_status_1(self):
        for place in PLACES:
            self.check(place, 2, "mpi" if HAS_MPI else "tcp")

    def test_two_ranks_go_on_after_each(self):
        ended = self.check("each", 2, "mpi" if HAS_MPI else "tcp")
        for place in PLACES:
            self.assertEqual(ended.text.count(f"{place}: "), 2, ended.text)
        self.assertEqual(ended.text.count("caught: thrown on purpose"), 2, ended.text)

    @nightly
    def test_on_any_number_of_ranks_and_transport(self):
        for place in PLACES:
            for ranks in (1, 2, 4):
                for launcher in ("mpi", "tcp") if HAS_MPI else ("tcp",):
                    self.check(place, ranks, launcher)

    @nightly
    def test_under_valgrind(self):
        if is_sanitized():
            self.skipTest("the build has AddressSanitizer")
        if shutil.which("valgrind") is None:
            self.skipTest("no valgrind: apt-get install valgrind")
        for place in PLACES:
            for ranks in (1, 2):
                self.check(place, ranks, "tcp", seconds=600, prefix=lambda rank: VALGRIND)


if __name__ == "__main__":
    unittest.main()
