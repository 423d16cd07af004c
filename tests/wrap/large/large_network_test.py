"""Networks whose memory is three times what a rank may have: weights and gradients, or only weights where
all but the last block are frozen. They are made by on_meta(), trained for two steps and saved on four ranks.
Without on_meta() they do not fit."""
import pathlib
import tempfile
import unittest

from program_runs import ProgramTest

RANKS = 4
LIMIT_MIB = 3072  # `ulimit -v`; 550 of them are the program's and LibTorch's own
BLOCK_MIB = 16


def limited(rank):
    del rank
    return ["bash", "-c", f'ulimit -v {LIMIT_MIB * 1024}; exec "$@"', "limited"]


class LargeNetwork(ProgramTest):
    def run_mode(self, mode, blocks):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "net.safetensors"
            ended = self.run_program(mode, str(blocks), str(file), ranks=RANKS, launcher="tcp", seconds=600,
                                     prefix=limited, environment={"MALLOC_ARENA_MAX": "1"})
            return ended, file.stat().st_size >> 20 if file.exists() else 0

    def check(self, kind, blocks):
        ended, size = self.run_mode("meta" + kind, blocks)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertGreaterEqual(size, blocks * BLOCK_MIB)
        self.assertRegex(ended.out, "loss [0-9.e-]+, network [0-9]+ MiB")
        ended, _ = self.run_mode("plain" + kind, blocks)
        self.assertNotEqual(ended.status, 0)
        self.assertIn("allocate memory", ended.text)

    def test_weights_and_gradients_of_three_times_the_limit(self):
        self.check("", 3 * LIMIT_MIB // BLOCK_MIB // 2)

    def test_frozen_weights_of_three_times_the_limit(self):
        self.check("-frozen", 3 * LIMIT_MIB // BLOCK_MIB)


if __name__ == "__main__":
    unittest.main()
