#!/usr/bin/env python3
"""Losses of a GPT on several grids against one rank (the setting of the AxoNN paper's Figure 8), and how well it learns.

    bench/loss_curves.py grids --data TEXT [--steps 500] [--grids 1x1x1x1 2x1x1x1 ...]
        runs every grid with the same seed and prints the greatest relative difference of its losses from the first grid's
    bench/loss_curves.py learn --data TEXT [--steps 2000] [--seeds 1 2 3]
        characters, 4 layers, hidden 128, batch 16 x 64: prints the final validation loss of every seed and their mean

Both print one JSON line a run and leave the runs in --out. Exit status 1 when `grids` differs by more than 1e-5.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
GRIDS = ["1x1x1x1", "2x1x1x1", "1x2x1x1", "1x1x2x1", "1x1x1x2", "2x2x1x1", "2x2x2x2"]
MODEL = "--gemm mm --layers 4 --hidden 128 --heads 4 --sequence 64 --batch 16 --learning-rate 1e-3 --learning-rate-end 1e-4 --warmup 100".split()


def ranks_of(grid):
    product = 1
    for size in grid.split("x"):
        product *= int(size)
    return product


def run(args, name, grid, *extra):
    out = pathlib.Path(args.out) / name
    if (out / "metrics.jsonl").exists():
        sys.exit(f"{out} holds a run already; remove it or name another --out")
    command = [TOP / "scripts/mpirun", "-n", str(ranks_of(grid)), args.gpt, "train", "--grid", grid, "--data", args.data, "--out", out, "--save-every", "0",
               "--steps", str(args.steps), "--log-every", "100", *MODEL, *extra]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in open(out / "metrics.jsonl")]


def grids(args):
    reference, worst = None, 0.0
    for grid in args.grids:
        losses = [line["loss"] for line in run(args, f"grid-{grid}", grid, "--validate-every", "0")]
        reference = reference or losses
        difference = max(abs(a - b) / abs(b) for a, b in zip(losses, reference))
        worst = max(worst, difference)
        print(json.dumps({"grid": grid, "steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1], "worst_difference": difference}), flush=True)
    return worst <= 1e-5


def learn(args):
    finals = []
    for seed in args.seeds:
        lines = run(args, f"seed-{seed}", "1x1x1x1", "--tokenizer", "chars", "--seed", str(seed), "--validate-every", "250")
        validation = {line["step"]: line["validation_loss"] for line in lines if line.get("validation_loss") is not None}
        finals.append(validation[max(validation)])
        print(json.dumps({"seed": seed, "validation_loss": validation}), flush=True)
    print(json.dumps({"seeds": args.seeds, "steps": args.steps, "mean_validation_loss": round(statistics.mean(finals), 4)}))
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["grids", "learn"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--grids", nargs="+", default=GRIDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--gpt", default=TOP / "build/release/bin/gpt")
    parser.add_argument("--out", default=TOP / "runs/loss_curves")
    args = parser.parse_args()
    args.steps = args.steps or {"grids": 500, "learn": 2000}[args.what]
    sys.exit(0 if {"grids": grids, "learn": learn}[args.what](args) else 1)


if __name__ == "__main__":
    main()
