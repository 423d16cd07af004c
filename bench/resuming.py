#!/usr/bin/env python3
"""Measures how long a resume takes on hosts with shaped links (needs root).

    bench/resuming.py [--grid 1x1x1x4] [--saved 1x1x1x4] [--rate 1gbit] [--storage 1] [--repeats 3]
                      [--layers 14] [--hidden 768] [--gpt PATH]...

Each rank is on a host of its own. The checkpoint lies on one storage server, which gives all hosts
together --storage Gbit/s (0: no limit, as from this machine's page cache). A resume is the time of a
job that resumes and takes one step, less that of a job that starts anew and takes one step. Builds
(--gpt, several times) take turns, each with a checkpoint that it saved on the grid --saved. The
table has the median, the least and the greatest time.
"""
import argparse
import math
import pathlib
import shutil
import statistics
import tempfile
import time

from shaped_hosts import TOP, call, hosts, on_hosts, write_text


def ranks_of(grid):
    return math.prod(map(int, grid.split("x")))


class Builds:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        write_text(scratch / "text.txt")
        self.network = ["--layers", args.layers, "--hidden", args.hidden, "--heads", 12, "--sequence", 8, "--batch", 4,
                        "--vocab", 256, "--gemm", "mm", "--optimizer-schedule", "rs-opt-ag", "--data",
                        scratch / "text.txt", "--validation-fraction", 0, "--validate-every", 0, "--save-every", 0]

    def save(self, number, gpt):
        run = self.scratch / f"saved-{number}"
        call(TOP / "scripts/mpirun", "-n", ranks_of(self.args.saved), gpt, "train", *self.network, "--steps", 1,
             "--grid", self.args.saved, "--out", run)
        return run

    def seconds(self, gpt, steps, *flags):
        (self.scratch / "clock").write_bytes(bytes(8))
        slow = [] if self.args.storage == 0 else [
            f"LD_PRELOAD={TOP / 'build/release/lib/libslow_storage.so'}", "AXONN_STORAGE_FILES=.safetensors",
            f"AXONN_STORAGE_CLOCK={self.scratch / 'clock'}", f"AXONN_STORAGE_RATE={self.args.storage * 1e9 / 8}"]
        begin = time.monotonic()
        on_hosts(ranks_of(self.args.grid), "env", *slow, gpt, "train", *self.network, "--steps", steps, "--grid",
                 self.args.grid, "--out", self.scratch / "run", "--no-save-last", *flags)
        shutil.rmtree(self.scratch / "run")
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="1x1x1x4")
    parser.add_argument("--saved", default="1x1x1x4")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--storage", type=float, default=1, metavar="GBIT")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--gpt", action="append")
    parser.add_argument("--out", help="folder for the checkpoints; a temporary one by default")
    args = parser.parse_args()
    gpts = args.gpt or [TOP / "build/release/bin/gpt"]
    times = [[] for _ in gpts]
    with tempfile.TemporaryDirectory(prefix="axonn-resuming-", dir=args.out) as folder:
        builds = Builds(args, pathlib.Path(folder))
        saved = [builds.save(number, gpt) for number, gpt in enumerate(gpts)]
        sizes = [sum(path.stat().st_size for path in run.rglob("*.safetensors")) for run in saved]
        with hosts(ranks_of(args.grid), args.rate):
            for _ in range(args.repeats):
                for number, gpt in enumerate(gpts):
                    anew = builds.seconds(gpt, 1)
                    times[number].append(builds.seconds(gpt, 2, "--resume", saved[number]) - anew)
    print("| build | checkpoint | resume, s | least | greatest |\n| --- | --- | --- | --- | --- |")
    for gpt, size, each in zip(gpts, sizes, times):
        print(f"| {gpt} | {size / 2**20:.0f} MiB | {statistics.median(each):.2f} | {min(each):.2f} | {max(each):.2f} |")


if __name__ == "__main__":
    main()
