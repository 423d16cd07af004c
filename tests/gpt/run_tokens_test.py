"""The tokens of a run's text: made once, by all ranks together, and found again by later starts."""
import json
import signal
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import RUN_SECONDS, losses, metrics, needs_mpi, refusal_seconds, wait_for_steps


class RunTokens(GptTest):
    def setUp(self):
        super().setUp()
        self.other = self.directory / "other.txt"
        self.other.write_text("".join(f"another one: {i * 31 % 89}, or {i}\n" for i in range(200)))

    def folders(self, run):
        return sorted((self.directory / run / "tokens").iterdir())

    def parts(self, folder):
        """The tokens of each shard, and when it was written."""
        summary = json.loads((folder / "summary.json").read_text())
        return {shard["name"]: (shard["tokens"], (folder / f"{shard['name']}.bin").stat().st_mtime_ns)
                for shard in summary["shards"]}

    def make_documents(self):
        """A folder of documents, and their file of tokens with its tokenizer."""
        folder = self.directory / "documents"
        folder.mkdir()
        for i in range(40):
            (folder / f"{i:02}.txt").write_text("".join(f"document {i}, line {j * i % 97}\n" for j in range(20)))
        ended = self.gpt("tokenize", "documents", "--train-bpe", "300", "--out", "mine")
        self.assertEqual(ended.status, 0, ended.text)

    def train_on(self, data, out, *arguments, **options):
        ended = self.gpt("train", "--data", *data, "--out", out, *TRAINING, "--steps", "4", *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return self.directory / out

    @needs_mpi
    def test_every_rank_makes_its_documents_and_the_losses_stay(self):
        self.make_documents()
        fp64 = ["--dtype", "fp64", "--tokenizer", "mine.tokenizer", "--validation-fraction", "0"]
        of_shard = losses(self.train_on(["mine"], "of-shard", *fp64))
        for grid, ranks in (("1x1x1x1", 1), ("1x1x1x2", 2), ("2x1x2x1", 4)):
            with self.subTest(grid):
                run = self.train_on(["documents"], grid, *fp64, "--grid", grid, ranks=ranks)
                (folder,) = self.folders(grid)
                parts = self.parts(folder)
                self.assertEqual(len(parts), ranks)
                counts = [tokens for tokens, _ in parts.values()]
                self.assertLess(max(counts), 2 * min(counts))
                for step, loss in losses(run).items():
                    self.assertAlmostEqual(float(loss) / float(of_shard[step]), 1, delta=1e-12)
        self.assertFalse((self.directory / "of-shard/tokens").exists())

    def test_a_later_start_finds_them_and_another_text_is_refused(self):
        run = self.train_on(["text.txt"], "run", "--val-data", "other.txt")
        before = {folder: self.parts(folder) for folder in self.folders("run")}
        self.assertEqual(len(before), 2)
        ended = self.gpt("train", "--resume", "run", "--steps", "6")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual({folder: self.parts(folder) for folder in self.folders("run")}, before)
        self.refuse("train", "--resume", "run", "--data", "other.txt", "--steps", "9", words=["trained on other data"])
        self.assertEqual(metrics(run)[-1]["step"], 6)

    def test_torn_tokens_are_made_again(self):
        run = self.train_on(["text.txt"], "run")
        (folder,) = self.folders("run")
        whole = (folder / "part-00000.bin").read_bytes()
        for torn in (whole[:-2], whole[:-2] + b"x\0"):
            (folder / "part-00000.bin").write_bytes(torn)
            steps = metrics(run)[-1]["step"] + 1
            ended = self.gpt("train", "--resume", "run", "--steps", steps)
            self.assertEqual(ended.status, 0, ended.text)
            self.assertIn("the text becomes tokens again", ended.err)
            self.assertEqual((folder / "part-00000.bin").read_bytes(), whole)

    def test_a_job_killed_on_the_way_leaves_nothing_that_is_used(self):
        self.text.write_text("".join(f"line {i * 7919 % 99991}\n" for i in range(2_000_000)))
        tokens = self.directory / "run/tokens"
        arguments = ["train", "--data", "text.txt", "--out", "run", *TRAINING, "--validate-every", "0",
                     "--validation-fraction", "0", "--resume", "auto"]
        job = self.start(*arguments, "--steps", "1000000")
        deadline = time.monotonic() + RUN_SECONDS
        while not any(tokens.glob("*.partial/part-*.bin")) and time.monotonic() < deadline:
            self.assertIsNone(job.processes[0].poll(), "it ended before it was killed")
        job.signal(signal.SIGKILL)
        job.wait(RUN_SECONDS)
        (left,) = tokens.iterdir()
        self.assertTrue(left.name.endswith(".partial"))
        job = self.start(*arguments, "--steps", "1000000")
        wait_for_steps(job, self.directory / "run", 2)
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait(RUN_SECONDS).status, 0)
        (folder,) = tokens.iterdir()
        self.assertEqual(sum(count for count, _ in self.parts(folder).values()), self.text.stat().st_size)

    def test_hosts_that_do_not_see_one_folder_are_refused(self):
        for rank in range(2):
            (self.directory / f"host-{rank}").mkdir()
        ended = self.run_program("train", "--data", str(self.text), "--out", "run", *TRAINING, "--grid", "1x1x1x2",
                                 ranks=2, launcher="tcp", prefix=lambda rank: ["env", "-C", f"host-{rank}"],
                                 seconds=2 * refusal_seconds())  # a folder of another host may come late
        self.assert_refused(ended, "rank 1, the first on host ", "cannot see run/tokens/", "let --out name a folder",
                            "gpt tokenize")
        self.assertEqual([path.name for path in self.directory.glob("host-*/*")], [])

    def test_the_folder_of_a_run_is_no_text_of_it(self):
        run = self.directory / "run"
        run.mkdir()
        (run / "text.txt").write_text(self.text.read_text())
        self.train_on(["run"], "run")
        ended = self.gpt("train", "--resume", "run", "--data", "run", "--steps", "6")
        self.assertEqual(ended.status, 0, ended.text)


if __name__ == "__main__":
    unittest.main()
