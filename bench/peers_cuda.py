#!/usr/bin/env python3
"""PyTorch on one GPU, for scripts/gpu-day; prints lines of JSON.

    bench/peers_cuda.py bounds
        GB/s of a copy, TFLOP/s of products in bf16 on random numbers, versions and paths of libraries
    bench/peers_cuda.py gpt --layers 12 --hidden 768 --heads 12 --rows 32
    bench/peers_cuda.py unet
        median step, eager and then compiled, of the networks of bench/peers.py (tied head, 1024
        tokens, 50257 words by a Zipf law) and bench/peers_unet.py (channels-last): fp32 weights,
        autocast to bf16, fused AdamW, clipping

--rehearse: small sizes, for the dry GPU."""
import argparse
import itertools
import json
import pathlib
import statistics
import sys
import time
import types

import torch

import peers
import peers_unet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from gpu_day import versions

DEVICE = torch.device("cuda")
VOCABULARY, TOKENS, STEPS, WARM_UP = 50257, 1024, 15, 5


def seconds_of(work, times=10):
    """On the device, of one of `times` in a row."""
    work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / times


def product_tflops(m, n, k):
    a, b = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
    return 2 * m * n * k / seconds_of(lambda: a @ b) / 1e12


def bounds(scale):
    source = torch.randn(2**28 // scale, device=DEVICE)
    target = torch.empty_like(source)
    yield {"kind": "copy", "GB/s": 2 * source.nbytes / seconds_of(lambda: target.copy_(source)) / 1e9}
    rows = 16384 // scale
    shapes = {"8192^3": (8192 // scale,) * 3}
    for hidden in (768, 1280, 1600):
        shapes |= {f"{hidden} up": (rows, 4 * hidden, hidden), f"{hidden} down": (rows, hidden, 4 * hidden),
                   f"{hidden} qkv": (rows, 3 * hidden, hidden), f"{hidden} head": (rows, VOCABULARY, hidden)}
    shapes["768 head, padded"] = (rows, 50304, 768)
    for name, shape in shapes.items():
        yield {"kind": name, "TFLOP/s": product_tflops(*shape)}
    torch.nn.functional.conv2d(*(torch.ones(1, 8, 8, 8, device=DEVICE) for _ in range(2)))  # loads cuDNN
    memory = torch.cuda.get_device_properties(0).total_memory
    yield {"kind": "torch", "version": torch.__version__, "GiB": memory / 2**30}
    yield from versions.rows("PyTorch", versions.of_this_process())


def gpt_batches(rows, tokens):
    """A few batches, again and again."""
    frequency = 1 / torch.arange(1, VOCABULARY + 1, device=DEVICE)
    ids = torch.multinomial(frequency, 4 * rows * (tokens + 1), replacement=True).view(4, rows, tokens + 1)
    return itertools.cycle([(batch[:, :-1], batch[:, 1:]) for batch in ids])


def unet_batches(job):
    while True:
        clean, noise = (torch.randn(job.batch, 3, job.image, job.image, device=DEVICE)
                        .contiguous(memory_format=torch.channels_last) for _ in range(2))
        yield clean, torch.randint(peers_unet.TIMES, (job.batch,), device=DEVICE), noise


def make(options):
    """The network, its batches, and samples or tokens per step."""
    small = options.rehearse
    if options.what == "gpt":
        tokens = 64 if small else TOKENS
        model = peers.Gpt(options.layers, options.hidden, options.heads, tokens, VOCABULARY)
        model.head.weight = model.tokens.weight
        return model, gpt_batches(options.rows, tokens), options.rows * tokens
    job = types.SimpleNamespace(image=32, base=32 if small else 128, multipliers=[1, 2] if small else [1, 2, 2, 2],
                                blocks=1 if small else 3, attention=16, heads=4, batch=2 if small else 128,
                                channels_last=True)
    return peers_unet.make(job), unet_batches(job), job.batch


def train(options):
    """Eager and compiled steps of the same network."""
    model, batches, samples = make(options)
    model.to(DEVICE)
    optimizer = peers.adamw(model)
    for kind, step in (("eager", model), ("compiled", torch.compile(model, dynamic=False))):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        seconds, losses = [], []
        for _ in range(4 if options.rehearse else STEPS):
            start = time.perf_counter()
            with torch.autocast("cuda", torch.bfloat16):
                loss = step(*next(batches))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), peers.MAX_NORM, foreach=True)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds[WARM_UP:] or seconds)
        yield {"kind": kind, "ms": 1e3 * median, "per_second": samples / median,
               "GB": torch.cuda.max_memory_allocated() / 1e9, "first_seconds": seconds[0], "losses": losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bounds", "gpt", "unet"])
    for name in ("layers", "hidden", "heads", "rows"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    for row in bounds(64 if options.rehearse else 1) if options.what == "bounds" else train(options):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
