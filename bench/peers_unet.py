"""The UNet of `unet` in PyTorch, for bench/peers.py: that of improved diffusion (Nichol and
Dhariwal, 2021), trained to predict the noise."""
import math
import pathlib
import random

import torch
from torch import nn
from torch.nn import functional as F

program = "unet"
TIMES = 1000
RECORD, IMAGES = 3073, 512


class Residual(nn.Module):
    def __init__(self, inputs, outputs, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(embedding, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, embedding):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(embedding)[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x, _):
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        qkv = self.qkv(pixels).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(*qkv).transpose(1, 2).flatten(2)).transpose(1, 2).view_as(x)


class Down(nn.Conv2d):
    def forward(self, x, _):
        return super().forward(x)


class Up(nn.Conv2d):
    def forward(self, x, _):
        return super().forward(F.interpolate(x, scale_factor=2.0))


class Chain(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x, embedding):
        for part in self.parts:
            x = part(x, embedding)
        return x


class Unet(nn.Module):
    def __init__(self, job):
        super().__init__()
        base, size, self.base = job.base, job.image, job.base
        self.time = nn.Sequential(nn.Linear(base, 4 * base), nn.SiLU(), nn.Linear(4 * base, 4 * base), nn.SiLU())
        self.first, self.down, self.up = nn.Conv2d(3, base, 3, padding=1), nn.ModuleList(), nn.ModuleList()

        def block(inputs, outputs):
            return ([Residual(inputs, outputs, 4 * base)] +
                    ([Attention(outputs, job.heads)] if size == job.attention else []))

        channels, kept = base, [base]
        for level, multiplier in enumerate(job.multipliers):
            for _ in range(job.blocks):
                self.down.append(Chain(block(channels, multiplier * base)))
                channels = multiplier * base
                kept.append(channels)
            if level + 1 < len(job.multipliers):
                self.down.append(Chain([Down(channels, channels, 3, stride=2, padding=1)]))
                kept.append(channels)
                size //= 2
        self.middle = Chain([Residual(channels, channels, 4 * base), Attention(channels, job.heads),
                             Residual(channels, channels, 4 * base)])
        for level, multiplier in reversed(list(enumerate(job.multipliers))):
            for index in range(job.blocks + 1):
                parts = block(channels + kept.pop(), multiplier * base)
                channels = multiplier * base
                if level and index == job.blocks:
                    parts.append(Up(channels, channels, 3, padding=1))
                    size *= 2
                self.up.append(Chain(parts))
        self.last_norm, self.last = nn.GroupNorm(32, channels), nn.Conv2d(channels, 3, 3, padding=1)
        left = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES, dtype=torch.float64), 0).float()
        self.register_buffer("left", left)

    def forward(self, clean, times, noise):
        left = self.left[times][:, None, None, None]
        angles = times[:, None] * torch.exp(-math.log(10000) / (self.base // 2) *
                                              torch.arange(self.base // 2, device=times.device))
        embedding = self.time(torch.cat([angles.cos(), angles.sin()], 1))
        x = self.first(left.sqrt() * clean + (1 - left).sqrt() * noise)
        kept = [x]
        for part in self.down:
            x = part(x, embedding)
            kept.append(x)
        x = self.middle(x, embedding)
        for part in self.up:
            x = part(torch.cat([kept.pop(), x], 1), embedding)
        return F.mse_loss(self.last(F.silu(self.last_norm(x))).float(), noise)


def make(job):
    model = Unet(job)
    return model.to(memory_format=torch.channels_last) if job.channels_last else model


def parts(model):
    """The units that fully_shard gathers."""
    return [*model.down, model.middle, *model.up]


def write_data(folder, seed):
    """Random images in the format of CIFAR-10."""
    noise = random.Random(seed)
    for name in ("data_batch_1.bin", "test_batch.bin"):
        records = bytearray(noise.randbytes(RECORD * IMAGES))
        records[::RECORD] = bytes(IMAGES)  # class 0
        pathlib.Path(folder, name).write_bytes(records)
    return folder


def batches(job, rank, ranks):
    """The inputs of every step: images, times, noise."""
    records = torch.frombuffer(bytearray(pathlib.Path(job.data_path, "data_batch_1.bin").read_bytes()),
                               dtype=torch.uint8).view(-1, RECORD)
    generator = torch.Generator().manual_seed(job.seed)
    while True:
        chosen = torch.randint(len(records), (job.batch,), generator=generator)
        clean = records[chosen, 1:].view(-1, 3, job.image, job.image).float() / 127.5 - 1
        if job.channels_last:
            clean = clean.contiguous(memory_format=torch.channels_last)
        whole = (clean, torch.randint(TIMES, (job.batch,), generator=generator),
                 torch.randn(clean.shape, generator=generator))
        yield tuple(part.chunk(ranks)[rank] for part in whole)


def flags(job):
    """Of axonn's `unet`."""
    return [*(word for key in ("image", "base", "blocks", "attention", "heads", "batch")
              for word in (f"--{key}", getattr(job, key))),
            "--multipliers", *job.multipliers, "--validation-images", 1]
