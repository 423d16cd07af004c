#!/usr/bin/env python3
"""Trains in PyTorch from the initial weights of `unet` on the samples of `unet`. The losses are
equal up to rounding.

    .deps/peers/bin/python bench/same_samples.py --data CIFAR10-DIRECTORY [--size unet] [--steps 20] [--seed 1]

Runs `unet train` twice on one rank, once only to save its initial weights in a checkpoint. Reads
these weights into the network of bench/peers_unet.py, draws the same images, times and noise as
`unet` (Philox, include/axonn/core/philox.hpp), and takes the same number of steps of
torch.optim.AdamW. Prints both losses and gradient norms. The exit status is 1 if a loss of the
first ten steps differs by more than 1e-4, relatively; later, rounding differences grow. Needs
PyTorch, as bench/peers.py does.
"""
import argparse
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from torch import nn

import peers
import peers_unet

WORD = 0xFFFFFFFF


def philox(seed, index, stream, step=0):
    """The four words of every index (a tensor of int64); `step` is one number, or one per index.
    Multiplications wrap as in C."""
    c0, c1, c2, c3, k0, k1 = (index & WORD, index >> 32, torch.zeros_like(index) + step,
                              torch.full_like(index, stream), seed & WORD, seed >> 32)
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c2, c1, c3 = (p1 >> 32 & WORD) ^ c1 ^ k0, (p0 >> 32 & WORD) ^ c3 ^ k1, p1 & WORD, p0 & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


def stream_of(purpose, name):
    value = 2166136261
    for byte in (purpose + "\0" + name).encode():
        value = (value ^ byte) * 16777619 & WORD
    return value


def noise_of(seed, first, count, image):
    numbers = image * image * 3
    words = philox(seed, torch.arange(first * numbers, (first + count) * numbers), stream_of("noise", "training"))
    u, v = (((high << 21) + (low >> 11)).double() for high, low in (words[:2], words[2:]))
    normal = (-2 * ((u + 1) * 2.0 ** -53).log()).sqrt() * (2 * math.pi * v * 2.0 ** -53).cos()
    return normal.float().view(count, image, image, 3).permute(0, 3, 1, 2).contiguous()


def records(directory):
    raw = b"".join(path.read_bytes() for path in sorted(pathlib.Path(directory).glob("data_batch*")))
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, peers_unet.RECORD)


def samples(images, seed, first, job):
    """Inputs of peers_unet.Unet for the samples from `first`: clean images, times, noise."""
    numbers = torch.arange(first, first + job.batch)
    times = philox(seed, numbers, stream_of("sample", "time"))[0] * peers_unet.TIMES >> 32
    high, low, mirrored, _ = philox(seed, numbers, stream_of("sample", "picture"))
    chosen = [(a << 32 | b) * len(images) >> 64 for a, b in zip(high.tolist(), low.tolist())]
    clean = images[chosen, 1:].view(-1, 3, job.image, job.image).float() / 127.5 - 1
    mirrored = (mirrored & 1).bool()
    clean[mirrored] = clean[mirrored].flip(-1)
    return clean, times, noise_of(seed, first, job.batch, job.image)


def tensors_in(path):
    """Name -> values of a safetensors file in fp32, in the order of its header."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: torch.frombuffer(bytearray(data[slice(*(begin + at for at in entry["data_offsets"]))]),
                                   dtype=torch.float32).view(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def weights_of(run):
    """Name -> values, in the order of the network."""
    tensors = tensors_in(next(run.glob("step-*/x0-y0-z0.safetensors")))
    return {name.removeprefix("weights/"): values for name, values in tensors.items() if name.startswith("weights/")}


def leaves(module):
    if isinstance(module, (nn.Conv2d, nn.Linear, nn.GroupNorm)):
        yield module
    for child in module.children():
        yield from leaves(child)


@torch.no_grad()
def load(model, weights):
    names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    parts = (model.time, model.first, model.down, model.middle, model.up, model.last_norm, model.last)
    for name, leaf in zip(names, (leaf for part in parts for leaf in leaves(part)), strict=True):
        weight, shape = weights[name + ".weight"], leaf.weight.shape
        if isinstance(leaf, nn.Conv2d):  # ours has the input channels last
            leaf.weight.copy_(weight.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2))
        else:
            leaf.weight.copy_(weight.view(shape))
        leaf.bias.copy_(weights[name + ".bias"])


def train_ours(args, job, out, rate, steps):
    command = [pathlib.Path(args.bin) / "unet", "train", "--grid", "1x1x1x1", *peers_unet.flags(job),
               "--data", args.data, "--seed", args.seed, "--out", out, "--steps", steps, "--learning-rate", rate,
               "--learning-rate-end", rate, "--warmup", 0, "--clip", 0, "--validate-every", 0, "--save-every", 0]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in open(out / "metrics.jsonl")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of CIFAR-10's binary files")
    parser.add_argument("--size", choices=[size for size in peers.SIZES if size.startswith("unet")], default="unet")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", default=str(peers.TOP / "build/release/bin"))
    args = parser.parse_args()
    job = argparse.Namespace(**peers.SIZES[args.size], channels_last=False)
    with tempfile.TemporaryDirectory(prefix="axonn-same-samples-") as folder:
        train_ours(args, job, pathlib.Path(folder, "initial"), 1e-30, 1)
        weights = weights_of(pathlib.Path(folder, "initial"))
        ours = train_ours(args, job, pathlib.Path(folder, "run"), 1e-4, args.steps)
    model, images = peers_unet.make(job), records(args.data)
    load(model, weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    worst = 0.0
    for step, line in enumerate(ours):
        loss = model(*samples(images, args.seed, step * job.batch, job))
        loss.backward()
        norm = nn.utils.get_total_norm([parameter.grad for parameter in model.parameters()]).item()
        optimizer.step()
        optimizer.zero_grad()
        if step < 10:
            worst = max(worst, abs(loss.item() / line["loss"] - 1))
        print(f"step {step + 1}: loss {line['loss']:.6f}, PyTorch's {loss.item():.6f}; "
              f"gradient norm {line['gradient_norm']:.5f}, {norm:.5f}", flush=True)
    print(f"worst relative difference of the first {min(10, len(ours))} losses: {worst:.1e}")
    return worst <= 1e-4


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
