"""`gpt eval` measures a trained model: the same numbers on every grid, and those of training."""
import json
import math
import struct
import unittest

from gpt_runs import GptTest
from program_runs import HAS_MPI, metrics

SEQUENCE = 16
GRIDS = (("1x1x1x1", 1), ("2x1x2x1", 4)) if HAS_MPI else (("1x1x1x1", 1),)
QUESTIONS = [{"ctx": "line 12 of a", "endings": ["text, and more", "café"], "label": 0},
             {"context": "line", "endings": ["7 of a text, 49", "a", "b c", "9"], "label": 2},
             {"ctx": "a line that is much longer than what the model takes", "endings": ["one", "two"], "label": 1}]


def llmc_file(questions):
    """The tokens of questions, which are bytes, as llm.c's file of HellaSwag has them."""
    body = b""
    for index, question in enumerate(questions):
        texts = [question.get("ctx") or question["context"], *(" " + text for text in question["endings"])]
        words = [index, question["label"], len(question["endings"])]
        for text in texts:
            words += [len(text.encode()), *text.encode()]
        body += struct.pack(f"<{2 + len(words)}H", 65535, 4 + 2 * len(words), *words)
    return struct.pack("<256I", 20240522, 1, len(questions), *[0] * 253) + body


class Eval(GptTest):
    def setUp(self):
        super().setUp()
        self.run_directory = self.train("run", "--steps", "4", "--validate-every", "4")
        self.lines = self.directory / "questions.jsonl"
        self.lines.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
        self.tokens = self.directory / "questions.bin"
        self.tokens.write_bytes(llmc_file(QUESTIONS))

    def results(self, *arguments, ranks=1, model="run"):
        ended = self.gpt("eval", model, *arguments, "--json", ranks=ranks)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(len(ended.out.splitlines()), 1, ended.out)
        return json.loads(ended.out)

    def on_every_grid(self, *arguments):
        """The results on one rank, which those on other grids equal."""
        first, *others = [self.results(*arguments, "--grid", grid, ranks=ranks) for grid, ranks in GRIDS]
        for other, (grid, _) in zip(others, GRIDS[1:]):
            self.assertEqual(list(other), list(first))
            for key, value in first.items():
                if key == "log_probabilities":
                    for mine, theirs in zip(sum(value, []), sum(other[key], [])):
                        self.assertAlmostEqual(theirs / mine, 1, delta=1e-5, msg=grid)
                else:
                    self.assertAlmostEqual(other[key] / value if value else other[key] + 1, 1, delta=1e-5, msg=grid)
        return first

    def held_out(self):
        """A file of the held-out windows of training, of a token for each byte."""
        text = self.text.read_bytes()
        held_out = text[int(len(text) * (1 - 0.1)):]
        windows = (len(held_out) - 1) // SEQUENCE
        (self.directory / "held.txt").write_bytes(held_out[:windows * SEQUENCE + 1])
        return windows

    def test_the_loss_of_a_text_is_that_of_validation(self):
        windows = self.held_out()
        results = self.on_every_grid("--data", "held.txt")
        self.assertAlmostEqual(results["loss"] / metrics(self.run_directory)[-1]["validation_loss"], 1, delta=1e-5)
        self.assertAlmostEqual(results["perplexity"] / math.exp(results["loss"]), 1, delta=1e-9)
        self.assertAlmostEqual(results["bits_per_byte"] / (results["loss"] / math.log(2)), 1, delta=1e-9)
        self.assertEqual([results[key] for key in ("tokens", "bytes", "windows", "sequence", "stride")],
                         [windows * SEQUENCE, windows * SEQUENCE, windows, SEQUENCE, 0])

    def test_strides_predict_each_token_once(self):
        windows = self.held_out()
        strided = self.results("--data", "held.txt", "--stride", "5")
        whole = self.results("--data", "held.txt")
        self.assertEqual(strided["tokens"], whole["tokens"])
        self.assertEqual(strided["windows"], 1 + math.ceil((windows - 1) * SEQUENCE / 5))
        both = self.results("--data", "held.txt", "text.txt", "--sequence", "7", "--batch", "50")
        self.assertEqual(both["tokens"], whole["tokens"] + self.text.stat().st_size - 1)
        first = self.results("--data", "text.txt", "--limit", "3")
        self.assertEqual([first["windows"], first["tokens"]], [3, 3 * SEQUENCE])

    def test_choices_of_text_and_of_tokens_are_the_same(self):
        of_text = self.on_every_grid("--choices", self.lines.name)
        of_tokens = self.on_every_grid("--choices", self.tokens.name)
        self.assertEqual(set(of_text) - set(of_tokens), {"acc_norm_character", "acc_norm_byte"})
        for key, value in of_tokens.items():
            self.assertEqual(value, of_text[key], key)
        sums, labels = of_text["log_probabilities"], [question["label"] for question in QUESTIONS]
        lengths = {"acc": lambda text: 1, "acc_norm_token": lambda text: len(text.encode()) + 1,
                   "acc_norm_character": len, "acc_norm_byte": lambda text: len(text.encode())}
        for name, length in lengths.items():
            right = 0
            for question, values, label in zip(QUESTIONS, sums, labels):
                values = [value / length(text) for value, text in zip(values, question["endings"])]
                right += values.index(max(values)) == label
            self.assertAlmostEqual(of_text[name], right / len(QUESTIONS), msg=name)
        self.assertEqual(self.results("--choices", self.lines.name, "--limit", "2")["questions"], 2)

    def test_an_exported_model_has_the_numbers_of_its_run(self):
        ended = self.gpt("export", "run", "--out", "exported")
        self.assertEqual(ended.status, 0, ended.text)
        mine, theirs = (self.results("--choices", self.tokens.name, model=model) for model in ("run", "exported"))
        self.assertEqual(mine, theirs)
        self.refuse("eval", "exported", "--data", "text.txt", words=["the model has no tokenizer"])
        self.refuse("eval", "exported", "--choices", self.lines.name, words=["questions.jsonl is text"])

    def test_a_table_says_what_is_what(self):
        ended = self.gpt("eval", "run", "--data", "text.txt")
        self.assertEqual(ended.status, 0, ended.text)
        for words in ("nats per token", "perplexity", "bits per byte", "windows"):
            self.assertIn(words, ended.out)
        self.assertNotIn("\r", ended.text)
        ended = self.gpt("eval", "run", "--choices", self.lines.name, environment={"AXONN_PROGRESS": "bar"})
        self.assertEqual(ended.status, 0, ended.text)
        for words in ("acc_norm by token", "llm.c", "acc_norm by character", "acc_norm by byte", "acc_bytes"):
            self.assertIn(words, ended.out)
        self.assertIn("\rending 8/8 ", ended.err)

    def test_wrong_use_is_refused(self):
        (self.directory / "broken.jsonl").write_text(json.dumps(QUESTIONS[0]) + "\n{}\n")
        (self.directory / "torn.bin").write_bytes(llmc_file(QUESTIONS)[:-3])
        for arguments, words in (([], ["give one of --data and --choices"]),
                                 (["--data", "text.txt", "--choices", "questions.bin"], ["give one of"]),
                                 (["--choices", "questions.bin", "--stride", "4"], ["--stride are for --data"]),
                                 (["--data", "text.txt", "--sequence", "17"], ["--sequence must be at most 16"]),
                                 (["--data", "text.txt", "--stride", "17"], ["--stride must be at most --sequence"]),
                                 (["--data", "text.txt", "--batch", "0"], ["--batch"]),
                                 (["--data", "none.txt"], ["none.txt does not exist"]),
                                 (["--choices", "broken.jsonl"], ["broken.jsonl line 2 is no question"]),
                                 (["--choices", "torn.bin"], ["torn.bin is no whole file of HellaSwag, at byte"])):
            with self.subTest(arguments):
                self.refuse("eval", "run", *arguments, words=words)

    def test_ranks_that_read_other_texts_are_named(self):
        (self.directory / "other.txt").write_text("some other text")
        words = lambda rank: ["eval", "run", "--data", "text.txt" if rank == 0 else "other.txt", "--grid", "1x1x1x2"]
        self.refuse(words, words=["rank 1 has read other data than rank 0", "the number of tokens is 15 there"],
                    ranks=2, launcher="tcp")


if __name__ == "__main__":
    unittest.main()
