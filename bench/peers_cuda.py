#!/usr/bin/env python3
"""PyTorch on one GPU, for scripts/gpu-day; prints one line of JSON.

    bench/peers_cuda.py ceilings
        versions, TFLOP/s of products in bf16 on random numbers, GB/s of a copy
    bench/peers_cuda.py gpt --mode eager|compiled --layers 12 --hidden 768 --heads 12 --rows 64
    bench/peers_cuda.py unet --mode eager|compiled
        median step of the networks of bench/peers.py (tied head, 1024 tokens, 50257 words) and
        bench/peers_unet.py (channels-last): fp32 weights, autocast to bf16, fused AdamW, clipping

--rehearse: small sizes, for the dry GPU."""
import argparse
import json
import statistics
import time
import types

import torch

import peers
import peers_unet

DEVICE = torch.device("cuda")
VOCABULARY, TOKENS, STEPS, WARM_UP = 50257, 1024, 25, 5


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


def ceilings(scale):
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
             "device": torch.cuda.get_device_name(), "GB": torch.cuda.get_device_properties(0).total_memory / 1e9}
    rows = 16384 // scale
    shapes = {"8192": (8192 // scale,) * 3}
    for hidden in (768, 1280, 1600):
        shapes |= {f"{hidden} up": (rows, 4 * hidden, hidden), f"{hidden} down": (rows, hidden, 4 * hidden),
                   f"{hidden} qkv": (rows, 3 * hidden, hidden)}
    for words in (VOCABULARY, 50304):
        shapes[f"head {words}"] = (rows, words, 768)
    for name, shape in shapes.items():
        found[f"{name} TFLOP/s"] = round(product_tflops(*shape), 1)
    source = torch.randn(2**28 // scale, device=DEVICE)
    target = torch.empty_like(source)
    found["copy GB/s"] = round(2 * source.nbytes / seconds_of(lambda: target.copy_(source)) / 1e9, 1)
    return found


def gpt_batches(rows, tokens):
    while True:
        ids = torch.randint(VOCABULARY, (rows, tokens + 1)).pin_memory().to(DEVICE, non_blocking=True)
        yield ids[:, :-1], ids[:, 1:]


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
    model, batches, tokens = make(options)
    model.to(DEVICE)
    step = torch.compile(model) if options.mode == "compiled" else model
    optimizer = peers.adamw(model)
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
    return {"losses": losses, "ms": 1e3 * median, "per_second": tokens / median,
            "GB": torch.cuda.max_memory_allocated() / 1e9}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ceilings", "gpt", "unet"])
    parser.add_argument("--mode", choices=["eager", "compiled"], default="eager")
    for name in ("layers", "hidden", "heads", "rows"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    print(json.dumps(ceilings(64 if options.rehearse else 1) if options.what == "ceilings" else train(options)))


if __name__ == "__main__":
    main()
