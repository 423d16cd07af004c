#!/usr/bin/env python3
"""The largest micro-batch of BERT's sizes on GPUs of 32 GB by the memory model, where every replica
keeps the optimizer's whole state and where it is divided among 256 replicas, beside Table 1 of the
CoCoNet paper (Jangda et al., ASPLOS 2022).

    bench/papers/micro_batches.py [--planner build/release/bin/axonn-config]

Weights, activations and messages in bf16, gradients, master weights and state in fp32, no
activation checkpointing. The paper does not give the length of its sequences: 128 and 512 are those
of BERT's two phases.
"""
import argparse
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
MEMORY = 32e9 * 0.92  # bytes; the planner keeps 8% of a GPU free
REPLICAS = 256
SIZES = {"336M": (24, 1024, 16), "1.2B": (24, 2048, 16), "3.9B": (48, 2560, 40)}
PAPER = {("adamw", "336M"): "32 / 32", ("adamw", "1.2B"): "8 / 32", ("adamw", "3.9B"): "none / 8",
         ("lamb", "336M"): "64 / 128", ("lamb", "1.2B"): "8 / 64", ("lamb", "3.9B"): "none / 8"}
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def memory(planner, sizes, sequence, micro_batch, optimizer, schedule):
    layers, hidden, heads = map(str, sizes)
    command = [planner, "explain", f"1x1x1x{REPLICAS}", "--layers", layers, "--hidden", hidden, "--heads", heads,
               "--sequence", str(sequence), "--vocab", "30528", "--micro-batch", str(micro_batch), "--batch",
               str(REPLICAS * micro_batch), "--checkpoint", "off", "--optimizer", optimizer,
               "--optimizer-schedule", schedule]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0 and "memory" in ended.stderr:
        return float("inf")  # beyond the 40 GB of the planner's default machine
    ended.check_returncode()
    text = ended.stdout
    number, unit = re.search(r"^ *total ([\d.]+) (\w+) of", text, re.M).groups()
    return float(number) * UNITS[unit]


def largest(*given):
    planner, sizes, sequence, optimizer, schedule = given
    best, micro_batch = None, 1
    while memory(planner, sizes, sequence, micro_batch, optimizer, schedule) <= MEMORY:
        best, micro_batch = micro_batch, 2 * micro_batch
    return str(best or "none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner", default=str(TOP / "build/release/bin/axonn-config"))
    args = parser.parse_args()
    print("| optimizer | parameters | sequence | ar-opt | fuse | paper: whole state / CoCoNet |\n" + "| --- " * 6 + "|")
    for optimizer in ("adamw", "lamb"):
        for name, sizes in SIZES.items():
            for sequence in (128, 512):
                found = [largest(args.planner, sizes, sequence, optimizer, schedule) for schedule in ("ar-opt", "fuse")]
                print(f"| {optimizer} | {name} | {sequence} | {found[0]} | {found[1]} | {PAPER[optimizer, name]} |",
                      flush=True)


if __name__ == "__main__":
    main()
