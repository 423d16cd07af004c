#!/usr/bin/env python3
"""The worth of a divided sequence: steps of `gpt` with rows of queries over Y, rows of
norms over X and tokens over Z, in turns with the same grid without, beside the planner's
prediction of both.

    bench/sequences.py --rates 200mbit 1gbit [--lengths 512 2048 8192] [--turns 3]
        4 ranks on 4 hosts with shaped links (scripts/cluster, needs root)
    bench/sequences.py --ranks 2
        2 ranks on this machine, over shared memory; with --rates on 2 hosts
    bench/sequences.py ... -- --layers 2 --hidden 128 --heads 2
        another network; a step has as many tokens as --tokens says, or a sequence per rank of z and data

*waiting* are steps by `--overlap none`, with the division: of the seconds that messages take by the
rate of a link, `hidden` is the share by which steps with overlap are shorter.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from shaped_hosts import TOP, call, hosts, on_hosts, program_metrics, write_text

NETWORK = "--layers 2 --hidden 256 --heads 4 --vocab 256".split()
STEPS, UNMEASURED = 4, 1
# Of 2 and of 4 ranks: what is divided, the grid, and the switch.
CASES = {2: [("rows", "1x2x1x1", ["--attention-rows", "on"]), ("norms", "2x1x1x1", ["--norm-rows", "on"]),
             ("context", "1x1x2x1", ["--context", 2])],
         4: [("rows", "1x2x2x1", ["--attention-rows", "on"]), ("norms", "2x1x2x1", ["--norm-rows", "on"]),
             ("context", "1x1x4x1", ["--context", 4])]}


def bits_per_second(rate):
    return float(rate[:-4]) * {"k": 1e3, "m": 1e6, "g": 1e9}[rate[-4]]


@contextlib.contextmanager
def ranks_at(args, rate):
    """on_hosts(), or ranks of this machine."""
    if rate:
        with hosts(args.ranks, rate):
            yield on_hosts
    else:
        yield lambda ranks, *command: call(TOP / "scripts/mpirun", "-n", ranks, *command, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE)


def batch_of(args, length, grid):
    """Sequences: as many as --tokens says, or one for each rank of z and data."""
    _, _, z, data = map(int, grid.split("x"))
    return max(z * data, args.tokens // length)


def network_of(args, length, grid):
    return [*args.network, "--sequence", length, "--batch", batch_of(args, length, grid)]


def seconds_of(args, start, scratch, length, grid, flags):
    metrics = program_metrics(args.bin / "gpt", args.ranks, scratch, STEPS, "--data", scratch / "text.txt", "--grid",
                              grid, *network_of(args, length, grid), *flags, start=start)
    return statistics.median(line["seconds"]["step"] for line in metrics[UNMEASURED:])


def predicted(args, machine, length, grid, flags):
    command = [args.bin / "axonn-config", "--gpus", args.ranks, "--machine", machine, *network_of(args, length, grid),
               "--precision", "fp32", "--checkpoint", "off", "--optimizer-schedule", "rs-opt-ag", "--order", "xyzd",
               "--reduction", "ring", "--top", 1000, "--json", *flags]
    layouts = json.loads(call(*command, stdout=subprocess.PIPE).stdout)["layouts"]
    return next(one["seconds"] for one in layouts if "x".join(map(str, one["grid"])) == grid)


def moved_bytes(args, length, grid):
    """Keys and values of a context forward, and these and their gradients backward."""
    shape = dict(zip(args.network[::2], args.network[1::2]))
    ranks = int(grid.split("x")[2])
    tokens = batch_of(args, length, grid) * length / ranks  # a rank has so many
    return 3 * (ranks - 1) * 4 * int(shape["--layers"]) * tokens * 2 * int(shape["--hidden"])


def measure(args, start, scratch, machine, rate, length):
    for name, grid, flags in CASES[args.ranks]:
        if name not in args.divided:
            continue
        forms = {"whole": [], "divided": flags, "waiting": [*flags, "--overlap", "none"]}
        seconds = {form: [] for form in forms}
        for _ in range(args.turns):
            for form, switches in forms.items():
                seconds[form].append(seconds_of(args, start, scratch, length, grid, switches))
        whole, divided, waiting = (statistics.median(seconds[form]) for form in forms)
        ratio = statistics.median(a / b for a, b in zip(seconds["whole"], seconds["divided"]))
        guesses = [predicted(args, machine, length, grid, some) for some in ([], flags)]
        hidden = "-"
        if name == "context" and rate:
            moving = 8 * moved_bytes(args, length, grid) / bits_per_second(rate)
            hidden = f"{(waiting - divided) / moving:.0%} of {moving:.2f}"
        print(f"| {rate or 'memory'} | {length} | {name} | {grid} | {whole:.2f} | {divided:.2f} | {ratio:.2f} | "
              f"{guesses[0]:.2f} | {guesses[1]:.2f} | {guesses[0] / guesses[1]:.2f} | {waiting:.2f} | {hidden} |",
              flush=True)


def main():
    own, network = sys.argv[1:], NETWORK
    if "--" in own:
        own, network = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", nargs="+", default=[None])
    parser.add_argument("--ranks", type=int, choices=CASES, default=4)
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 2048, 8192])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--divided", nargs="+", choices=["rows", "norms", "context"],
                        default=["rows", "norms", "context"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--machine", type=pathlib.Path, help="a machine file instead of a measurement")
    parser.add_argument("--bin", type=pathlib.Path, default=TOP / "build/release/bin")
    args = parser.parse_args(own)
    args.network = network
    os.environ["OMP_NUM_THREADS"] = "1"  # hosts share the cores of this machine, and each has all of them
    print(f"{args.ranks} ranks, {' '.join(network)}, {args.tokens} tokens per step or more\n")
    print("| rate | tokens | divided | grid | whole s | divided s | times | predicted whole s | divided s | times | "
          "waiting s | hidden |\n" + "| --- " * 12 + "|")
    for rate in args.rates:
        with tempfile.TemporaryDirectory(prefix="axonn-sequences-") as scratch, ranks_at(args, rate) as start:
            scratch = pathlib.Path(scratch)
            write_text(scratch / "text.txt")
            machine = args.machine or scratch / "machine.toml"
            if args.machine is None:
                start(args.ranks, args.bin / "axonn-config", "calibrate", "--bytes", "1M", "--out", machine)
            for length in args.lengths:
                measure(args, start, scratch, machine, rate, length)


if __name__ == "__main__":
    main()
