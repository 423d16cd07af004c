"""Ranks of one job that were started with other options or settings than rank 0."""
import pathlib
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import NIGHT, RUN_SECONDS, free_port, refusal_seconds


class UnlikeRanks(GptTest):
    def train_unlike(self, rank_1, *common, ranks=2):
        """Rank 1 has the options `rank_1` too. The job must be refused."""
        training = ["train", "--data", str(self.text), "--out", "run", *TRAINING, *common]
        before = self.files()
        ended = self.run_program(lambda rank: training + (rank_1 if rank == 1 else []), ranks=ranks, launcher="tcp",
                                 seconds=refusal_seconds())
        self.assertEqual(self.files(), before)
        return ended

    def test_another_option(self):
        ended = self.train_unlike(["--learning-rate", "0.02"], "--grid", "1x1x2x1")
        self.assert_refused(ended, "rank 1 has --learning-rate 0.02 and rank 0 has 0.01; start all ranks with the same")

    def test_another_grid(self):
        ended = self.train_unlike(["--grid", "2x1x1x2"], "--grid", "2x2x1x1", ranks=4)
        self.assert_refused(ended, "rank 1 has --grid 2x1x1x2 and rank 0 has 2x2x1x1")

    def test_another_file_on_its_host(self):
        for name, steps in (("of_0.toml", 5), ("of_1.toml", 6)):
            (self.directory / name).write_text(f"[train]\nsteps = {steps}\n")
        training = ["train", "--data", str(self.text), "--out", "run", *TRAINING, "--grid", "1x1x2x1"]
        ended = self.run_program(lambda rank: training + ["--config", f"of_{rank}.toml"], ranks=2, launcher="tcp",
                                 seconds=refusal_seconds())
        self.assert_refused(ended, "rank 1 has --steps 6 and rank 0 has 5")

    def train_on_others(self, text, *arguments, ranks=2):
        """The last rank, as on a host of its own, has another text under the same name."""
        for rank in range(ranks):
            folder = self.directory / f"host-{rank}"
            folder.mkdir(exist_ok=True)
            (folder / "text.txt").write_text(text if rank == ranks - 1 else self.text.read_text())
        training = ["train", "--out", "run", *TRAINING, *arguments]
        return self.run_program(lambda rank: [*training, "--data", f"host-{rank}"], ranks=ranks, launcher="tcp",
                                seconds=refusal_seconds())

    def test_other_data(self):
        text = self.text.read_text()
        rot13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
        for i, (grid, ranks) in enumerate((("1x1x1x2", 2), ("2x1x1x1", 2), ("1x1x2x2", 4))):
            others = (("letters", text.translate(rot13), "the content of the files differs"),
                      ("shorter", text[:3000], "the number of bytes of text is 3000 there and "),
                      ("one byte", text[:-1] + "x", "the content of the files differs"))
            for name, other, words in others if NIGHT else others[i:i + 1]:  # every day each on one grid
                with self.subTest(grid=grid, other=name):
                    ended = self.train_on_others(other, "--grid", grid, "--validation-fraction", "0.1", ranks=ranks)
                    self.assert_refused(ended, f"rank {ranks - 1} has read other data than rank 0: rank {ranks - 1} on "
                                               "host", words, "copy the same files to every host")

    def test_data_that_only_some_ranks_can_read(self):
        """Missing, a link to nothing or to itself, a file in the place of a folder, empty, not UTF-8, unknown letters:
        the rank and its host are named."""
        make = {"does not exist": lambda path: None,
                "is a link to what does not exist": lambda path: path.symlink_to("nothing"),
                "Too many levels of symbolic links": lambda path: path.symlink_to("self.txt"),
                "there is no text": lambda path: path.write_text(""),
                "is not UTF-8 at byte 3": lambda path: path.write_bytes(b"caf\xe9" * 100)}
        for words, make_on_1 in make.items():
            with self.subTest(words):
                self.setUp()
                for rank in range(2):
                    (self.directory / f"host-{rank}").mkdir()
                (self.directory / "host-0/self.txt").write_text(self.text.read_text())
                make_on_1(self.directory / "host-1/self.txt")
                ended = self.run_on_hosts("train", "--data", "self.txt", "--out", "run", *TRAINING, "--tokenizer",
                                          "chars", "--grid", "1x1x1x2")
                self.assert_refused(ended, "rank 1 cannot read what rank 0 on host ", ": rank 1 on host ", words)

    def test_a_checkpoint_or_another_file_that_only_some_ranks_can_read(self):
        for rank in range(2):
            (self.directory / f"host-{rank}").mkdir()
        self.train("host-1/run", "--steps", "1")
        ended = self.run_on_hosts("generate", "--checkpoint", "run", "--grid", "1x1x1x2")
        self.assert_refused(ended, "there is no checkpoint run")
        training = ["train", "--grid", "1x1x1x2", "--data", str(self.text)]
        ended = self.run_on_hosts(*training, "--resume", "run")
        self.assert_refused(ended, "there is no checkpoint run")
        named = ["rank 0 cannot read what rank 1 on host ", ": rank 0 on host "]
        program = pathlib.Path(__file__).parents[2] / "configs/programs/adamw.program"
        (self.directory / "host-1/own.program").write_text(program.read_text())
        ended = self.run_on_hosts(*training, "--out", "new", *TRAINING, "--optimizer", "own.program")
        self.assert_refused(ended, *named, "own.program")

    def test_letters_that_only_some_ranks_cannot_encode(self):
        self.train("run", "--tokenizer", "chars", "--steps", "1")
        (self.directory / "other.txt").write_text("Z" * 1000)
        training = ["train", "--resume", "run", "--steps", "4", "--grid", "1x1x1x2"]
        ended = self.run_program(lambda rank: [*training, "--data", "other.txt" if rank == 1 else self.text.name],
                                 ranks=2, launcher="tcp", seconds=refusal_seconds())
        self.assert_refused(ended, "rank 1 cannot read what rank 0 on host ", "not in the vocabulary")

    def test_another_vocabulary_of_the_same_numbers(self):
        """Letters by their numbers in the sorted vocabulary: the tokens are equal, and mean something else."""
        text = "".join("abc"[i % 3] for i in range(2000))
        self.text.write_text(text)
        ended = self.train_on_others(text.replace("c", "d"), "--grid", "1x1x1x2", "--tokenizer", "chars")
        self.assert_refused(ended, "rank 1 has read other data than rank 0", "the vocabulary is")

    def test_other_data_of_a_resumed_run(self):
        self.train("run", "--grid", "1x1x1x2", "--steps", "2", ranks=2, launcher="tcp")
        training = ["train", "--resume", "run", "--steps", "4"]
        (self.directory / "other.txt").write_text("x" * 5000)
        ended = self.run_program(lambda rank: [*training, "--data", "other.txt" if rank == 1 else self.text.name],
                                 ranks=2, launcher="tcp", seconds=refusal_seconds())
        self.assert_refused(ended, "rank 1 has read other data than rank 0")

    def run_on_hosts(self, *arguments):
        """Each rank runs in the folder host-RANK, as on a host of its own: names lead to other files."""
        return self.run_program(*arguments, ranks=2, launcher="tcp", prefix=lambda rank: ["env", "-C", f"host-{rank}"],
                                seconds=refusal_seconds())

    def test_another_checkpoint(self):
        for rank in range(2):
            (self.directory / f"host-{rank}").mkdir()
            self.train(f"host-{rank}/run", "--steps", "2", "--seed", str(rank))
        for command in (["train", "--resume", "run", "--data", str(self.text), "--steps", "4", "--grid", "1x1x2x1"],
                        ["generate", "--checkpoint", "run", "--grid", "2x1x1x1", "--prompt", "a", "--tokens", "2"]):
            with self.subTest(command=command[0]):
                before = self.files()
                ended = self.run_on_hosts(*command)
                self.assert_refused(ended, "run/step-000002/x0-y0-z0.safetensors is broken: its checksum is ",
                                    ", as rank 1 on host ")
                self.assertEqual(self.files(), before)

    def test_a_checkpoint_that_only_rank_0_can_read(self):
        """Rank 0 sends what it reads to ranks that hold the same; others need their own part of it."""
        for rank in range(2):
            (self.directory / f"host-{rank}").mkdir()
        self.train("host-0/run", "--steps", "1")
        use = ["generate", "--checkpoint", "run", "--prompt", "a", "--tokens", "2", "--grid"]
        self.assertEqual(self.run_on_hosts(*use, "1x1x1x2").status, 0)
        self.assert_refused(self.run_on_hosts(*use, "2x1x1x1"), "cannot open run/step-000001/x0-y0-z0.safetensors",
                            ", as rank 1 on host ")

    def test_another_program_of_the_optimizer(self):
        program = (pathlib.Path(__file__).parents[2] / "configs/programs/adamw.program").read_text()
        for rank in range(2):
            (self.directory / f"host-{rank}").mkdir()
            (self.directory / f"host-{rank}/own.program").write_text(program + "\n" * rank)
        ended = self.run_on_hosts("train", "--data", str(self.text), "--out", "run", *TRAINING, "--grid", "1x1x1x2",
                                  "--optimizer", "own.program")
        self.assert_refused(ended, "rank 1 has another optimizer's program than rank 0", "own.program on host")

    def test_only_one_rank_resumes(self):
        ended = self.train_unlike(["--resume", "auto"], "--grid", "1x1x2x1")
        self.assert_refused(ended, "rank 1 has --resume = auto and rank 0 has nothing")

    def test_another_secret_is_told_by_its_rank(self):
        """Also if it is not the first rank of its host. Rank 0 goes on waiting for the right one."""
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "1x1x2x1", ranks=2,
                         launcher=lambda rank: place | {"RANK": str(rank), "LOCAL_RANK": str(rank),
                                                        "AXONN_SECRET": f"of rank {rank}"})
        self.addCleanup(job.end)
        err = job.processes[1].communicate(timeout=RUN_SECONDS)[1].decode()
        self.assertEqual(job.processes[1].returncode, 2, err)
        self.assertIn("[rank 1] gpt: rank 1 of 2 and rank 0 at 127.0.0.1 port ", err)
        self.assertIn("have different values of AXONN_SECRET", err)

    def test_shared_memory_of_some(self):
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ended = self.run_program("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "1x1x2x1", ranks=2,
                                 launcher=lambda rank: place | {"RANK": str(rank), "AXONN_SHARED_MEMORY": str(rank)},
                                 seconds=refusal_seconds())
        self.assertNotEqual(ended.status, 0)
        self.assertIn("rank 1 has AXONN_SHARED_MEMORY = 1 and rank 0 has 0; give all ranks the same", ended.err)
        self.assertFalse((self.directory / "run").exists())


if __name__ == "__main__":
    unittest.main()
