"""The counts of `scale --simulate` for 4096 and 16384 ranks, every night also for 65536. AXONN_BIN is the folder of
the built programs."""
import functools
import math
import os
import pathlib
import re
import subprocess
import unittest

GRIDS = {4096: "8x4x32x4", 16384: "8x4x128x4"}
if os.environ.get("AXONN_TEST_NIGHTLY"):
    GRIDS[65536] = "8x4x512x4"
MOST_LETTERS, COLLECTIVES_OF_SAVE, COLLECTIVES_OF_RESUME, MOST_CALLS, MOST_MB = 30, 6, 8, 2, 200
CALLS_PER_FILE, OTHER_CALLS = 3, 40  # rank 0 looks at the new files and at the old ones, and removes these
CHUNK = 1 << 16  # bytes of a manifest in a message on the ring


@functools.cache
def table(ranks):
    program = pathlib.Path(os.environ["AXONN_BIN"]) / "scale"
    ended = subprocess.run([program, "--simulate", GRIDS[ranks]], stdout=subprocess.PIPE, text=True)
    return ended.returncode, ended.stdout


def number(text, pattern):
    return float(re.search(pattern, text).group(1))


class ScaleTest(unittest.TestCase):
    def setUp(self):
        self.tables = {ranks: table(ranks)[1] for ranks in GRIDS}

    def test_limits_of_the_program_hold(self):
        for ranks in GRIDS:
            self.assertEqual(table(ranks)[0], 0, self.tables[ranks])

    def test_no_rank_writes_to_many_about_a_hang(self):
        for ranks, text in self.tables.items():
            self.assertIn(f"report of a hang of {ranks} ranks, all have the same error", text)
            self.assertLessEqual(number(text, r"sends most +(\d+) messages"), MOST_LETTERS)

    def test_messages_of_a_checkpoint_grow_with_the_logarithm(self):
        for ranks, text in self.tables.items():
            small = 2 * math.log2(ranks)
            megabytes = number(text, r"manifest of ([\d.]+) MB")
            for who in text.split("checkpoint of")[1].split(":\n")[1:]:
                self.assertLessEqual(number(who, r"save +(\d+) messages"), COLLECTIVES_OF_SAVE * small)
                self.assertLessEqual(number(who, r"but for the tensors +(\d+) messages"),
                                     COLLECTIVES_OF_RESUME * small + 2e6 * megabytes / CHUNK)

    def test_only_rank_0_looks_at_many_files(self):
        for text in self.tables.values():
            files = number(text, r"(\d+) files")
            rank_0, last = text.split("  rank 0:\n")[1].split("  the last rank:\n")
            if "save -1" in text:
                self.skipTest("this machine does not let a process trace its child")
            for operation, of_rank_0 in (("save", CALLS_PER_FILE * files), ("resume", files)):
                calls = rf"operations:.*{operation} (\d+)"
                self.assertLessEqual(number(last, calls), MOST_CALLS)
                self.assertGreaterEqual(number(rank_0, calls), of_rank_0)
                self.assertLessEqual(number(rank_0, calls), of_rank_0 + OTHER_CALLS)

    def test_a_manifest_takes_little_memory(self):
        for text in self.tables.values():
            for megabytes in re.findall(r"plan take ([\d.]+) MB", text):
                self.assertLess(float(megabytes), MOST_MB)


if __name__ == "__main__":
    unittest.main()
