#!/usr/bin/env python3
"""Compares the peak memory per rank with the prediction of `gpt --dry-run`, with weights sharded
over Z and with activation checkpointing.

    bench/memory.py [--grids 1x1x1x1 1x1x2x1 1x1x4x1] [--schedule ar-opt] [--gpt build/release/bin/gpt]
                    [-- NETWORK FLAGS]

The memory of the process itself (code, libraries, message buffers) is measured with a network of a
few kilobytes on the same grid, and is subtracted. The table has one row per grid and choice of
checkpointing: the predicted parts, their total, the measured total and the ratio.
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
NETWORK = "--layers 8 --hidden 768 --heads 12 --sequence 256 --vocab 256".split()
TINY = "--layers 1 --hidden 16 --heads 4 --sequence 16 --vocab 256".split()
ROWS = 4  # sequences per rank: the same activations on every grid
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PARTS = ["weights", "gradients", "optimizer", "gathered weights", "activations", "total"]


def ranks_of(grid):
    return math.prod(map(int, grid.split("x")))


def flags(schedule, grid, network, checkpoint):
    x, y, z, data = map(int, grid.split("x"))
    return ["--grid", grid, "--batch", str(ROWS * z * data), "--activation-checkpoint", str(checkpoint),
            "--gather-cache", "0", "--optimizer-schedule", schedule, *network]


def predicted(gpt, *given):
    text = subprocess.run([gpt, "--dry-run", *flags(*given)], check=True, capture_output=True, text=True).stdout
    parts = dict(re.findall(r"^  (\S[^\d]*?) +([\d.]+ (?:GiB|MiB|KiB|B))$", text[text.index("predicted memory"):],
                            re.M))
    return {name: float(value.split()[0]) * UNITS[value.split()[1]] for name, value in parts.items()}


def measured(gpt, scratch, schedule, grid, *given):
    out = scratch / "run"
    command = [TOP / "scripts/mpirun", "-n", str(ranks_of(grid)), gpt, "train", *flags(schedule, grid, *given),
               "--data", TOP / "docs", "--out", out, "--steps", "4", "--validation-fraction", "0", "--no-save-last"]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = [json.loads(line) for line in open(out / "metrics.jsonl")][-1]["peak_memory_bytes"]
    (out / "metrics.jsonl").unlink()
    return peak


def main():
    own, network = sys.argv[1:], NETWORK
    if "--" in own:
        own, network = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", nargs="+", default=["1x1x1x1", "1x1x2x1", "1x1x4x1"])
    parser.add_argument("--schedule", default="ar-opt", help="of the optimizer: ar-opt, rs-opt-ag or fuse")
    parser.add_argument("--gpt", default=str(TOP / "build/release/bin/gpt"))
    args = parser.parse_args(own)
    print("| grid | checkpointed | " + " | ".join(PARTS) + " | measured | measured / predicted |\n" +
          "| --- " * (len(PARTS) + 4) + "|")
    with tempfile.TemporaryDirectory(prefix="axonn-memory-") as scratch:
        scratch = pathlib.Path(scratch)
        for grid in args.grids:
            process = measured(args.gpt, scratch, args.schedule, grid, TINY, 0)
            for checkpoint in (0, 1):
                parts = predicted(args.gpt, args.schedule, grid, network, checkpoint)
                taken = measured(args.gpt, scratch, args.schedule, grid, network, checkpoint) - process
                sizes = [f"{parts.get(name, 0) / 2**20:.0f}" for name in PARTS]
                print(f"| {grid} | {'all' if checkpoint else 'none'} | " + " | ".join(sizes) +
                      f" | {taken / 2**20:.0f} MiB | {taken / parts['total']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
