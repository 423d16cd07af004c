#!/usr/bin/env python3
"""Measures what saving costs a run: time that training stands still, time that the steps beside a
save lose, and memory for copies.

    bench/saving.py [--grid 1x1x2x2] [--repeats 3] [--layers 14] [--hidden 768] [--out DIR]

Runs without saves, with saves for which training waits (--no-save-async), with saves behind steps,
and with memory for only a quarter of the greatest file take turns. Each run saves three times. The
table has the medians over the repeats, per save:

  stands still   `seconds.checkpoint` of the steps at and beside the save, also as a share of a save
                 for which training waits; the first save, which finds no pages of copies before it,
                 apart from the later ones
  steps lose     `seconds.step` of all steps, more than as many median steps without saves
  memory         peak of the greatest rank, more than without saves; and the greatest file or limit

Some virtual machines get memory from their host at its first use, 20 times slower than a copy.
--warm touches so much memory before every run, so that the table has the cost of saving by itself.
"""
import argparse
import json
import math
import mmap
import pathlib
import shutil
import statistics
import subprocess
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
STEPS, EVERY = 22, 6  # the last save has some steps beside it
SAVES = STEPS // EVERY
KINDS = {"none": ["--save-every", "0"], "waits": ["--no-save-async"], "behind": [], "quarter": []}
MIB = 2**20


def ranks_of(grid):
    return math.prod(map(int, grid.split("x")))


def touch(gib):
    """The system has this much memory afterwards, free but backed."""
    if gib > 0:
        with mmap.mmap(-1, gib * 2**30) as memory:
            for offset in range(0, len(memory), mmap.PAGESIZE):
                memory[offset] = 1


def measure(args, scratch, kind, limit):
    """Metrics by step, and the bytes of the greatest file."""
    touch(args.warm)
    out = scratch / "run"
    network = ["--layers", args.layers, "--hidden", args.hidden, "--heads", 12, "--sequence", args.sequence]
    command = [TOP / "scripts/mpirun", "-n", ranks_of(args.grid), args.gpt, "train", "--grid", args.grid, *network,
               "--vocab", 256, "--batch", args.batch, "--gemm", "mm", "--data", TOP / "docs", "--out", out, "--steps",
               STEPS, "--save-every", EVERY, "--validation-fraction", 0, "--no-save-last", "--keep", 1, *KINDS[kind],
               *(["--save-memory", limit] if kind == "quarter" else [])]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(out / "metrics.jsonl")]
    greatest = max((path.stat().st_size for path in out.glob("step-*/*.safetensors")), default=0)
    shutil.rmtree(out)
    return lines, greatest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="1x1x2x2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--warm", type=int, default=0, metavar="GIB", help="memory to touch before every run")
    parser.add_argument("--out", help="folder on the disk to measure; a temporary one by default")
    parser.add_argument("--gpt", default=str(TOP / "build/release/bin/gpt"))
    args = parser.parse_args()
    first, later, steps, peaks, greatest = ({kind: [] for kind in KINDS} for _ in range(5))
    with tempfile.TemporaryDirectory(prefix="axonn-saving-", dir=args.out) as scratch:
        for _ in range(args.repeats):
            for kind in KINDS:
                limit = max(greatest["waits"], default=0) // 4
                lines, file = measure(args, pathlib.Path(scratch), kind, limit)
                stands = [line["seconds"]["checkpoint"] for line in lines]
                first[kind].append(sum(stands[: 2 * EVERY - 1]))
                later[kind].append(sum(stands[2 * EVERY - 1 :]) / (SAVES - 1))
                steps[kind].append([line["seconds"]["step"] for line in lines[2:]])
                peaks[kind].append(lines[-1]["peak_memory_bytes"])
                greatest[kind].append(limit if kind == "quarter" else file)
    usual = statistics.median(sum(steps["none"], []))
    wait = statistics.median(later["waits"])
    print(f"{usual:.2f} s per step without saves\n\n"
          "| saves | stands still, first save | of a save that waits | later saves | of a save that waits "
          "| steps lose | memory | file or limit |\n" + "| --- " * 8 + "|")
    for kind in KINDS:
        still = [statistics.median(times[kind]) for times in (first, later)]
        lose = statistics.median(sum(run) - len(run) * usual for run in steps[kind]) / SAVES
        more = statistics.median(peaks[kind]) - statistics.median(peaks["none"])
        stood = " | ".join(f"{time * 1000:.0f} ms | {100 * time / wait:.1f}%" for time in still)
        print(f"| {kind} | {stood} | {lose * 1000:.0f} ms | "
              f"{more / MIB:.0f} MiB | {max(greatest[kind]) / MIB:.0f} MiB |")


if __name__ == "__main__":
    main()
