#!/usr/bin/env python3
"""Compares the planner's ranking with measurements: `gpt` or `unet` on every grid of 8 ranks, on
hosts with shaped links.

    bench/ranking.py --nodes 2 [--program gpt] [--rate 320mbit] [--repetitions 2] [--out runs/ranking]
                     [-- NETWORK FLAGS]
        creates the hosts (scripts/cluster, needs root), measures them (axonn-config calibrate),
        trains a few steps on each grid in turn, and compares the medians with the planner's
        seconds: a table, Spearman's rank correlation, and whether the planner finds the best grids
    bench/ranking.py --nodes 2 --machine mine.toml ...
        the same with an existing machine file

Arguments after `--` replace the network and batch of both programs. --out receives machine.toml,
measured.csv, ranking.svg (axonn-config's plot) and runs.csv, which `axonn-config fit` reads.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from shaped_hosts import TOP, call, hosts, on_hosts, program_metrics, write_text

RANKS = 8
# Few tokens and a wide network, so that grids differ by more than noise.
NETWORKS = {"gpt": "--layers 2 --hidden 768 --heads 8 --sequence 64 --vocab 256 --batch 8".split(),
            "unet": "--model unet-tiny --base 64 --heads 8 --classes 0 --batch 16".split()}
# In the first steps, gathers are not prefetched yet and buffers are touched for the first time.
STEPS, UNMEASURED = 5, 2
MODES = {"exact": ["--order", "xyzd", "--reduction", "ring"],
         "aware": ["--mode", "aware", "--coefficients", "trainer", "--objective", "time"],
         "agnostic": ["--mode", "agnostic", "--coefficients", "trainer", "--objective", "time"]}


def grids():
    sizes = [size for size in range(1, RANKS + 1) if RANKS % size == 0]
    return [f"{x}x{y}x{z}x{RANKS // (x * y * z)}"
            for x in sizes for y in sizes for z in sizes if RANKS % (x * y * z) == 0]


def rows(grid):
    """Parts of the batch."""
    _, _, z, data = map(int, grid.split("x"))
    return z * data


def measure(args, grid, scratch):
    data = {"gpt": scratch / "text.txt", "unet": "shapes"}[args.program]
    metrics = program_metrics(args.bin / args.program, RANKS, scratch, STEPS, "--data", data, "--grid", grid,
                              *args.network)
    return statistics.median(line["seconds"]["step"] for line in metrics[UNMEASURED:])


# The trainer's own choice of a schedule divides the update over the replicas, as rs-opt-ag does.
def planner(args, mode, *flags):
    return [args.bin / "axonn-config", "--gpus", RANKS, "--machine", args.machine, *args.network, "--precision", "fp32",
            "--checkpoint", "off", "--optimizer-schedule", "rs-opt-ag", "--top", 100, *MODES[mode], *flags]


def predict(args, mode):
    found = json.loads(call(*planner(args, mode, "--json"), stdout=subprocess.PIPE).stdout)
    return {"x".join(map(str, layout["grid"])): layout["seconds"] for layout in found["layouts"]}


def ranks(values):
    """Ranks from 1; equal values get the mean of their ranks."""
    order = sorted(values, key=values.get)
    places = {}
    for key in order:
        equal = [place + 1 for place, other in enumerate(order) if values[other] == values[key]]
        places[key] = statistics.mean(equal)
    return places


def spearman(one, other):
    a, b = ranks({key: one[key] for key in other}), ranks(other)
    return statistics.correlation([a[key] for key in other], [b[key] for key in other])


def report(args, measured):
    print(f"\n{RANKS // args.nodes} ranks on each of {args.nodes} hosts, {' '.join(args.network)}\n")
    predicted = {mode: predict(args, mode) for mode in MODES}
    exact, places = predicted["exact"], ranks(predicted["exact"])
    print("| grid | measured s | predicted s | place measured | predicted |\n| --- | --- | --- | --- | --- |")
    for place, grid in enumerate(sorted(measured, key=measured.get), 1):
        print(f"| {grid} | {measured[grid]:.3f} | {exact.get(grid, float('nan')):.3f} | {place} | "
              f"{places.get(grid, '-'):g} |")
    print()
    for mode, seconds in predicted.items():
        common = {grid: measured[grid] for grid in seconds if grid in measured}
        first, best = sorted(common, key=seconds.get), sorted(common, key=common.get)
        print(f"{mode}: Spearman {spearman(seconds, common):.3f} over {len(common)} grids; "
              f"the predicted best ({first[0]}) takes {common[first[0]] / common[best[0]]:.3f} of the measured best "
              f"({best[0]}); {len(set(first[:5]) & set(best[:6]))} of the predicted top five in the measured top six")
    csv = args.out / "measured.csv"
    csv.write_text("".join(f"{grid},{seconds}\n" for grid, seconds in measured.items()))
    batch = int(args.network[args.network.index("--batch") + 1])
    (args.out / "runs.csv").write_text(
        "grid,batch,micro_batch,precision,optimizer_schedule,order,reduction,overlap,seconds\n" +
        "".join(f"{grid},{batch},{batch // rows(grid)},fp32,rs-opt-ag,xyzd,ring,all,{seconds}\n"
                for grid, seconds in measured.items()))
    call(*planner(args, "exact", "--plot", args.out / "ranking.svg", "--measurements", csv), stdout=subprocess.DEVNULL)


def main():
    own, network = sys.argv[1:], None
    if "--" in own:
        own, network = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--program", choices=NETWORKS, default="gpt")
    parser.add_argument("--rate", default="320mbit")
    parser.add_argument("--repetitions", type=int, default=2, help="rounds over all grids")
    parser.add_argument("--machine", type=pathlib.Path, help="a machine file instead of a measurement")
    parser.add_argument("--bin", type=pathlib.Path, default=TOP / "build/release/bin")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "runs/ranking")
    args = parser.parse_args(own)
    args.network = network or NETWORKS[args.program]
    if RANKS % args.nodes:
        parser.error(f"--nodes must divide {RANKS}")
    args.out.mkdir(parents=True, exist_ok=True)
    seconds = {grid: [] for grid in grids()}
    with tempfile.TemporaryDirectory(prefix="axonn-ranking-") as scratch, hosts(args.nodes, args.rate):
        scratch = pathlib.Path(scratch)
        write_text(scratch / "text.txt")
        if args.machine is None:
            args.machine = args.out / "machine.toml"
            on_hosts(RANKS, args.bin / "axonn-config", "calibrate", "--bytes", "1M", "--out", args.machine)
        for round_ in range(args.repetitions):
            for grid in seconds:
                seconds[grid].append(measure(args, grid, scratch))
                print(f"round {round_ + 1}: {grid} {seconds[grid][-1]:.3f} s", file=sys.stderr, flush=True)
    report(args, {grid: statistics.median(all_) for grid, all_ in seconds.items()})


if __name__ == "__main__":
    main()
