"""Data that is missing, empty, too short or of the wrong type, on all ranks or on only one."""
import os
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import needs_mpi


class DataErrors(GptTest):
    def refuse_data(self, *paths, words, arguments=(), **options):
        data = ["--data", *paths] if paths else []
        self.refuse("train", *data, "--out", "run", *TRAINING, *arguments, words=words, **options)

    def test_none_named(self):
        self.refuse_data(words=["--data"])

    @needs_mpi
    def test_missing(self):
        self.refuse_data("nothing.txt", words=["nothing.txt does not exist"], arguments=["--grid", "2x1x2x1"], ranks=4)

    def test_missing_on_one_rank_alone(self):
        words = lambda rank: ["train", "--data", "text.txt" if rank != 2 else "nothing.txt", "--out", "run",
                              "--grid", "2x1x2x1", *TRAINING]
        self.refuse(words, words=["rank 2 cannot read what rank 0 on host ", ": rank 2 on host ",
                                  ": data path nothing.txt does not exist; every host needs the same files"],
                    ranks=4, launcher="tcp")

    def test_missing_on_all_ranks_names_no_rank(self):
        ended = self.refuse("train", "--data", "nothing.txt", "--out", "run", "--grid", "1x1x1x2", *TRAINING,
                            words=["gpt: data path nothing.txt does not exist"], ranks=2, launcher="ranks")
        self.assertNotIn("host", ended.err)

    @needs_mpi
    def test_empty(self):
        (self.directory / "empty.txt").touch()
        self.refuse_data("empty.txt", words=["no text in empty.txt"], arguments=["--grid", "1x1x1x2"], ranks=2)

    def test_a_directory_without_text(self):
        folder = self.directory / "folder"
        folder.mkdir()
        (folder / ".hidden").write_text("hidden text")
        (folder / "binary").write_bytes(b"ab\0cd")
        self.refuse_data("folder",
                         words=["no text in folder (read 0 files, 0 B; left out 2: hidden .hidden; binary binary)"])

    def test_shorter_than_a_sequence(self):
        (self.directory / "short.txt").write_text("short")
        self.refuse_data("short.txt", words=["tokens to train on", "at least 17"])

    def test_not_utf8(self):
        (self.directory / "latin.txt").write_bytes(b"caf\xe9 " * 100)
        self.refuse_data("latin.txt", words=["latin.txt is not UTF-8 at byte 3", "--tokenizer bytes"],
                         arguments=["--tokenizer", "chars"])

    def test_a_vocabulary_that_is_too_small(self):
        self.refuse_data("text.txt", words=["256 tokens", "vocabulary of 100", "--vocab"], arguments=["--vocab", "100"])

    @unittest.skipIf(os.geteuid() == 0, "root may read and write everything")
    def test_forbidden(self):
        self.text.chmod(0)
        self.addCleanup(self.text.chmod, 0o600)
        self.refuse("train", "--data", "text.txt", "--out", "run", *TRAINING, words=["cannot read", "text.txt"])

    def test_a_device_is_no_text(self):
        self.refuse_data("/dev/zero", words=["/dev/zero is neither a file nor a directory"])


if __name__ == "__main__":
    unittest.main()
