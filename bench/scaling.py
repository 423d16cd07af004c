#!/usr/bin/env python3
"""Weak and strong scaling of `gpt`, measured as in the AxoNN paper (section VI-C): ten batches of
synthetic data, mean of the last five.

    bench/scaling.py strong 1x1x1x1 1x1x2x1 2x1x2x1 -- --layers 4 --hidden 256 --heads 8 --batch 16
        one network on every grid: speed-up over the first, and its share of the ideal
    bench/scaling.py weak 1x1x1x1=192 1x1x2x1=272 2x1x2x1=384 -- --layers 4 --heads 8 --batch 16
        the network grows with the grid: GRID=HIDDEN or GRID=PRESET (gpt5b); FLOP/s per rank,
        and its share of the first grid's
    bench/scaling.py strong 8x1x4x16 8x1x8x16 --launcher "srun --mpi=pmix -n" --peak 312e12 \\
        -- --model gpt40b --dtype bf16 --batch 2048

Arguments after `--` are passed to `gpt`. --launcher is called with the number of ranks appended.
With a local Slurm:
    scripts/slurm-local run -- bench/scaling.py strong ... --launcher "srun --mpi=pmix -N4 -n"

paper FLOP/s: Narayanan et al.'s formula 96 B s l h^2 (1 + s/6h + V/16lh), which includes a
recomputation of every layer. % of peak is relative to --peak FLOP/s per rank, or to the fastest
matrix product measured at the start. --out receives one JSON line per case, and --plot draws them
(matplotlib).
"""
import argparse
import json
import math
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
BATCHES, MEASURED = 10, 5
COLUMNS = ["grid", "ranks", "network", "s per batch", "tokens/s", "model FLOP/s", "paper FLOP/s", "% of peak",
           "exposed", "", "of ideal"]


def ranks_of(grid):
    return math.prod(map(int, grid.split("x")))


def synthetic_text(path):
    """The same bytes every time; their values do not change the time of a step."""
    state, text = 1, bytearray()
    for _ in range(1 << 20):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        text.append(32 + (state >> 16) % 95)
    path.write_bytes(text)


def measure(args, case, scratch):
    grid, _, network = case.partition("=")
    ranks, out = ranks_of(grid), scratch / grid
    grown = [] if not network else ["--hidden", network] if network.isdigit() else ["--model", network]
    command = [*shlex.split(args.launcher), str(ranks), args.gpt, "train", "--grid", grid,
               "--data", scratch / "synthetic.txt", "--out", out, "--steps", BATCHES, "--validation-fraction", "0",
               "--no-save-last", "--save-every", "0", "--validate-every", "0", *grown, *args.flags]
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True)
    if ended.returncode != 0:
        sys.exit(f"scaling.py: {grid}: {ended.stderr.strip() or f'status {ended.returncode}'}")
    lines = [json.loads(line) for line in open(out / "metrics.jsonl")][-MEASURED:]
    shutil.rmtree(out)
    mean = lambda key: statistics.mean(line[key] for line in lines)
    seconds = statistics.mean(line["seconds"]["step"] for line in lines)
    # FLOPs per batch
    work = {key: lines[0][f"{key}_flops_per_second"] * lines[0]["seconds"]["step"] for key in ("model", "paper")}
    peak = args.peak * ranks if args.peak else mean("model_flops_per_second") / mean("utilisation")
    return {"grid": grid, "ranks": ranks, "network": network or "", "seconds": seconds,
            "tokens_per_second": lines[0]["tokens_per_second"] * lines[0]["seconds"]["step"] / seconds,
            "model_flops_per_second": work["model"] / seconds, "paper_flops_per_second": work["paper"] / seconds,
            "of_peak": work["paper" if args.peak else "model"] / seconds / peak,
            "exposed": statistics.mean(line["seconds"]["communication_exposed"] / line["seconds"]["step"]
                                       for line in lines)}


def compare(mode, case, first):
    """Speed-up over the first case (strong) or FLOP/s per rank (weak), and its share of the
    ideal."""
    growth = case["ranks"] / first["ranks"]
    if mode == "strong":
        speed_up = first["seconds"] / case["seconds"]
        return f"{speed_up:.2f}x", speed_up / growth
    per_rank = case["model_flops_per_second"] / case["ranks"]
    return f"{per_rank / 1e9:.1f} G per rank", per_rank * first["ranks"] / first["model_flops_per_second"]


def plot(mode, cases, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("scaling.py: --plot needs matplotlib: apt-get install python3-matplotlib")
    figure, axes = pyplot.subplots(figsize=(6, 4))
    ranks = [case["ranks"] for case in cases]
    if mode == "strong":
        axes.plot(ranks, [case["seconds"] for case in cases], "o-", label="measured")
        axes.plot(ranks, [cases[0]["seconds"] * ranks[0] / n for n in ranks], "k--", label="ideal")
        axes.set(yscale="log", ylabel="seconds per batch")
    else:
        axes.plot(ranks, [case["model_flops_per_second"] / 1e9 for case in cases], "o-", label="measured")
        axes.plot(ranks, [cases[0]["model_flops_per_second"] / 1e9 * n / ranks[0] for n in ranks], "k--", label="ideal")
        axes.set(yscale="log", ylabel="model GFLOP/s")
    for case in cases:
        axes.annotate(case["grid"],
                      (case["ranks"], case["seconds"] if mode == "strong" else case["model_flops_per_second"] / 1e9),
                      fontsize=8)
    axes.set(xscale="log", xlabel="ranks", title=f"{mode} scaling", xticks=ranks, xticklabels=ranks)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["weak", "strong"])
    parser.add_argument("cases", nargs="+", metavar="GRID[=HIDDEN|PRESET]")
    parser.add_argument("--launcher", default=f"{TOP}/scripts/mpirun -n",
                        help="command that starts ranks; their number is appended")
    parser.add_argument("--gpt", default=str(TOP / "build/release/bin/gpt"))
    parser.add_argument("--peak", type=float, help="FLOP/s of one rank's device")
    parser.add_argument("--out", help="file for one JSON line per case")
    parser.add_argument("--plot", help="file for the image: .svg, .png, .pdf")
    args = parser.parse_args(own)
    args.flags = flags
    # every node can see the working directory
    with tempfile.TemporaryDirectory(prefix="axonn-scaling-", dir=pathlib.Path.cwd()) as scratch:
        scratch = pathlib.Path(scratch)
        synthetic_text(scratch / "synthetic.txt")
        cases = []
        print("| " + " | ".join(COLUMNS) + " |\n" + "| --- " * len(COLUMNS) + "|")
        for text in args.cases:
            case = measure(args, text, scratch)
            cases.append(case)
            case["compared"], case["of_ideal"] = compare(args.mode, case, cases[0])
            print(f"| {case['grid']} | {case['ranks']} | {case['network']} | {case['seconds']:.3f} | "
                  f"{case['tokens_per_second']:.0f} | {case['model_flops_per_second']:.3g} | "
                  f"{case['paper_flops_per_second']:.3g} | {case['of_peak']:.0%} | {case['exposed']:.0%} | "
                  f"{case['compared']} | {case['of_ideal']:.0%} |", flush=True)
    if args.out:
        pathlib.Path(args.out).write_text("".join(json.dumps(case) + "\n" for case in cases))
    if args.plot:
        plot(args.mode, cases, args.plot)


if __name__ == "__main__":
    main()
