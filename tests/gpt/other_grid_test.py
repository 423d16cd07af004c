"""A checkpoint of one grid can be read on every other grid."""
import unittest

from gpt_runs import GptTest
from program_runs import NIGHT, losses, needs_mpi

SCHEDULES = ("mm-rs-c-ag", "overlap", "auto")


@needs_mpi
class OtherGrid(GptTest):
    def test_a_run_goes_on_elsewhere_with_the_same_losses_and_writes_the_same_text(self):
        self.goes_on_elsewhere()

    def test_a_vocabulary_that_is_padded_to_tiles(self):
        """Of 4099 tokens one rank holds 4224 rows, and the four ranks along X 1152 each."""
        self.goes_on_elsewhere("--vocab", "4099", "--tied", grids=(("1x1x1x1", 1), ("4x1x1x1", 4)),
                               schedules=SCHEDULES if NIGHT else ())

    def test_a_run_whose_ranks_divide_the_rows_of_norms(self):
        self.goes_on_elsewhere("--norm-rows", "on", "--dropout", "0.1", grids=(("1x1x1x1", 1), ("4x1x1x1", 4)),
                               schedules=())

    def test_a_run_whose_ranks_divide_sequences(self):
        self.goes_on_elsewhere("--context", "2", "--dropout", "0.1", grids=(("1x1x1x1", 1), ("1x1x1x4", 4)),
                               schedules=(), resumed=("--context", "1"))

    def test_a_run_that_divides_sequences_after_its_beginning(self):
        self.goes_on_elsewhere("--dropout", "0.1", grids=(("1x1x4x1", 4), ("1x1x2x1", 2)), schedules=(),
                               resumed=("--context", "2"))

    def test_a_run_that_divides_all_that_can_be_divided(self):
        divided = "--attention-rows", "on", "--norm-rows", "on", "--context", "2"
        for grid, other in (("1x2x2x1", "2x1x2x1"), ("2x1x2x1", "1x2x2x1")):
            self.goes_on_elsewhere(*divided, "--dropout", "0.1", first=grid, grids=((other, 4),), schedules=())

    def goes_on_elsewhere(self, *network, first="2x1x2x1", grids=(("1x1x1x1", 1), ("1x2x1x2", 4)), schedules=SCHEDULES,
                          resumed=()):
        whole = self.train(f"from-{first}", "--grid", first, "--steps", "12", "--save-every", "6", *network, ranks=4)
        for grid, ranks in grids:
            with self.subTest(grid):
                out = self.directory / f"from-{first}-on-{grid}"
                ended = self.gpt("train", "--resume", whole / "step-000006", "--grid", grid, "--out", out, *resumed,
                                 ranks=ranks)
                self.assertEqual(ended.status, 0, ended.text)
                expected = dict(list(losses(whole).items())[6:])
                mine = losses(out)
                self.assertEqual(list(mine), list(expected))
                for step, loss in expected.items():
                    self.assertAlmostEqual(float(mine[step]) / float(loss), 1, delta=1e-5, msg=f"step {step}")

        texts = {}
        for grid, ranks in (*grids, ("2x1x2x1", 4)):
            ended = self.gpt("generate", "--checkpoint", whole, "--prompt", "line 7", "--tokens", "24",
                             "--temperature", "0", "--grid", grid, ranks=ranks)
            self.assertEqual(ended.status, 0, ended.text)
            texts[grid] = ended.out
        for schedule in schedules:
            ended = self.gpt("generate", "--checkpoint", whole, "--prompt", "line 7", "--tokens", "24",
                             "--temperature", "0", "--grid", "2x1x2x1", "--linear-schedule", schedule, ranks=4)
            self.assertEqual(ended.status, 0, ended.text)
            texts[schedule] = ended.out
        self.assertTrue(texts["2x1x2x1"].startswith("line 7"))
        self.assertEqual(len(set(texts.values())), 1, texts)

    def test_replicas_hold_the_same_bits_after_every_step(self):
        for grid, rows in (("2x2x1x1", "off"), ("1x1x2x2", "off"), ("2x2x1x1", "on")):
            with self.subTest(grid=grid, rows=rows):
                self.train(f"on-{grid}-{rows}", "--grid", grid, "--steps", "4", "--check-replicas", "1", "--dropout",
                           "0.1", "--norm-rows", rows, ranks=4)


if __name__ == "__main__":
    unittest.main()
