#!/usr/bin/env python3
"""How long an urgent message of 8 bytes takes beside low traffic over TCP, on two shaped hosts of
scripts/cluster (needs root):

    bench/priorities.py                      at 200 Mbit/s and 1 Gbit/s
    bench/priorities.py --rates 100mbit --program build/before/bin/priorities build/release/bin/priorities
        several programs in turn
"""
import argparse
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = TOP / "scripts/cluster"
PORT = "29517"


def measure(program):
    """Starts a rank on each host; the receiving one reports."""
    ranks = []
    for rank in range(2):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                 "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": PORT, "AXONN_SECRET": "bench"}
        ranks.append(subprocess.Popen(["nsenter", f"--net=/var/run/netns/axonn-node{rank}", program],
                                      env=os.environ | place, stdout=subprocess.PIPE, text=True))
    words = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"priorities.py: {program} failed")
    return "".join(words).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", nargs="+", default=[str(TOP / "build/release/bin/priorities")])
    parser.add_argument("--rates", nargs="+", default=["200mbit", "1gbit"])
    parser.add_argument("--turns", type=int, default=1)
    args = parser.parse_args()
    for rate in args.rates:
        subprocess.run([CLUSTER, "up", "--nodes", "2", "--rate", rate], check=True)
        try:
            for _ in range(args.turns):
                for program in args.program:
                    print(f"{rate:8} {program}: {measure(program)}", flush=True)
        finally:
            subprocess.run([CLUSTER, "down"], check=False)


if __name__ == "__main__":
    main()
