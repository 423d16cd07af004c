"""gpt of a build with MPICH under Hydra, and under launchers that belong to another MPI."""
import os
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import free_port, losses, tensors

OPEN_MPIRUN = os.environ["AXONN_OPEN_MPIRUN"]
RUN = ["--grid", "2x1x2x1", "--steps", "4", "--save-every", "4"]


class Mpich(GptTest):
    def test_hydra_gives_the_bits_of_ranks(self):
        ranks = self.train("ranks", *RUN, ranks=4, launcher="ranks")
        hydra = self.gpt("train", "--data", self.text.name, "--out", "hydra", *TRAINING, *RUN, ranks=4)
        self.assertEqual(hydra.status, 0, hydra.text)
        self.assertIn("4 ranks, mpi", hydra.out)
        self.assertEqual(losses(self.directory / "hydra"), losses(ranks))
        self.assertEqual(len(losses(ranks)), 4)
        self.assertEqual(tensors(self.directory / "hydra", 4), tensors(ranks, 4))

    def test_tcp_where_the_user_wants_it(self):
        place = {"AXONN_TRANSPORT": "tcp", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ended = self.gpt("train", "--data", self.text.name, "--out", "tcp", *TRAINING, "--grid", "2x1x2x1", "--steps",
                         "1", ranks=4, environment=place)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("4 ranks, tcp", ended.out)

    # Each process would be a job of its own.
    def test_the_launcher_of_another_mpi_is_refused(self):
        self.refuse("train", "--data", self.text.name, "--out", "run", *TRAINING, "--grid", "2x1x2x1",
                    prefix=lambda rank: [OPEN_MPIRUN, "-n", "4"],
                    words=["the launcher started 4 processes", "MPICH", "finds a job of one", "AXONN_TRANSPORT=tcp"])

    # Hydra does not end the other ranks: they end by themselves, without a word.
    def test_an_mpi_for_one_thread_is_refused_once(self):
        ended = self.refuse("train", "--data", self.text.name, "--out", "run", *TRAINING, "--grid", "2x1x1x1", ranks=2,
                            environment={"LD_PRELOAD": os.environ["AXONN_NO_THREADS"]},
                            words=["MPICH", "lets no thread other than main call it", "AXONN_TRANSPORT=tcp"])
        self.assertEqual(ended.status, 2, ended.text)


if __name__ == "__main__":
    unittest.main()
