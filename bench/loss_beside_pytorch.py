#!/usr/bin/env python3
"""Compares the losses of `gpt` with those of nanoGPT's loop in PyTorch, which takes the same steps.

    .deps/torch-2.11.0-cuda/bin/python bench/loss_beside_pytorch.py --data TEXT [--steps 500]
        [--grids 1x1x1x1 2x2x1x1]

`gpt` makes tokens of the text in nanoGPT's format, and exports its initial weights as transformers
loads them. A GPT-2 in PyTorch (bench/peers.py, its head tied) begins with these. It takes the
samples that docs/data.md describes ("The same samples elsewhere"), through several epochs, and
trains as nanoGPT does: AdamW with weight decay on matrices, clipping, warm-up, then a cosine;
without dropout, in fp32, each process with one thread. Prints a JSON line per grid. The exit status
is 1 if a loss differs by more than 1e-3, relatively or absolutely. Needs PyTorch, as bench/peers.py
does.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

import peers
import same_samples

TOLERANCE = 1e-3
RATE, LAST_RATE = 1e-3, 1e-4
ROUNDS = 6
# Names of the parts of peers.Gpt, and in a file of transformers.
NAMES = {"tokens": "wte", "positions": "wpe", "norm": "ln_f", "blocks": "h", "norm1": "ln_1", "qkv": "attn.c_attn",
         "out": "attn.c_proj", "norm2": "ln_2", "up": "mlp.c_fc", "down": "mlp.c_proj"}


def permuted(numbers, epochs, size, seed):
    """Each number below `size` at its place in its epoch, of the first part of the data."""
    half = ((size - 1).bit_length() + 1) // 2
    left, right = numbers >> half, numbers & (1 << half) - 1
    for number in range(ROUNDS):
        words = same_samples.philox(seed, number << 32 | right, same_samples.stream_of("order", "0"), epochs)
        left, right = right, (left ^ words[0]) & (1 << half) - 1
    places = left << half | right
    beyond = places >= size
    if beyond.any():
        places[beyond] = permuted(places[beyond], epochs[beyond], size, seed)
    return places


def first_tokens(samples, tokens, job):
    """The first token of each of so many samples."""
    windows, left_over = divmod(tokens - 1, job.sequence)
    numbers = torch.arange(samples)
    epochs = numbers // windows
    high, low, _, _ = same_samples.philox(job.seed, torch.zeros_like(numbers),
                                          same_samples.stream_of("offset", "0"), epochs)
    offsets = [(a << 32 | b) * (left_over + 1) >> 64 for a, b in zip(high.tolist(), low.tolist())]
    return torch.tensor(offsets) + permuted(numbers % windows, epochs, windows, job.seed) * job.sequence


def run(job, *command):
    ended = subprocess.run([str(word) for word in (pathlib.Path(job.bin) / "gpt", *command)], text=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                           env={"OMP_NUM_THREADS": "1", **os.environ})
    if ended.returncode:
        sys.exit(f"loss_beside_pytorch.py: gpt {command[0]} ended with status {ended.returncode}: "
                 f"{ended.stderr[-2000:]}")


def train_ours(job, data, grid, out, *flags):
    """The losses of all steps."""
    sizes = [word for key in ("layers", "hidden", "heads", "sequence", "batch", "seed")
             for word in (f"--{key}", getattr(job, key))]
    run(job, "train", "--data", f"nanogpt:{data}", "--grid", grid, "--ranks", math.prod(map(int, grid.split("x"))),
        *sizes, "--tied", "--gemm", "mm", "--dropout", 0, "--validation-fraction", 0, "--validate-every", 0, "--out",
        out, *flags)
    return [json.loads(line)["loss"] for line in open(out / "metrics.jsonl")]


def initial_weights(job, data, folder):
    """A step at a rate of 0 changes nothing."""
    train_ours(job, data, "1x1x1x1", folder / "initial", "--steps", 1, "--save-every", 1, "--learning-rate", 0,
               "--learning-rate-end", 0)
    run(job, "export", folder / "initial", "--out", folder / "exported")
    return same_samples.tensors_in(folder / "exported/model.safetensors")


@torch.no_grad()
def network(job, weights):
    """A GPT-2 with these weights. In the file a layer is (in, out), with the features (q|k|v, head)."""
    model = peers.Gpt(job.layers, job.hidden, job.heads, job.sequence, len(weights["transformer.wte.weight"]))
    model.head.weight = model.tokens.weight
    for name, parameter in model.named_parameters():
        values = weights["transformer." + ".".join(NAMES.get(part, part) for part in name.split("."))]
        values = values.t() if name.startswith("blocks") else values
        if ".qkv." in name:
            values = values.unflatten(0, (3, job.heads, -1)).transpose(0, 1).flatten(0, 2)
        parameter.copy_(values)
    return model


def rate(step, job):
    if step < job.warmup:
        return RATE * (step + 1) / job.warmup
    done = (step - job.warmup) / (job.steps - job.warmup)
    return LAST_RATE + 0.5 * (1 + math.cos(math.pi * done)) * (RATE - LAST_RATE)


def train_theirs(job, data, weights):
    """The losses of all steps."""
    tokens = torch.frombuffer(bytearray(data.read_bytes()), dtype=torch.int16).long() & 0xFFFF
    model = network(job, weights)
    optimizer = peers.adamw(model)
    losses = []
    for step, begins in enumerate(first_tokens(job.steps * job.batch, len(tokens), job).split(job.batch)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, job)
        windows = torch.stack([tokens[begin:begin + job.sequence + 1] for begin in begins])
        loss = model(windows[:, :-1], windows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), peers.MAX_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def compare(job, folder):
    data = folder / "text.bin"
    run(job, "tokenize", job.data, "--train-bpe", job.vocabulary, "--format", "nanogpt", "--out", folder / "text")
    theirs = train_theirs(job, data, initial_weights(job, data, folder))
    right = True
    for grid in job.grids:
        ours = train_ours(job, data, grid, folder / grid, "--steps", job.steps, "--warmup", job.warmup,
                          "--learning-rate", RATE, "--learning-rate-end", LAST_RATE, "--beta2", 0.95, "--weight-decay",
                          peers.WEIGHT_DECAY, "--clip", peers.MAX_NORM, "--save-every", 0, *job.flags.split())
        absolute = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
        relative = max(difference / b for difference, b in zip(absolute, theirs))
        right &= max(relative, *absolute) <= TOLERANCE
        print(json.dumps({"grid": grid, "steps": len(ours), "first_loss": ours[0], "last_loss": ours[-1],
                          "last_loss_of_pytorch": theirs[-1], "worst_relative": relative,
                          "worst_absolute": max(absolute)}), flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="text, or folder of texts")
    parser.add_argument("--grids", nargs="+", default=["1x1x1x1", "2x2x1x1"])
    for key, default, text in (("steps", 500, "of training"), ("vocabulary", 1000, "tokens of the trained tokenizer"),
                               ("layers", 3, "blocks"), ("hidden", 96, "features"), ("heads", 4, "of attention"),
                               ("sequence", 64, "tokens"), ("batch", 16, "sequences"),
                               ("seed", 1, "of weights and samples")):
        parser.add_argument(f"--{key}", type=int, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--flags", default="", help="more flags of `gpt train`, one string")
    parser.add_argument("--bin", default=str(peers.TOP / "build/release/bin"), help="folder of axonn's programs")
    job = parser.parse_args()
    job.warmup = job.steps // 10
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="axonn-nanogpt-") as folder:
        return compare(job, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
