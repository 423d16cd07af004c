"""Directories of Hugging Face: text is written with them, training begins with them, and runs become
such directories, the same from every grid."""
import json
import pathlib
import re
import shutil
import unittest

from gpt_runs import GptTest
from program_runs import losses, needs_mpi

ORACLES = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "hf_oracles"
SMALL = ("--data", "text.txt", "--tokenizer", "chars", "--sequence", "16", "--batch", "4", "--warmup", "0",
         "--validate-every", "0", "--learning-rate", "0.003")


CHARACTERS = ["\u010a", "\u0120", *map(chr, range(33, 127))]  # a line break and a space, as byte-level BPE has them


def tokenizer_file():
    """A tokenizer.json of single characters, with tokens that begin and end a text."""
    special = [{"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for number, text in enumerate(("<s>", "</s>"))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocabulary = {each["content"]: each["id"] for each in special}
    vocabulary.update({character: number + 2 for number, character in enumerate(CHARACTERS)})
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "post_processor": {"type": "TemplateProcessing", "special_tokens": {
            "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": []},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                  "merges": []}})


def tensors_of(path):
    """The names and the bytes of a safetensors file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], tuple(entry["shape"]),
                   data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


def numbers_in(path, name):
    _, _, data = tensors_of(path)[name]
    return [int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data), 8)]


@unittest.skipUnless(ORACLES.exists(), f"needs {ORACLES}")
class HuggingFaceDirectory(GptTest):
    def setUp(self):
        super().setUp()
        (self.directory / "text.txt").write_text("".join(f"line {i} of {i * 7 % 31}\n" for i in range(400)))

    def ended(self, *arguments, ranks=1):
        ended = self.gpt(*map(str, arguments), ranks=ranks)
        self.assertEqual(ended.status, 0, ended.text)
        return ended

    def refused(self, *arguments, words):
        ended = self.gpt(*map(str, arguments))
        self.assertNotEqual(ended.status, 0, ended.text)
        for word in words:
            self.assertIn(word, ended.err)

    def run_from(self, case, name, *flags, ranks=1):
        self.ended("train", "--from", ORACLES / case, *SMALL, "--steps", "4", "--save-every", "2", "--out", name,
                   *flags, ranks=ranks)
        return self.directory / name

    def test_writes_the_tokens_of_the_reference(self):
        for case in ("llama", "mistral", "gpt2"):
            expected = numbers_in(ORACLES / case / "expected.safetensors", "greedy_ids")
            prompt = ",".join(map(str, expected[:5]))
            for flags in ((), ("--no-cache",)):
                ended = self.ended("generate", ORACLES / case, "--ids", prompt, "--tokens", len(expected) - 5,
                                   "--temperature", "0", "--dtype", "fp64", "--ignore-eos", *flags)
                self.assertEqual(ended.out.strip(), ",".join(map(str, expected)), case)

    @needs_mpi
    def test_trains_and_becomes_a_directory_again_the_same_from_every_grid(self):
        exported = {}
        for grid, ranks in (("1x1x1x1", 1), ("2x1x2x1", 4)):
            run = self.run_from("llama", f"on-{grid}", "--grid", grid, ranks=ranks)
            self.assertLess(float(losses(run)[4]), float(losses(run)[1]))
            if grid == "1x1x1x1":
                shutil.copytree(run, self.directory / "copy")
                self.ended("train", "--resume", "copy/step-000002", "--grid", "1x2x1x1", "--out", "elsewhere", ranks=2)
                for step, loss in losses(self.directory / "elsewhere").items():
                    self.assertAlmostEqual(float(loss) / float(losses(run)[step]), 1, delta=1e-5)
            for dtype in ("fp32", "bf16"):
                out = self.directory / f"{dtype}-{grid}"
                self.ended("export", "elsewhere" if grid == "1x1x1x1" else run, "--out", out, "--dtype", dtype)
                exported[grid, dtype] = out
        whole = exported["1x1x1x1", "fp32"]
        before, after = tensors_of(ORACLES / "llama/model.safetensors"), tensors_of(whole / "model.safetensors")
        self.assertEqual({name: entry[:2] for name, entry in before.items()},
                         {name: entry[:2] for name, entry in after.items()})
        self.assertNotEqual(before["model.norm.weight"], after["model.norm.weight"])
        self.assertEqual((whole / "generation_config.json").read_bytes(),
                         (ORACLES / "llama/generation_config.json").read_bytes())
        config = json.loads((whole / "config.json").read_text())
        self.assertEqual(config["rope_scaling"]["factor"], config["rope_parameters"]["factor"])
        self.assertEqual(config["vocab_size"], 131)
        ended = self.ended("export", "elsewhere", "--out", "shards", "--shard-size", "20k")
        self.assertIn("step 4 of elsewhere", ended.out)
        index = json.loads((self.directory / "shards/model.safetensors.index.json").read_text())
        self.assertEqual(set(index["weight_map"]), set(after))
        shards = {name: entry for file in set(index["weight_map"].values())
                  for name, entry in tensors_of(self.directory / "shards" / file).items()}
        self.assertEqual(shards, after)
        prompt = ("--ids", "1,2,3", "--tokens", "12", "--temperature", "0", "--dtype", "fp32")
        self.refused("generate", "elsewhere", "--ids", "1", "--dtype", "fp64",
                     words=["a run in fp32 is used in fp32, bf16 or fp16, got --dtype fp64"])
        texts = {self.ended("generate", model, *prompt).out for model in ("elsewhere", whole, "shards")}
        self.assertEqual(len(texts), 1, texts)

    def untrained(self, model, name, *flags, grid="1x1x1x1", ranks=1):
        """A run of one step that changes nothing."""
        self.ended("train", "--from", model, *SMALL, "--steps", "1", "--save-every", "1", "--out", name, "--grid", grid,
                   "--learning-rate", "1e-30", "--weight-decay", "0", *flags, ranks=ranks)
        return name

    def tensors_in(self, directory):
        return {name: entry for path in (self.directory / directory).glob("model*.safetensors")
                for name, entry in tensors_of(path).items()}

    @needs_mpi
    def test_becomes_the_same_bytes_again_without_training_from_six_grids(self):
        files = set()
        for grid, ranks in (("1x1x1x1", 1), ("2x1x1x1", 2), ("1x2x1x1", 2), ("1x1x2x2", 4), ("2x1x2x1", 4),
                            ("1x1x1x3", 3)):
            batch = ("--batch", "6") if ranks == 3 else ()
            self.ended("export", self.untrained(ORACLES / "llama", grid, *batch, grid=grid, ranks=ranks), "--out",
                       f"{grid}-out")
            self.assertEqual(self.tensors_in(f"{grid}-out"), self.tensors_in(ORACLES / "llama"), grid)
            files.add((self.directory / f"{grid}-out/model.safetensors").read_bytes())
        self.assertEqual(len(files), 1)

    def test_becomes_the_same_bytes_again_in_each_type(self):
        self.ended("export", self.untrained(ORACLES / "qwen2", "tied"), "--out", "tied-out")
        self.assertEqual(self.tensors_in("tied-out"), self.tensors_in(ORACLES / "qwen2"))
        self.ended("export", self.untrained(ORACLES / "llama_bf16_shards", "bf16"), "--out", "bf16-out", "--dtype",
                   "bf16", "--shard-size", "20k")
        self.assertEqual(self.tensors_in("bf16-out"), self.tensors_in(ORACLES / "llama_bf16_shards"))
        self.assertGreater(len(list((self.directory / "bf16-out").glob("*.safetensors"))), 1)
        self.ended("export", "tied", "--out", "half", "--dtype", "fp16")
        self.ended("export", self.untrained(self.directory / "half", "fp16"), "--out", "half-out", "--dtype", "fp16")
        self.assertEqual(self.tensors_in("half-out"), self.tensors_in("half"))

    def test_has_a_tokenizer(self):
        model = self.directory / "model"
        shutil.copytree(ORACLES / "llama", model)
        for path in (model, *model.iterdir()):
            path.chmod(0o755)
        (model / "tokenizer.json").write_text(tokenizer_file())
        a, b = (CHARACTERS.index(character) + 2 for character in "ab")
        flags = ("--tokens", "6", "--temperature", "0", "--ignore-eos")
        ids = [[int(word) for word in self.ended("generate", model, "--ids", prompt, *flags).out.split(",")]
               for prompt in (f"0,{a},{b}", f"{a},{b}")]
        shown = {2: "\n", 3: " ", 0: "<s>", 1: "</s>"}
        # Only tokens of the tokenizer are drawn from text, of all from ids.
        if max(max(each) for each in ids) < len(CHARACTERS) + 2:
            texts = ["ab" + "".join(shown.get(token, CHARACTERS[token - 2]) for token in each[-6:]) for each in ids]
            self.assertEqual(self.ended("generate", model, "--prompt", "ab", *flags).out, texts[0] + "\n")
            self.assertEqual(self.ended("generate", model, "--prompt", "ab", "--no-special", *flags).out,
                             texts[1] + "\n")
        twice = self.ended("generate", model, "--prompt", "<s>ab", *flags)
        self.assertIn("the prompt begins twice", twice.err)
        once = self.ended("generate", model, "--prompt", "<s>ab", "--no-special", *flags)
        self.assertNotIn("twice", once.err)
        text = self.ended("generate", model, "--prompt", "ab", *flags).out
        self.assertEqual(once.out, "<s>" + text)
        first = shown.get(text[2], text[2])
        token = {"\n": 2, " ": 3}.get(first, CHARACTERS.index(first) + 2 if first in CHARACTERS else 0)
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, token]}))
        self.assertEqual(self.ended("generate", model, "--prompt", "ab", *flags[:-1]).out, "ab\n")
        self.assertEqual(self.ended("generate", model, "--prompt", "ab", *flags).out, text)

        training = ("--data", "text.txt", "--sequence", "16", "--batch", "4", "--steps", "2", "--save-every", "1",
                    "--from", model)
        self.ended("train", *training, "--out", "run")
        self.assertEqual((self.directory / "run/origin/tokenizer.json").read_text(), tokenizer_file())
        self.ended("train", "--resume", "run/step-000001", "--out", "branch")
        self.assertEqual(losses(self.directory / "branch")[2], losses(self.directory / "run")[2])
        self.ended("export", "branch", "--out", "exported")
        self.assertEqual((self.directory / "exported/tokenizer.json").read_text(), tokenizer_file())
        (self.directory / "other/origin").mkdir(parents=True)  # a run left it that was killed before it had saved
        (self.directory / "other/origin/tokenizer.json").write_text("{}")
        self.ended("train", *training, "--tokenizer", "chars", "--out", "other")
        self.assertEqual({path.name for path in (self.directory / "other/origin").iterdir()},
                         {"config.json", "generation_config.json"})
        self.ended("train", "--data", "text.txt", "--sequence", "16", "--batch", "4", "--steps", "1", "--layers", "1",
                   "--hidden", "16", "--heads", "2", "--tokenizer", "model/tokenizer.json", "--out", "own")
        self.ended("generate", "own", "--prompt", "line", "--tokens", "3")
        for arguments, words in (
                (("generate", "run", "--prompt", "ab"),
                 ["run/origin", "holds another tokenizer", "copy the run's own"]),
                (("train", "--resume", "run"), ["holds another tokenizer"]),
                (("generate", "own", "--prompt", "ab"), ["own/origin", "and is not there; copy the whole directory"]),
                (("train", *training, "--tokenizer", "nothing", "--out", "new"), ["bytes, chars", "'nothing'"]),
                (("train", *training, "--tokenizer", "./none", "--out", "new"), ["there is no tokenizer ./none"])):
            with self.subTest(arguments):
                (self.directory / "run/origin/tokenizer.json").write_text(tokenizer_file() + " ")
                shutil.rmtree(self.directory / "own/origin", ignore_errors=True)
                self.refused(*arguments, words=words)
        (model / "tokenizer.json").unlink()
        self.refused("train", *training, "--out", "new", words=["model has no tokenizer; name one with --tokenizer"])

    def test_trains_a_part(self):
        run = self.run_from("llama", "part", "--train", "layers.1.*mlp")
        self.ended("export", run, "--out", "part-out")
        before, after = (tensors_of(path / "model.safetensors")
                         for path in (ORACLES / "llama", self.directory / "part-out"))
        changed = {name for name in before if before[name] != after[name]}
        self.assertEqual(changed, {f"model.layers.1.mlp.{part}_proj.weight" for part in ("gate", "up", "down")})

    @needs_mpi
    def test_trains_low_rank_products_and_writes_them(self):
        flags = ("--lora-rank", "2", "--lora-alpha", "4", "--lora", "attention", "--learning-rate", "0.05")
        alone, divided = (self.run_from("llama", f"lora-{ranks}", *flags, "--grid", grid, ranks=ranks)
                          for grid, ranks in (("1x1x1x1", 1), ("2x2x1x1", 4)))
        for step, loss in losses(alone).items():
            self.assertAlmostEqual(float(losses(divided)[step]) / float(loss), 1, delta=1e-5)
        self.assertLess(float(losses(alone)[4]), float(losses(alone)[1]))
        self.ended("export", alone, "--out", "adapter", "--adapter")
        adapter = tensors_of(self.directory / "adapter/adapter_model.safetensors")
        self.assertEqual(len(adapter), 2 * 2 * 4)
        self.assertEqual(adapter["base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight"][1], (2, 48))
        self.assertEqual(adapter["base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight"][1], (16, 2))
        config = json.loads((self.directory / "adapter/adapter_config.json").read_text())
        self.assertEqual(config["target_modules"], ["k_proj", "o_proj", "q_proj", "v_proj"])
        self.ended("export", alone, "--out", "merged")
        prompt = ("--ids", "1,2,3", "--tokens", "12", "--temperature", "0", "--dtype", "fp32")
        self.assertEqual(self.ended("generate", alone, *prompt).out, self.ended("generate", "merged", *prompt).out)

    def test_is_refused_in_one_sentence(self):
        llama, train = ORACLES / "llama", ("train", *SMALL, "--out", "out")
        for arguments, words in (
                ((*train, "--from", llama, "--hidden", "64"), ["has hidden = 48", "says 64; leave it out"]),
                ((*train, "--from", llama, "--model", "gpt-tiny"), ["leave --model out"]),
                ((*train, "--from", "nowhere"), ["nowhere has no config.json"]),
                ((*train, "--from", llama, "--sequence", "65"), ["allows texts of 64 tokens, got --sequence 65"]),
                ((*train, "--from", llama, "--train", "("), ["'(' is no regular expression"]),
                ((*train, "--from", llama, "--train", "nothing"), ["every parameter is frozen"]),
                ((*train, "--from", llama, "--grid", "3x1x1x1", "--ranks", "3"), ["x may be 1, 2"]),
                (("train", "--data", "text.txt", "--tokenizer", "bytes", "--sequence", "16", "--from", llama),
                 ["the tokenizer has 256 tokens, more than the model's vocabulary of 131"]),
                (("generate", llama, "--ids", "131"), ["--ids must be from 0 to 130, got 131"]),
                (("generate", llama, "--prompt", "x"), ["give token ids with --ids"]),
                (("generate", llama, "--ids", ",".join(["1"] * 65)), ["the prompt has 65 tokens", "at most 64"]),
                (("generate", llama, "--checkpoint", llama), ["give one of them"])):
            with self.subTest(arguments):
                self.refused(*arguments, words=words)
        self.run_from("llama", "run")
        for arguments, words in (
                (("export", "run", "--out", "run"), ["run exists; name another directory"]),
                (("export", "run", "--out", "new", "--average"), ["has no average of its weights"]),
                (("export", "run", "--out", "new", "--adapter"), ["has no low-rank products"]),
                (("export", "run", "--out", "new", "--dtype", "fp8"),
                 ["--dtype must be fp32, bf16 or fp16, got 'fp8'"])):
            with self.subTest(arguments):
                self.refused(*arguments, words=words)
        self.assertFalse((self.directory / "new").exists())
        self.assertIsNone(re.search("partial", " ".join(map(str, self.directory.iterdir()))))


if __name__ == "__main__":
    unittest.main()
