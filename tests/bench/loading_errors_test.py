"""`loading` ends with one sentence of rank 0 where the grid or the directory is wrong."""
import unittest

from program_runs import ProgramTest
from smoke import write_model


class LoadingErrors(ProgramTest):
    def setUp(self):
        super().setUp()
        write_model(self.directory / "model")

    def test_a_grid_that_does_not_fit_the_network(self):
        self.refuse("model", "--grid", "3x1x1x1", words=["heads must divide by x, got heads = 2 and x = 3"], ranks=3,
                    launcher="tcp")

    def test_a_grid_that_does_not_fit_the_job(self):
        self.refuse("model", "--grid", "2x1x1x1", words=["grid 2x1x1x1 needs 2 ranks, this job has 1"])
        self.refuse("model", "--grid", "two", words=["two"])

    def test_a_directory_that_is_not_there(self):
        self.refuse("missing", "--grid", "1x1x2x1", words=["missing"], ranks=2, launcher="tcp")


if __name__ == "__main__":
    unittest.main()
