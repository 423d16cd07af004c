#!/usr/bin/env python3
"""Steps of `gpt` under each --linear-schedule, and with the micro-batch in two parts
(--split-forward 2), in turns on two hosts with shaped links.

    bench/papers/linear_schedules.py [--rate 1gbit] [--turns 5] [--bin build/release/bin] [-- NETWORK FLAGS]
        creates the hosts (scripts/cluster, needs root). The table has the medians of forward and
        step over the turns, and the time of the better of mm-ar-c and split-forward over each

Arguments after `--` replace the network, batch and grid.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from shaped_hosts import TOP, hosts, program_metrics, write_text  # noqa: E402

RANKS = 2
NETWORK = ("--grid 2x1x1x1 --layers 4 --hidden 768 --heads 12 --sequence 256 --vocab 256 --batch 8 "
           "--micro-batch 8").split()
STEPS, UNMEASURED = 5, 2
BASELINES = {"mm-ar-c": ["--linear-schedule", "mm-ar-c"], "split-forward 2": ["--split-forward", 2]}
FORMS = BASELINES | {name: ["--linear-schedule", name] for name in ("mm-rs-c-ag", "overlap", "auto")}
TIMES = ("forward", "step")


def main():
    own, network = sys.argv[1:], NETWORK
    if "--" in own:
        own, network = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--bin", type=pathlib.Path, default=TOP / "build/release/bin")
    args = parser.parse_args(own)
    seconds = {form: {time: [] for time in TIMES} for form in FORMS}
    with tempfile.TemporaryDirectory(prefix="axonn-linear-") as scratch, hosts(RANKS, args.rate):
        scratch = pathlib.Path(scratch)
        text = scratch / "text.txt"
        write_text(text)
        for _ in range(args.turns):
            for form, flags in FORMS.items():
                metrics = program_metrics(args.bin / "gpt", RANKS, scratch, STEPS, "--data", text, *network, *flags)
                measured = [line["seconds"] for line in metrics[UNMEASURED:]]
                for time in TIMES:
                    seconds[form][time].append(statistics.median(line[time] for line in measured))
    print(f"{RANKS} hosts at {args.rate}, {' '.join(map(str, network))}\n")
    print("| schedule | forward | times | step | times |\n| --- | --- | --- | --- | --- |")
    medians = {form: {time: statistics.median(all_) for time, all_ in times.items()} for form, times in seconds.items()}
    best = {time: min(medians[form][time] for form in BASELINES) for time in TIMES}
    for form, times in medians.items():
        cells = [f"{1000 * times[time]:.0f} ms | {best[time] / times[time]:.2f}" for time in TIMES]
        print(f"| {form} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
