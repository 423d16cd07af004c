"""llama.cpp reads what `gpt export --format gguf` writes, and says the same; Python's gguf reads it, too."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from gguf_test import ORACLES, TOKENIZER, with_tokenizer
from gpt_runs import GptTest
from hugging_face_test import numbers_in

DEPS = pathlib.Path(__file__).resolve().parents[2] / ".deps"
LLAMA_CPP = next(DEPS.glob("llama-cpp-*/bin/python"), None)
READER = next((path.parents[3] / "bin/python" for path in DEPS.glob("*/lib/python3*/site-packages/gguf")), None)
MODEL = DEPS / "smollm2-135m"
EXPECTED = ORACLES / "smollm2_135m"
TOKENIZERS = ORACLES.parent / "tokenizer_oracles"

START = """
import json, sys, urllib.request, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 512, 1, False, -1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
"""
# Greedy tokens: the ids that follow each prompt, a text or ids, and how many tokens it had.
CONTINUE = START + """
texts = []
for prompt, tokens in json.loads(sys.argv[2]):
    answer = server.handle_completions({"prompt": prompt, "n_predict": tokens, "temperature": 0, "top_k": 1,
                                        "logprobs": 1, "ignore_eos": isinstance(prompt, list)})
    answer = answer if isinstance(answer, dict) else json.loads(answer)
    choice = answer["choices"][0]
    texts.append({"text": choice["text"], "prompt_tokens": answer["usage"]["prompt_tokens"],
                  "ids": [one["id"] for one in choice["logprobs"]["content"]]})
print(json.dumps(texts))
"""

# The ids of each text of a file with a text in JSON per line.
TOKENIZE = START + """
def ids(text):
    body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
    asked = urllib.request.Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(asked))["tokens"]
print(json.dumps([ids(json.loads(line)["text"]) for line in open(sys.argv[2])]))
"""

READ = """
import gguf, json, sys
reader = gguf.GGUFReader(sys.argv[1])
print(json.dumps({"keys": sorted(key for key in reader.fields if not key.startswith("GGUF.")),
                  "tokens": reader.fields["tokenizer.ggml.tokens"].contents(),
                  "tensors": {one.name: [one.tensor_type.name, [int(dim) for dim in one.shape],
                                         float(one.data.astype("f8").sum())] for one in reader.tensors}}))
"""


def said_by(python, program, *arguments):
    ended = subprocess.run([python, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=200,
                           env={**os.environ, "PYTHONPATH": ""})
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class LlamaCpp(GptTest):
    def export(self, model, name, *flags):
        ended = self.gpt("export", model, "--out", name, "--format", "gguf", *flags)
        self.assertEqual(ended.status, 0, ended.text)
        return self.directory / name

    @unittest.skipUnless(LLAMA_CPP, "no llama.cpp in .deps (scripts/setup --interop)")
    @unittest.skipUnless(ORACLES.exists(), f"needs {ORACLES}")
    def test_continues_as_the_reference_in_every_family(self):
        for case in ("llama", "llama_bf16_shards", "qwen2", "qwen3", "gpt2"):
            with self.subTest(case):
                expected = numbers_in(ORACLES / case / "expected.safetensors", "greedy_ids")
                tokenizer = json.loads(json.dumps(TOKENIZER))  # its end is no token that is expected
                tokenizer["added_tokens"][0]["id"] = next(id for id in range(7, 131) if id not in expected)
                file = self.export(with_tokenizer(case, self.directory / case, tokenizer), f"{case}.gguf")
                answer, = said_by(LLAMA_CPP, CONTINUE, file, json.dumps([[expected[:5], len(expected) - 5]]))
                self.assertEqual(answer["ids"], expected[5:])

    @unittest.skipUnless(LLAMA_CPP, "no llama.cpp in .deps (scripts/setup --interop)")
    @unittest.skipUnless((MODEL / "config.json").exists(), f"needs {MODEL} (scripts/setup --interop)")
    @unittest.skipUnless(EXPECTED.exists(), f"needs {EXPECTED}")
    def test_writes_the_most_likely_tokens_of_a_real_model(self):
        texts = json.loads((EXPECTED / "greedy.json").read_text())
        asked = json.dumps([[text["prompt"], len(text["new_ids"])] for text in texts])
        for text, answer in zip(texts, said_by(LLAMA_CPP, CONTINUE, self.export(MODEL, "fp32.gguf"), asked)):
            with self.subTest(prompt=text["prompt"]):
                self.assertEqual((answer["prompt_tokens"], answer["ids"]), (len(text["prompt_ids"]), text["new_ids"]))
                ours = self.gpt("generate", MODEL, "--ids", ",".join(map(str, text["prompt_ids"])), "--temperature",
                                "0", "--tokens", str(len(text["new_ids"])))
                self.assertEqual([int(word) for word in ours.out.split(",")], text["prompt_ids"] + answer["ids"])
        for dtype in ("bf16", "fp16"):  # 8 bits and 11 bits of each weight: alike for some tokens
            answer = said_by(LLAMA_CPP, CONTINUE, self.export(MODEL, f"{dtype}.gguf", "--dtype", dtype), asked)[0]
            self.assertEqual(answer["ids"][:4], texts[0]["new_ids"][:4])

    @unittest.skipUnless(LLAMA_CPP, "no llama.cpp in .deps (scripts/setup --interop)")
    @unittest.skipUnless(TOKENIZERS.exists(), f"needs {TOKENIZERS}")
    def test_makes_the_tokens_of_hugging_face(self):
        run = self.train("run", "--tokenizer", "bytes", "--gated", "--vocab", "32000", "--steps", "1", "--save-every",
                         "1")
        cases = lines_of(TOKENIZERS / "cases.jsonl")
        for name in ("sentencepiece_json", "smollm_like", "llama3_like"):
            with self.subTest(name):
                shutil.rmtree(run / "origin", ignore_errors=True)
                shutil.copytree(TOKENIZERS / name, run / "origin")
                expected = [line["ids"] for line in lines_of(TOKENIZERS / name / "ids.jsonl")]
                found = said_by(LLAMA_CPP, TOKENIZE, self.export(run, f"{name}.gguf"), TOKENIZERS / "cases.jsonl")
                self.assertEqual(len(found), len(expected))
                others = {case["name"] for case, mine, theirs in zip(cases, found, expected) if mine != theirs}
                self.assertLessEqual(others, {"unicode 15 16"})  # letters that llama.cpp does not know yet

    @unittest.skipUnless(READER, "no package gguf in .deps (scripts/setup --interop)")
    @unittest.skipUnless(ORACLES.exists(), f"needs {ORACLES}")
    def test_is_read_by_the_package_gguf(self):
        for case, dtype in (("llama", "fp32"), ("qwen3", "fp16"), ("gpt2", "bf16")):
            with self.subTest(case):
                file = self.export(with_tokenizer(case, self.directory / case), f"{case}.gguf", "--dtype", dtype)
                read = said_by(READER, READ, file)
                types = {kind for kind, _, _ in read["tensors"].values()}
                self.assertEqual(types, {"F32", {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}[dtype]})
                self.assertEqual(len(read["tokens"]), 131)
                self.assertIn("tokenizer.ggml.pre", read["keys"])
                self.assertEqual(read["tensors"]["token_embd.weight"][1][1], 131)


if __name__ == "__main__":
    unittest.main()
