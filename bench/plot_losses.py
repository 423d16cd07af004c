#!/usr/bin/env python3
"""Draws the losses of runs: training as a line, validation as points.

    bench/plot_losses.py runs/unet --out losses.svg
    bench/plot_losses.py runs/grid-* --out grids.svg --log          one line per run, named by its directory

Reads metrics.jsonl of each run (docs/metrics.md). Needs matplotlib: apt-get install
python3-matplotlib.
"""
import argparse
import json
import pathlib
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
    parser.add_argument("--out", required=True, help="file for the image: .svg, .png, .pdf")
    parser.add_argument("--log", action="store_true", help="logarithmic losses")
    args = parser.parse_args()
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("plot_losses.py needs matplotlib: apt-get install python3-matplotlib")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for run in args.runs:
        path = run / "metrics.jsonl"
        if not path.is_file():
            sys.exit(f"plot_losses.py: {run} holds no metrics.jsonl")
        lines = [json.loads(line) for line in open(path)]
        drawn, = axes.plot([line["step"] for line in lines], [line["loss"] for line in lines], linewidth=0.8,
                           label=run.name)
        held_out = [(line["step"], line["validation_loss"])
                    for line in lines if line.get("validation_loss") is not None]
        if held_out:
            axes.plot(*zip(*held_out), "o", markersize=4, color=drawn.get_color(), label=f"{run.name}, validation")
    axes.set(xlabel="step", ylabel="loss", yscale="log" if args.log else "linear")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(args.out)


if __name__ == "__main__":
    main()
