#!/usr/bin/env python3
"""Compares the losses of a GPT or a UNet on several grids with one rank (the setting of the AxoNN
paper's Figure 8), and measures its final loss.

    bench/loss_curves.py grids --data TEXT [--steps 500] [--grids 1x1x1x1 2x1x1x1 ...]
        runs every grid with the same seed and prints the maximum relative difference between its
        losses and those of the first grid; with --keep bench/results/losses.json it also writes all
        losses, from which scripts/pictures.py draws README's image: name four grids then
    bench/loss_curves.py learn --data TEXT [--steps 2000] [--seeds 1 2 3]
        characters, 4 layers, hidden 128, batch 16 x 64: prints the final validation loss of every
        seed and their mean
    bench/loss_curves.py unet-grids --data CIFAR10-DIRECTORY [--steps 200] [--grids 1x1x1x1 2x1x2x1 ...]
        like `grids`, for a small UNet with classes
    bench/loss_curves.py unet-learn --data CIFAR10-DIRECTORY [--steps 200] [--seeds 1 2]
        base 64, multipliers 1 2 2, two blocks, attention at 16, batch 16, learning rate 1e-4:
        prints the loss on 128 held-out images

All print one JSON line per run and leave the runs in --out. The exit status is 1 if grids differ by
more than 1e-5.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
GRIDS = ["1x1x1x1", "2x1x1x1", "1x2x1x1", "1x1x2x1", "1x1x1x2", "2x2x1x1", "2x2x2x2"]
UNET_GRIDS = ["1x1x1x1", "2x2x1x1", "1x1x4x1", "2x1x2x1", "2x2x2x2"]
MODEL = ("--gemm mm --layers 4 --hidden 128 --heads 4 --sequence 64 --batch 16 --learning-rate 1e-3 "
         "--learning-rate-end 1e-4 --warmup 100").split()
UNET = ("--gemm mm --base 32 --multipliers 1 2 --blocks 1 --attention 16 --heads 4 --groups 8 --classes -1 --batch 16 "
        "--learning-rate 1e-4 --learning-rate-end 1e-4 --warmup 10").split()
UNET_LEARN = ("--base 64 --multipliers 1 2 2 --blocks 2 --attention 16 --heads 4 --batch 16 --learning-rate 1e-4 "
              "--learning-rate-end 1e-4 --warmup 0 --clip 0").split()


def ranks_of(grid):
    return math.prod(map(int, grid.split("x")))


def run(args, name, grid, model, *extra):
    out = pathlib.Path(args.out) / name
    if (out / "metrics.jsonl").exists():
        sys.exit(f"{out} holds a run already; remove it or name another --out")
    program = TOP / "build/release/bin" / ("unet" if args.what.startswith("unet") else "gpt")
    command = [TOP / "scripts/mpirun", "-n", str(ranks_of(grid)), args.program or program, "train", "--grid", grid,
               "--data", args.data, "--out", out, "--save-every", "0", "--steps", str(args.steps), "--log-every", "100",
               *model, *extra]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in open(out / "metrics.jsonl")]


def keep(path, losses, args):
    """The losses, a line per grid, with the way to make them again."""
    command = (f"bench/loss_curves.py {args.what} --data {pathlib.Path(args.data).name} --grids {' '.join(losses)} "
               f"--steps {args.steps} --keep {path}")
    lines = ",\n".join(f"{json.dumps(grid)}: {[round(loss, 8) for loss in values]}" for grid, values in losses.items())
    path.write_text(f'{{"command": {json.dumps(command)},\n"losses": {{\n{lines}}}}}\n')


def grids(args):
    reference, worst, kept = None, 0.0, {}
    unet = args.what == "unet-grids"
    for grid in args.grids or (UNET_GRIDS if unet else GRIDS):
        losses = [line["loss"]
                  for line in run(args, f"{args.what}-{grid}", grid, UNET if unet else MODEL, "--validate-every", "0")]
        reference = reference or losses
        kept[grid] = losses
        difference = max(abs(a - b) / abs(b) for a, b in zip(losses, reference))
        worst = max(worst, difference)
        print(json.dumps({"grid": grid, "steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1],
                          "worst_difference": difference}), flush=True)
    if args.keep:
        keep(args.keep, kept, args)
    return worst <= 1e-5


def learn(args):
    finals = []
    how = ([*UNET_LEARN, "--validate-every", "100"] if args.what == "unet-learn"
           else [*MODEL, "--tokenizer", "chars", "--validate-every", "250"])
    for seed in args.seeds:
        lines = run(args, f"{args.what}-seed-{seed}", "1x1x1x1", how, "--seed", str(seed))
        validation = {line["step"]: line["validation_loss"]
                      for line in lines if line.get("validation_loss") is not None}
        finals.append(validation[max(validation)])
        print(json.dumps({"seed": seed, "validation_loss": validation}), flush=True)
    print(json.dumps({"seeds": args.seeds, "steps": args.steps,
                      "mean_validation_loss": round(statistics.mean(finals), 4)}))
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["grids", "learn", "unet-grids", "unet-learn"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--grids", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--program", help="gpt or unet (default: those of build/release)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--out", default=TOP / "runs/loss_curves")
    args = parser.parse_args()
    args.steps = args.steps or {"grids": 500, "learn": 2000, "unet-grids": 200, "unet-learn": 200}[args.what]
    sys.exit(0 if (grids if args.what.endswith("grids") else learn)(args) else 1)


if __name__ == "__main__":
    main()
