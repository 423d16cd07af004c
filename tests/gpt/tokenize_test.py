"""`gpt tokenize` writes texts as shards of tokens: the same bytes whatever happens on the way."""
import gzip
import json
import pathlib
import signal
import struct
import time
import unittest

from gpt_runs import GptTest
from program_runs import RUN_SECONDS

RESULTS = (".bin", ".idx", ".json", ".tokenizer/tokenizer.json")


def read_pair(prefix):
    """The documents of Megatron's pair, read without the code under test."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    magic, version, kind, sequences, starts = struct.unpack_from("<9sQBQQ", index)
    assert (magic, version, kind) == (b"MMIDIDX\0\0", 1, 8), index[:34]
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    offsets = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    assert struct.unpack_from(f"<{starts}q", index, 34 + 12 * sequences) == tuple(range(starts))
    assert len(index) == 34 + 12 * sequences + 8 * starts
    tokens = pathlib.Path(f"{prefix}.bin").read_bytes()
    return [list(struct.unpack_from(f"<{length}H", tokens, offset)) for length, offset in zip(lengths, offsets)]


class Tokenize(GptTest):
    def tokenize(self, *arguments, **options):
        """Succeeds."""
        ended = self.gpt("tokenize", *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return ended

    def results(self, prefix):
        return {name: (self.directory / (prefix + name)).read_bytes() for name in RESULTS}

    def summary(self, prefix):
        return json.loads((self.directory / f"{prefix}.json").read_text())

    def write_lines(self, name="lines.jsonl", count=300, more=lambda i: ""):
        path = self.directory / name
        path.write_text("".join(json.dumps({"id": i, "text": f"line {i} of a text, {i * i % 97}" + more(i)}) + "\n"
                                for i in range(count)))
        return path

    def test_a_tokenizer_is_learned_and_used(self):
        lines = self.write_lines()
        (self.directory / "folder").mkdir()
        (self.directory / "folder/a.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfcaf\xc3\xa9\r\n"))
        (self.directory / "folder/empty").write_bytes(b"")
        ended = self.tokenize(lines.name, "folder", "text.txt", "--train-bpe", "400", "--out", "data/mine")
        self.assertIn("data/mine: 302 documents", ended.out)
        self.assertIn("read 3 files", ended.err)
        self.assertIn("left out 1: empty empty", ended.err)
        documents = read_pair(self.directory / "data/mine")
        summary = self.summary("data/mine")
        self.assertEqual([len(documents), sum(map(len, documents))], [summary["documents"], summary["tokens"]])
        self.assertEqual([summary["vocabulary"], summary["end_token"], summary["type"]], [400, 0, "uint16"])
        for document in documents:
            self.assertEqual([document.index(0), max(document) < 400], [len(document) - 1, True])
        self.assertEqual(summary["bytes"], sum(len(f"line {i} of a text, {i * i % 97}") for i in range(300))
                         + 7 + self.text.stat().st_size)
        again = self.tokenize(lines.name, "folder", "text.txt", "--tokenizer", "data/mine.tokenizer", "--out", "again",
                              "--workers", "1")
        self.assertEqual(again.out.replace("again", "data/mine"), ended.out)
        self.assertEqual(self.results("again"), self.results("data/mine"))

    def test_llmcs_format_and_bytes(self):
        self.tokenize("text.txt", "--tokenizer", "bytes", "--no-eos", "--format", "llmc", "--out", "out")
        shard = (self.directory / "out.bin").read_bytes()
        text = self.text.read_bytes()
        self.assertEqual(struct.unpack_from("<3I", shard), (20240520, 1, len(text)))
        self.assertEqual(struct.unpack_from(f"<{len(text)}H", shard, 1024), tuple(text))
        self.assertEqual(sorted(path.name for path in self.directory.glob("out*")), ["out.bin", "out.json"])

    def test_bad_lines_are_an_error_or_skipped(self):
        lines = self.write_lines(count=4)
        lines.write_text(lines.read_text() + "{\"id\": 5}\nbroken\n")
        arguments = (lines.name, "--tokenizer", "bytes", "--no-eos", "--out", "out")
        self.refuse("tokenize", *arguments, words=["lines.jsonl line 5 has no text", "--on-bad-line skip"])
        ended = self.tokenize(*arguments, "--on-bad-line", "skip")
        self.assertIn("2 lines without a text skipped", ended.out)
        self.assertIn("lines.jsonl line 6 has no text", ended.err)
        self.assertEqual(len(read_pair(self.directory / "out")), 4)
        self.refuse("tokenize", *arguments, "--text-key", "txt", "--overwrite",
                    words=["line 1 has no text", "'txt'; did you mean 'text'?"])

    def test_a_killed_run_goes_on(self):
        lines = self.write_lines(count=10_000, more=lambda i: " ".join(str(i * k * 7919 % 99991) for k in range(99)))
        arguments = ("tokenize", lines.name, "--train-bpe", "300", "--workers", "1", "--out")
        self.tokenize(lines.name, "--train-bpe", "300", "--workers", "2", "--out", "whole")
        state = self.directory / "killed.partial/state.json"
        self.kill_when(lambda: (self.directory / "killed.partial").exists(), *arguments, "killed")
        self.kill_when(state.exists, *arguments, "killed", "--resume")
        first = json.loads(state.read_text())
        self.assertGreater(first["documents"], 0)
        self.assertFalse(list(self.directory.glob("killed.[bij]*")))
        self.refuse(*arguments, "killed", words=["killed.partial holds a tokenization that has not ended", "--resume"])
        self.refuse(*arguments, "killed", "--resume", "--no-eos", words=["begun with --no-eos false"])
        ended = self.tokenize(*arguments[1:], "killed", "--resume", environment={"AXONN_PROGRESS": "bar"})
        self.assertRegex(ended.err, r"(?s)^(?:(?!encoding).)*\rencoding [1-9]")
        self.assertEqual(self.results("killed"), self.results("whole"))
        self.assertFalse((self.directory / "killed.partial").exists())

    def kill_when(self, happened, *arguments):
        job = self.start(*arguments)
        deadline = time.monotonic() + RUN_SECONDS
        while not happened() and job.processes[0].poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        job.signal(signal.SIGKILL)
        self.assertEqual(job.wait(RUN_SECONDS).status, -signal.SIGKILL, "it ended before it was killed")

    def test_a_full_disk_is_an_error_after_which_it_goes_on(self):
        lines = self.write_lines(count=2000, more=lambda i: str(i) * 500)
        arguments = ("tokenize", lines.name, "--tokenizer", "bytes", "--no-eos", "--out")
        self.tokenize(*arguments[1:], "whole")
        limit = lambda rank: ["bash", "-c", "trap '' XFSZ; ulimit -f 3000; exec \"$@\"", "limit"]
        ended = self.gpt(*arguments, "full", prefix=limit)
        self.assert_refused(ended, "cannot write", "shard.bin", "File too large")
        self.tokenize(*arguments[1:], "full", "--resume")
        for suffix in (".bin", ".idx", ".json"):
            self.assertEqual((self.directory / f"full{suffix}").read_bytes(),
                             (self.directory / f"whole{suffix}").read_bytes(), suffix)

    def test_the_way_is_shown(self):
        ended = self.tokenize("text.txt", "--train-bpe", "300", "--out", "out", environment={"AXONN_PROGRESS": "bar"})
        for words in ("\rcounting words 0 B of 8.", "\rmerging pairs 8.", "\rencoding 8.7 kB of 8.7 kB"):
            self.assertIn(words, ended.err)
        ended = self.tokenize("text.txt", "--train-bpe", "300", "--out", "out", "--overwrite")
        self.assertNotIn("\r", ended.err)

    def test_wrong_use_is_refused(self):
        (self.directory / "torn.txt.gz").write_bytes(gzip.compress(self.text.read_bytes())[:-9])
        self.tokenize("text.txt", "--tokenizer", "bytes", "--no-eos", "--out", "there")
        out = ("--out", "out")
        for arguments, words in (
                (["text.txt", *out], ["give one of --tokenizer and --train-bpe"]),
                (["text.txt", *out, "--tokenizer", "bytes"], ["no token that ends a document", "--no-eos"]),
                (["text.txt", *out, "--train-bpe", "300", "--pattern", "gpt3"], ["--pattern must be one of", "gpt2"]),
                (["text.txt", *out, "--train-bpe", "300", "--format", "llm"], ["--format", "did you mean 'llmc'"]),
                (["none.txt", *out, "--train-bpe", "300"], ["cannot read none.txt"]),
                (["torn.txt.gz", *out, "--train-bpe", "300"], ["torn.txt.gz, packed by gzip, is cut short"]),
                (["text.txt", "--tokenizer", "bytes", "--no-eos", "--out", "there"], ["there.bin is there already"])):
            with self.subTest(arguments):
                self.refuse("tokenize", *arguments, words=words)


if __name__ == "__main__":
    unittest.main()
