"""The library transformers loads what `gpt export` writes, and PEFT its adapters."""
import json
import os
import pathlib
import subprocess
import unittest

from gpt_runs import GptTest
from hugging_face_test import ORACLES, SMALL, tensors_of

DEPS = pathlib.Path(__file__).resolve().parents[2] / ".deps"
LIBRARY = next(DEPS.glob("transformers-*/lib/python3*/site-packages"), None)
TORCH = next(DEPS.glob("torch-*-cuda/lib/python3*/site-packages"), None)
PEFT = next(DEPS.glob("peft-*/lib/python3*/site-packages"), None)
PYTHON = next(DEPS.glob("torch-*-cuda/bin/python"), None)

# Greedy tokens, and the names of the linear layers.
CONTINUE = """
import json, sys, torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float64)
if sys.argv[4]:
    import peft
    model = peft.PeftModel.from_pretrained(model, sys.argv[4])
ids = torch.tensor([json.loads(sys.argv[2])])
with torch.no_grad():
    for _ in range(int(sys.argv[3])):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
print(json.dumps({"ids": ids[0].tolist(),
                  "modules": [name for name, one in model.named_modules() if isinstance(one, torch.nn.Linear)]}))
"""

# How far the logits are from stored ones, as a share of the largest, in the stored type.
LOGITS = """
import json, sys, torch, transformers, safetensors.torch
stored = safetensors.torch.load_file(sys.argv[2])
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=stored["logits"].dtype)
with torch.no_grad():
    logits = model(stored["input_ids"]).logits
assert logits.shape == stored["logits"].shape, logits.shape
print(json.dumps(((logits - stored["logits"]).abs().max() / stored["logits"].abs().max()).item()))
"""


def said_by(program, *arguments):
    paths = os.pathsep.join(str(path) for path in (TORCH, LIBRARY, PEFT) if path)
    ended = subprocess.run([PYTHON, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=200,
                           env={**os.environ, "PYTHONPATH": paths})
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)


@unittest.skipUnless(PYTHON and LIBRARY, "no PyTorch and transformers in .deps (scripts/setup --interop)")
@unittest.skipUnless(ORACLES.exists(), f"needs {ORACLES}")
class Transformers(GptTest):
    def setUp(self):
        super().setUp()
        (self.directory / "text.txt").write_text("".join(f"line {i} of {i * 7 % 31}\n" for i in range(400)))

    def ended(self, *arguments):
        ended = self.gpt(*map(str, arguments))
        self.assertEqual(ended.status, 0, ended.text)
        return ended

    def continued(self, directory, prompt, tokens, adapter=""):
        return said_by(CONTINUE, directory, json.dumps(prompt), tokens, adapter)

    def our_ids(self, model):
        text = self.ended("generate", model, "--ids", "1,2,3", "--tokens", "12", "--temperature", "0", "--ignore-eos",
                          "--dtype", "fp32").out
        return [int(word) for word in text.split(",")]

    def test_reads_every_family_and_continues_alike(self):
        for case in ("llama", "mistral", "qwen2", "qwen3", "gpt2"):
            with self.subTest(case):
                self.ended("train", "--from", ORACLES / case, *SMALL, "--steps", "4", "--save-every", "4", "--out",
                           case)
                self.ended("export", case, "--out", f"{case}-out")
                theirs = self.continued(self.directory / f"{case}-out", [1, 2, 3], 12)
                self.assertEqual(self.our_ids(case), theirs["ids"])

    def test_gives_the_logits_of_the_directory_that_came(self):
        for case in ("llama", "llama_bf16_shards", "mistral", "qwen2", "qwen3", "gpt2"):
            with self.subTest(case):
                self.ended("train", "--from", ORACLES / case, *SMALL, "--steps", "1", "--save-every", "1", "--out",
                           case, "--learning-rate", "1e-30", "--weight-decay", "0")
                self.ended("export", case, "--out", f"{case}-out")
                difference = said_by(LOGITS, self.directory / f"{case}-out", ORACLES / case / "expected.safetensors")
                self.assertLess(difference, 1e-6)

    def test_has_the_modules_that_an_adapter_names(self):
        self.ended("train", "--from", ORACLES / "qwen3", *SMALL, "--steps", "4", "--save-every", "4", "--out", "run",
                   "--lora-rank", "2")
        self.ended("export", "run", "--out", "adapter", "--adapter")
        self.ended("export", "run", "--out", "merged")
        modules = self.continued(self.directory / "merged", [1], 1)["modules"]
        adapter = tensors_of(self.directory / "adapter/adapter_model.safetensors")
        named = {name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for name in adapter}
        self.assertEqual(named, {name for name in modules if name != "lm_head"})

    @unittest.skipUnless(PEFT, "no PEFT in .deps (scripts/setup --interop)")
    def test_loads_an_adapter(self):
        for case in ("llama", "qwen2"):
            self.ended("train", "--from", ORACLES / case, *SMALL, "--steps", "6", "--save-every", "6", "--out", case,
                       "--lora-rank", "2", "--lora-alpha", "6", "--learning-rate", "0.05")
            self.ended("export", case, "--out", f"{case}-adapter", "--adapter")
            theirs = self.continued(ORACLES / case, [1, 2, 3], 12, str(self.directory / f"{case}-adapter"))
            self.assertEqual(self.our_ids(case), theirs["ids"])
            self.assertNotEqual(self.our_ids(case), self.our_ids(ORACLES / case))


if __name__ == "__main__":
    unittest.main()
