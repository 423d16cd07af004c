"""SmolLM2's shape for bench/peers.py: transformers' LlamaForCausalLM, with random weights, on tokens
of the whole vocabulary."""
import pathlib

import torch
from torch.nn import functional as F

program = "gpt"
VOCABULARY = 49152
PRESET = "smollm2-135m"
SHAPE = dict(hidden_size=576, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536, rms_norm_eps=1e-5,
             rope_theta=100_000.0, tie_word_embeddings=True)


class Llama(torch.nn.Module):
    def __init__(self, layers, sequence):
        from transformers import LlamaConfig, LlamaForCausalLM
        super().__init__()
        self.network = LlamaForCausalLM(LlamaConfig(
            vocab_size=VOCABULARY, num_hidden_layers=layers, max_position_embeddings=sequence,
            attn_implementation="sdpa", use_cache=False, **SHAPE))

    def forward(self, ids, targets):
        logits = self.network(input_ids=ids).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def make(job):
    return Llama(job.layers, job.sequence)


def parts(model):
    return model.network.model.layers


def batches(job, rank, ranks):
    """Bytes of the text, each times 192: tokens from the whole vocabulary."""
    text = torch.frombuffer(bytearray(pathlib.Path(job.data_path).read_bytes()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(job.seed)
    while True:
        first = torch.randint(len(text) - job.sequence, (job.batch,), generator=generator).chunk(ranks)[rank]
        windows = torch.stack([text[at:at + job.sequence + 1] for at in first]).long() * (VOCABULARY // 256)
        yield windows[:, :-1], windows[:, 1:]


def flags(job):
    return ["--model", PRESET, "--layers", job.layers, "--sequence", job.sequence, "--batch", job.batch,
            "--validation-fraction", 0]
