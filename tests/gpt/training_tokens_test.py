"""Training on files of tokens: which are taken, in which order, for how long, and what is refused."""
import json
import shutil
import signal
import struct
import unittest

from gpt_runs import GptTest, NETWORK, TRAINING
from program_runs import RUN_SECONDS, losses, metrics, needs_mpi, wait_for_steps

# With a rate of 0 and in fp64, the loss of a step says which samples it had, on every grid.
SAMPLES_ALONE = ["--learning-rate", "0", "--learning-rate-end", "0", "--dtype", "fp64"]


def llmc(ids):
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}H", *ids)


class TrainingTokens(GptTest):
    def setUp(self):
        super().setUp()
        self.other = self.directory / "other.txt"
        self.other.write_text("".join(f"another one: {i * 31 % 89}, or {i}\n" for i in range(200)))

    def tokenize(self, text, out, *arguments):
        ended = self.gpt("tokenize", text.name, "--out", out, *arguments)
        self.assertEqual(ended.status, 0, ended.text)

    def shards(self):
        """The pairs a and b of one tokenizer, which lies beside both."""
        self.tokenize(self.text, "a", "--train-bpe", "300")
        self.tokenize(self.other, "b", "--tokenizer", "a.tokenizer")

    def run_on(self, out, data, *arguments, **options):
        """Trains, which must succeed. Returns the directory of the run."""
        ended = self.gpt("train", "--data", *data, "--out", out, *TRAINING, *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return self.directory / out

    def refuse_data(self, *data, words, arguments=()):
        self.refuse("train", "--data", *data, "--out", "refused", *TRAINING, *arguments, words=words)

    def assert_same_samples(self, mine, expected):
        self.assertEqual(list(mine), list(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(float(mine[step]) / float(loss), 1, delta=1e-12, msg=f"step {step}")

    def test_texts_and_their_files_of_tokens_train_alike(self):
        texts = [self.text.name, self.other.name]
        for form in ("megatron", "llmc", "nanogpt"):
            ended = self.gpt("tokenize", *texts, "--out", form, "--format", form,
                             *(["--train-bpe", "300"] if form == "megatron" else ["--tokenizer", "megatron.tokenizer"]))
            self.assertEqual(ended.status, 0, ended.text)
        epoch = ["--epochs", "1", "--validation-fraction", "0"]
        of_texts = losses(self.run_on("of-texts", texts, *epoch, "--tokenizer", "megatron.tokenizer"))
        for data in ("megatron", "megatron.idx", "llmc.bin", "nanogpt:nanogpt.bin"):
            with self.subTest(data):
                run = self.run_on("of-" + data.replace(":", "-"), [data], *epoch)
                self.assertEqual(losses(run), of_texts)
                self.assertTrue(list((run / "origin").glob("tokenizer.json")))

    @needs_mpi
    def test_every_grid_and_batch_takes_the_same_samples(self):
        self.shards()
        blend = ["0.7", "a", "0.3", "b"]
        one = losses(self.run_on("one", blend, *SAMPLES_ALONE, "--steps", "12"))
        self.assertNotIn("epoch", metrics(self.directory / "one")[-1])
        self.assertGreater(len(set(one.values())), 10)
        for grid, ranks in (("1x1x1x2", 2), ("1x2x1x1", 2), ("2x1x2x1", 4)):
            with self.subTest(grid):
                run = self.run_on(f"on-{grid}", blend, *SAMPLES_ALONE, "--steps", "12", "--grid", grid, ranks=ranks)
                self.assert_same_samples(losses(run), one)
        twice = losses(self.run_on("twice", blend, *SAMPLES_ALONE, "--steps", "6", "--batch", "16"))
        pairs = {step: (float(one[2 * step - 1]) + float(one[2 * step])) / 2 for step in range(1, 7)}
        self.assert_same_samples(twice, pairs)

    def test_a_killed_run_goes_on_with_the_next_samples(self):
        self.shards()
        arguments = ["--data", "2", "a", "1", "b", *TRAINING, *SAMPLES_ALONE, "--save-every", "3", "--keep", "9"]
        whole = self.run_on("whole", ["2", "a", "1", "b"], *SAMPLES_ALONE, "--steps", "60")
        run = self.directory / "killed"
        for steps in (4, 20):
            job = self.start("train", *arguments, "--out", "killed", "--steps", "1000000", "--resume", "auto")
            wait_for_steps(job, run, steps)
            job.signal(signal.SIGKILL)
            self.assertEqual(job.wait(RUN_SECONDS).status, -signal.SIGKILL)
        newest = max(int(path.name[5:]) for path in run.glob("step-??????"))
        ended = self.gpt("train", *arguments, "--out", "killed", "--steps", max(60, newest + 1), "--resume", "auto")
        self.assertEqual(ended.status, 0, ended.text)
        mine = losses(run)
        self.assert_same_samples({step: mine[step] for step in range(1, 61)}, losses(whole))

    def test_a_run_is_as_long_as_its_epochs_or_tokens(self):
        self.shards()
        tokens = json.loads((self.directory / "a.json").read_text())["tokens"]
        windows = (tokens - 1) // 16  # nothing is held out
        for flags, steps in ((["--epochs", "2"], -(-2 * windows // 8)), (["--tokens", "1000"], 8),
                             (["--tokens", "1024"], 8)):
            with self.subTest(flags):
                run = self.run_on("run" + "".join(flags), ["a"], *flags, "--validation-fraction", "0")
                self.assertEqual(len(losses(run)), steps)
                self.assertAlmostEqual(metrics(run)[-1]["epoch"], steps * 8 / windows)
        # A flag counts more than another way in the file.
        (self.directory / "my.toml").write_text("[train]\nbatch = 8\nepochs = 7\n")
        ended = self.gpt("--config", "my.toml", "--data", "a", "--out", "of-file", *NETWORK, "--tokens", "1k",
                         "--batch-tokens", "256", "--validate-every", "0")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(len(losses(self.directory / "of-file")), 4)
        # The same run, resumed for another epoch.
        ended = self.gpt("train", "--resume", "run--epochs2", "--epochs", "3")
        self.assertEqual(len(losses(self.directory / "run--epochs2")), -(-3 * windows // 8), ended.text)

    def test_ways_to_say_how_long_exclude_each_other(self):
        given = ["--data", "text.txt", "--out", "refused", *TRAINING]
        for flags, words in ((["--steps", "9", "--epochs", "2"], ["give one of --steps and --epochs"]),
                             (["--epochs", "2", "--tokens", "9"], ["give one of --epochs and --tokens"]),
                             (["--batch-tokens", "64"], ["give one of --batch and --batch-tokens"]),
                             (["--epochs", "-1"], ["--epochs", "at least 0"])):
            with self.subTest(flags):
                self.refuse("train", *given, *flags, words=words)
        given = [word for word in given if word not in ("--batch", "8")]
        self.refuse("train", *given, "--grid", "1x1x1x2", "--batch-tokens", "100", "--micro-batch", "2",
                    words=["--batch-tokens 100 is no multiple of 64 = sequence 16 x 4 sequences at once",
                           "next ones that fit: 64 and 128"])
        self.refuse("train", *given, "--batch-tokens", "9", words=["no multiple of 16", "next ones that fit: 16"])
        self.refuse("train", *given, "--epochs", "1", "--sample-order", "drawn", words=["drawn samples have none"])
        self.refuse("train", "--data", "1", "text.txt", "2", "other.txt", *given[2:], "--epochs", "1",
                    words=["each part has epochs of its own"])

    def test_other_data_validate(self):
        self.shards()
        arguments = [*SAMPLES_ALONE, "--steps", "2", "--validate-every", "1"]
        of_b = [self.run_on(f"run{i}", ["a"], *arguments, "--val-data", *given) for i, given in
                enumerate((["b"], ["b", "--batch", "16"], ["other.txt"]))]
        found = [metrics(run)[-1]["validation_loss"] for run in of_b]
        for loss in found:
            self.assertAlmostEqual(loss / found[0], 1, delta=1e-12)
        few = self.run_on("few", ["a"], *arguments, "--val-data", "b", "--validation-tokens", "40")
        self.assertNotEqual(metrics(few)[-1]["validation_loss"], found[0])
        self.refuse_data("a", words=["--val-data takes no weights"], arguments=["--val-data", "1", "b"])

    def test_ids_without_a_tokenizer(self):
        (self.directory / "ids.bin").write_bytes(llmc([i * i % 40 for i in range(2000)]))
        self.run_on("run", ["ids.bin"], "--tokenizer", "none", "--vocab", "40", "--steps", "2")
        ended = self.gpt("generate", "--checkpoint", "run", "--ids", "1,4,9", "--tokens", "3")
        self.assertEqual(ended.status, 0, ended.text)
        self.refuse("generate", "--checkpoint", "run", "--prompt", "x", words=["the model has no tokenizer", "--ids"])
        ended = self.gpt("train", "--resume", "run", "--steps", "3")
        self.assertEqual(ended.status, 0, ended.text)
        self.refuse_data("ids.bin", words=["--tokenizer none needs --vocab"], arguments=["--tokenizer", "none"])
        self.refuse_data("text.txt", words=["text.txt is text", "name a tokenizer"],
                         arguments=["--tokenizer", "none", "--vocab", "40"])

    def test_what_does_not_fit_is_refused(self):
        self.shards()
        self.tokenize(self.text, "bytes", "--tokenizer", "bytes", "--no-eos")
        (self.directory / "ids.bin").write_bytes(llmc([1, 2, 299, 4] * 10))
        (self.directory / "nano.bin").write_bytes(b"\1\0\2\0" * 20)
        whole = (self.directory / "b.bin").read_bytes()
        (self.directory / "b.bin").write_bytes(whole[:-2])
        for data, arguments, words in (
                (["b"], [], ["b.bin has", "one of them is cut short", "copy both again"]),
                (["ids.bin"], [], ["ids.bin has id 299 as token 2", "vocabulary has 256", "give the tokenizer"]),
                (["ids.bin"], ["--tokenizer", "none", "--vocab", "299"], ["has id 299", "vocabulary has 299"]),
                (["a"], ["--tokenizer", "bytes"], ["a was made by another tokenizer", "give the tokenizer"]),
                (["a", "bytes"], [], ["bytes was made by another tokenizer", "names bytes"]),
                (["a"], ["--vocab", "100"], ["tokens, more than the model's vocabulary of 100"]),
                (["nano.bin"], [], ["nano.bin is no text", "nanogpt:nano.bin", "text:nano.bin"]),
                (["0.7", "a", "text.txt"], [], ["a number and a path in turns", "text.txt has no weight"]),
                (["0.7", "a", "0", "text.txt"], [], ["the weight of text.txt must be a decimal number above 0"]),
                (["a"], ["--tokenizer", "chars"], ["--tokenizer chars is made from texts"]),
                (["a", "text.txt"], ["--sample-order", "drawn"], ["--sample-order drawn takes one text"])):
            with self.subTest(data, arguments=arguments):
                self.refuse_data(*data, words=words, arguments=arguments)

    def test_a_resumed_run_keeps_its_data_and_order(self):
        self.shards()
        self.run_on("run", ["0.7", "a", "0.3", "b"], "--steps", "2")
        again = ["--resume", "run", "--steps", "4"]
        self.refuse(*again, "--data", "0.3", "a", "0.7", "b", words=["was trained on other data"])
        self.refuse(*again, "--sample-order", "drawn", words=["--sample-order drawn is not what", "(epochs)"])
        self.refuse(*again, "--validation-tokens", "7", words=["--validation-tokens 7 is not what"])
        changed = bytearray((self.directory / "b.bin").read_bytes())
        changed[200:202] = b"\7\0"
        kept = shutil.copy(self.directory / "b.bin", self.directory / "kept.bin")
        (self.directory / "b.bin").write_bytes(changed)
        self.refuse(*again, words=["was trained on other data than --data names"])
        shutil.copy(kept, self.directory / "b.bin")
        ended = self.gpt(*again)
        self.assertEqual(ended.status, 0, ended.text)

    @needs_mpi
    def test_tokens_see_only_their_own_document(self):
        (self.directory / "lines.jsonl").write_text(
            "".join(json.dumps({"text": f"line {i}, {i * i % 97}"}) + "\n" for i in range(400)))
        self.tokenize(self.directory / "lines.jsonl", "lines", "--train-bpe", "300")
        arguments = [*SAMPLES_ALONE, "--steps", "4", "--validate-every", "2"]
        plain = self.run_on("plain", ["lines"], *arguments)
        masked = self.run_on("masked", ["lines"], *arguments, "--document-mask")
        self.assertNotEqual(losses(plain), losses(masked))
        self.assertNotEqual(metrics(plain)[-1]["validation_loss"], metrics(masked)[-1]["validation_loss"])
        grid = self.run_on("grid", ["lines"], *arguments, "--document-mask", "--grid", "2x1x2x1", ranks=4)
        self.assert_same_samples(losses(grid), losses(masked))
        again = self.run_on("again", ["lines"], *arguments, "--document-mask", "--activation-checkpoint", "1")
        self.assertEqual(losses(again), losses(masked))
        self.refuse("--resume", "masked", "--steps", "5", "--no-document-mask",
                    words=["--document-mask no is not what"])
        for flags, words in ((["--split-forward", "2"], ["leave --split-forward out"]),
                             (["--sample-order", "drawn"], ["use --sample-order epochs"]),
                             (["--tokenizer", "none", "--vocab", "300"], ["the token that ends a document"])):
            self.refuse_data("lines", words=words, arguments=["--document-mask", *flags])
        self.refuse_data("text.txt", words=["needs a tokenizer of files"], arguments=["--document-mask"])

    def test_an_older_order_can_still_be_had(self):
        new, old = (self.run_on(order, ["text.txt"], "--steps", "3", "--sample-order", order)
                    for order in ("epochs", "drawn"))
        self.assertNotEqual(losses(new), losses(old))


if __name__ == "__main__":
    unittest.main()
