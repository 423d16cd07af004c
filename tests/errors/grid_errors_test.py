"""A grid, a network and a batch that do not fit each other."""
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import needs_mpi

GRIDS_OF_4 = "Grids of 4: 1x1x1x4, 1x1x2x2, 1x1x4x1, 1x2x1x2, 1x2x2x1, 1x4x1x1, 2x1x1x2, 2x1x2x1, 2x2x1x1, 4x1x1x1"


class GridErrors(GptTest):
    def refuse_train(self, *arguments, words, **options):
        self.refuse("train", "--data", self.text, "--out", "run", *TRAINING, *arguments, words=words, **options)

    @needs_mpi
    def test_another_product_than_the_ranks_lists_all_grids(self):
        self.refuse_train("--grid", "2x2x2x1", words=["grid 2x2x2x1 needs 8 ranks, this job has 4. " + GRIDS_OF_4],
                          ranks=4)

    def test_another_product_over_tcp(self):
        self.refuse("verify", "--grid", "2x2x1x1",
                    words=["grid 2x2x1x1 needs 4 ranks, this job has 2. Grids of 2: 1x1x1x2, "], ranks=2,
                    launcher="tcp")

    def test_a_grid_of_a_program_that_nobody_launched(self):
        self.refuse_train("--grid", "2x1x2x1", words=["needs 4 ranks", "started by itself", "mpirun -n 4"])

    @needs_mpi
    def test_heads_that_do_not_divide(self):
        self.refuse_train("--grid", "4x1x1x1", "--heads", "2",
                          words=["heads must divide by x, got heads = 2 and x = 4"], ranks=4)

    @needs_mpi
    def test_hidden_that_does_not_divide(self):
        self.refuse_train("--grid", "1x3x1x1", words=["hidden must divide by y, got hidden = 16 and y = 3"], ranks=3)

    def test_heads_that_do_not_divide_hidden(self):
        self.refuse_train("--heads", "3", words=["hidden must divide by heads", "16", "3"])

    @needs_mpi
    def test_a_batch_that_does_not_divide(self):
        self.refuse_train("--grid", "1x1x2x1", "--micro-batch", "3",
                          words=["batch must divide by micro_batch * z * data", "nearest batches: 6, 12"], ranks=2)

    @needs_mpi
    def test_sequences_that_ranks_cannot_divide(self):
        self.refuse_train("--grid", "2x1x1x1", "--context", "2",
                          words=["context must divide z", "got context = 2 and z = 1"], ranks=2)
        self.refuse_train("--grid", "1x1x2x1", "--context", "2", "--sequence", "18",
                          words=["must divide by 2 * context = 4, got 18; next ones that do: 16 and 20"], ranks=2)
        self.refuse_train("--grid", "1x1x2x1", "--context", "2", "--micro-batch", "3",
                          words=["batch must divide by micro_batch * z / context * data", "nearest batches: 6, 9"],
                          ranks=2)

    @needs_mpi
    def test_without_a_grid(self):
        self.refuse_train(words=["grid 1x1x1x1 needs 1 rank, this job has 2. Grids of 2: "], ranks=2)


if __name__ == "__main__":
    unittest.main()
