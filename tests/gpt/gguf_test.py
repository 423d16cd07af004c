"""`gpt export --format gguf`: the file's keys and tensors are those of the directory that it came from."""
import json
import math
import shutil
import struct
import unittest

from gguf_reader import GgufFile
from gpt_runs import GptTest
from hugging_face_test import ORACLES, SMALL, tensors_of

BLOCKS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
          "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
          "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
          "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
BLOCKS_OF_GPT2 = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
                  "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}
FP32, FP16, BF16 = 0, 1, 30

LETTERS = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 6}
END = {"id": 7, "content": "<|endoftext|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
       "normalized": False}
TOKENIZER = {"added_tokens": [END], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
             "decoder": {"type": "ByteLevel"},
             "model": {"type": "BPE", "vocab": LETTERS, "merges": ["a b", "ab c"]}}


def with_tokenizer(case, directory, tokenizer=TOKENIZER):
    """A copy of a small network with a tokenizer of a few letters."""
    shutil.copytree(ORACLES / case, directory)
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    return directory


def rows(data, count):
    step = len(data) // count
    return [data[at:at + step] for at in range(0, len(data), step)]


def neighbours(data, heads, features):
    """Rows of each head: 0, d/2, 1, d/2 + 1, ..."""
    all_rows = rows(data, heads * features)
    return b"".join(all_rows[head * features + half * (features // 2) + pair] for head in range(heads)
                    for pair in range(features // 2) for half in (0, 1))


def transposed(data, shape):
    values = rows(data, shape[0] * shape[1])
    return b"".join(values[row * shape[1] + column] for column in range(shape[1]) for row in range(shape[0]))


def name_in_gguf(name):
    layer, _, part = name.rpartition(".")
    if layer in WHOLE:
        return f"{WHOLE[layer]}.{part}"
    _, _, number, inside = layer.split(".", 3)
    return f"blk.{number}.{ {**BLOCKS, **BLOCKS_OF_GPT2}[inside]}.{part}"


def tensors_in(directory):
    one = directory / "model.safetensors"
    files = [one] if one.exists() else sorted(directory.glob("model-*.safetensors"))
    return {name: entry for file in files for name, entry in tensors_of(file).items()}


@unittest.skipUnless(ORACLES.exists(), f"needs {ORACLES}")
class Gguf(GptTest):
    def export(self, model, name, *flags):
        ended = self.gpt("export", model, "--out", name, "--format", "gguf", *flags)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertFalse((self.directory / f"{name}.partial").exists())
        return GgufFile(self.directory / name)

    def check_tensors(self, case, gguf, architecture):
        config = json.loads((ORACLES / case / "config.json").read_text())
        heads = config.get("num_attention_heads", 0)
        features = config.get("head_dim") or (config["hidden_size"] // heads if heads else 0)
        expected = {}
        for name, (dtype, shape, data) in tensors_in(ORACLES / case).items():
            if dtype == "BF16":  # the upper halves of fp32
                data = b"".join(b"\0\0" + two for two in rows(data, len(data) // 2))
            if architecture == "gpt2" and len(shape) == 2 and ".h." in name:
                data, shape = transposed(data, shape), shape[::-1]
            if architecture == "llama" and "q_proj" in name:
                data = neighbours(data, heads, features)
            if architecture == "llama" and "k_proj" in name:
                data = neighbours(data, config["num_key_value_heads"], features)
            expected[name_in_gguf(name)] = (FP32, tuple(shape), data)
        self.assertEqual(set(gguf.tensors) - {"rope_freqs.weight"}, set(expected))
        for name, entry in expected.items():
            self.assertEqual(gguf.tensors[name], entry, (case, name))

    def test_holds_the_tensors_and_sizes_of_every_family(self):
        for case, architecture in (("llama", "llama"), ("llama_bf16_shards", "llama"), ("qwen2", "qwen2"),
                                   ("qwen3", "qwen3"), ("gpt2", "gpt2")):
            with self.subTest(case):
                config = json.loads((ORACLES / case / "config.json").read_text())
                gguf = self.export(with_tokenizer(case, self.directory / case), f"{case}.gguf")
                self.check_tensors(case, gguf, architecture)
                value = {key.removeprefix(architecture + "."): value for key, value in gguf.values.items()}
                self.assertEqual((value["general.architecture"], value["general.file_type"]), (architecture, 0))
                keys = {"vocab_size": "vocab_size", "context_length": "max_position_embeddings",
                        "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
                        "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
                        "attention.head_count_kv": "num_key_value_heads"}
                if architecture == "gpt2":
                    keys = {"context_length": "n_positions", "embedding_length": "n_embd", "block_count": "n_layer",
                            "attention.head_count": "n_head"}
                    self.assertEqual(value["feed_forward_length"], config["n_inner"] or 4 * config["n_embd"])
                    self.assertAlmostEqual(value["attention.layer_norm_epsilon"] / config["layer_norm_epsilon"], 1)
                else:
                    features = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
                    for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
                        self.assertEqual(value[key], features)
                    self.assertEqual(value["rope.freq_base"], config["rope_parameters"]["rope_theta"])
                    self.assertAlmostEqual(value["attention.layer_norm_rms_epsilon"] / config["rms_norm_eps"], 1, 6)
                for ours, theirs in keys.items():
                    self.assertEqual(value[ours], config[theirs], ours)

    def test_holds_the_rotations_of_llama_3(self):
        directory = with_tokenizer("llama", self.directory / "llama")
        config = json.loads((directory / "config.json").read_text())
        rope, features = config["rope_parameters"], config["head_dim"]
        rope["original_max_position_embeddings"] = 128  # one pair of features is in each band, or more
        (directory / "config.json").write_text(json.dumps(config))
        gguf = self.export(directory, "llama.gguf")
        kind, shape, data = gguf.tensors["rope_freqs.weight"]
        self.assertEqual((kind, shape), (FP32, (features // 2,)))
        bands = set()
        for pair, factor in enumerate(struct.unpack(f"<{features // 2}f", data)):
            frequency = rope["rope_theta"] ** (-2 * pair / features)
            length, original = 2 * math.pi / frequency, rope["original_max_position_embeddings"]
            if length < original / rope["high_freq_factor"]:
                expected, band = frequency, "fast"
            elif length > original / rope["low_freq_factor"]:
                expected, band = frequency / rope["factor"], "slow"
            else:
                part = ((original / length - rope["low_freq_factor"])
                        / (rope["high_freq_factor"] - rope["low_freq_factor"]))
                expected, band = (1 - part) * frequency / rope["factor"] + part * frequency, "between"
            bands.add(band)
            self.assertAlmostEqual(frequency / factor / expected, 1, 6)
        self.assertEqual(bands, {"fast", "slow", "between"})
        self.assertNotIn("rope_freqs.weight", self.export(with_tokenizer("qwen3", self.directory / "qwen3"), "q.gguf")
                         .tensors)

    def test_holds_the_tokenizer(self):
        tokenizer = json.loads(json.dumps(TOKENIZER))
        tokenizer["added_tokens"].append({**END, "id": 8, "content": "<found>", "special": False})
        directory = with_tokenizer("llama", self.directory / "llama", tokenizer)
        (directory / "chat_template.jinja").write_text("{{ messages }}")
        gguf = self.export(directory, "llama.gguf")
        value = {key.removeprefix("tokenizer."): value for key, value in gguf.values.items()}
        tokens = value["ggml.tokens"]
        self.assertEqual(tokens[:5], ["a", "b", "c", "ab", "abc"])
        self.assertEqual((tokens[6], tokens[7], tokens[8], len(tokens)), ("\u0120", "<|endoftext|>", "<found>", 131))
        self.assertEqual(len(set(tokens)), 131)
        types = value["ggml.token_type"]
        self.assertEqual(types, [1, 1, 1, 1, 1, 5, 1, 3, 4] + [5] * (131 - 9))
        self.assertEqual(value["ggml.merges"], ["a b", "ab c"])
        self.assertEqual([value[f"ggml.{key}"] for key in ("model", "pre", "bos_token_id", "eos_token_id")],
                         ["gpt2", "gpt-2", 7, 7])
        self.assertEqual([value[f"ggml.add_{key}"] for key in ("bos_token", "eos_token", "space_prefix")], [False] * 3)
        self.assertEqual(value["chat_template"], "{{ messages }}")

    def test_comes_from_a_run_in_other_types_always_with_the_same_bytes(self):
        directory = with_tokenizer("qwen2", self.directory / "qwen2")
        ended = self.gpt("train", "--from", directory, *SMALL, "--tokenizer", directory, "--steps", "2", "--save-every",
                         "2", "--out", "run")
        self.assertEqual(ended.status, 0, ended.text)
        exact = self.export("run", "run.gguf")
        self.assertEqual(exact.values["qwen2.context_length"], 64)  # the run's texts were shorter
        ended = self.gpt("export", "run", "--out", "out")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(self.export("out", "out.gguf").bytes, exact.bytes)
        self.assertNotEqual(exact.tensors["output_norm.weight"],
                            self.export(directory, "before.gguf").tensors["output_norm.weight"])
        for dtype, kind, number in (("bf16", BF16, 32), ("fp16", FP16, 1)):
            half = self.export("run", f"{dtype}.gguf", "--dtype", dtype)
            self.assertEqual(half.values["general.file_type"], number)
            for name, (exact_kind, shape, data) in exact.tensors.items():
                if len(shape) == 1:
                    self.assertEqual(half.tensors[name], (exact_kind, shape, data), name)
                    continue
                self.assertEqual(half.tensors[name][:2], (kind, shape), name)
                if kind == FP16:
                    numbers = struct.unpack(f"<{len(data) // 4}f", data)
                    self.assertEqual(half.tensors[name][2], struct.pack(f"<{len(numbers)}e", *numbers), name)

    def test_is_refused_in_one_sentence(self):
        llama, mistral = (with_tokenizer(case, self.directory / case) for case in ("llama", "mistral"))
        tokenizer = json.loads(json.dumps(TOKENIZER))
        tokenizer["added_tokens"][0]["id"] = 131
        larger = with_tokenizer("llama", self.directory / "larger", tokenizer)
        (self.directory / "there.gguf").write_text("mine")
        into = ("--out", "new.gguf", "--format", "gguf")
        for arguments, words in (
                ((ORACLES / "llama", *into), ["this model came without its files; train --from a directory"]),
                ((mistral, *into), ["architecture llama has no windows of 7 tokens in texts of up to 64"]),
                ((larger, *into), ["has 132 tokens, more than the model's vocabulary of 131"]),
                ((llama, "--out", "there.gguf", "--format", "gguf"), ["there.gguf exists; name another file"]),
                ((llama, "--out", "mistral", "--format", "gguf", "--overwrite"), ["mistral is a directory; name a"]),
                ((llama, "--out", "new", "--format", "ggml"), ["--format must be hf or gguf, got 'ggml'"]),
                ((llama, *into, "--shard-size", "5G"), ["leave --adapter and --shard-size out"]),
                ((llama, *into, "--average"), ["is no run", "leave --adapter and --average out"])):
            with self.subTest(arguments):
                self.refuse("export", *arguments, words=words)


if __name__ == "__main__":
    unittest.main()
