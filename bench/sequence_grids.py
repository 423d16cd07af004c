#!/usr/bin/env python3
"""The planner's best grids with and without what divides a sequence: attention's rows over y, rows
of norms over x, and a context over z.

    bench/sequence_grids.py
        two tables: seconds per step of some networks by what is divided; and the best grids of
        gpt80b and of Llama 3.1 70B, by length and machine, before and after
"""
import argparse
import json
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent
PLANNER = TOP / "build/release/bin/axonn-config"
ROWS, NORMS, CONTEXT = ["--attention-rows", "auto"], ["--norm-rows", "auto"], ["--context", 0]
# (network, its flags, GPUs, machine)
FEW = [("Llama 70B, 131072 tokens", ["--model", "llama-3.1-70b", "--sequence", 131072], 512, "dgx-h100"),
       ("the same, 32768 tokens", ["--model", "llama-3.1-70b", "--sequence", 32768], 512, "dgx-h100"),
       ("the same, 8192 tokens", ["--model", "llama-3.1-70b", "--sequence", 8192], 512, "dgx-h100"),
       ("the same, 8192 tokens", ["--model", "llama-3.1-70b", "--sequence", 8192], 1024, "dgx-h100"),
       ("the same, 8192 tokens", ["--model", "llama-3.1-70b", "--sequence", 8192], 1024, "frontier"),
       ("gpt80b", ["--model", "gpt80b"], 1024, "dgx-h100"),
       ("gpt80b", ["--model", "gpt80b"], 1024, "frontier")]
MACHINES = ["perlmutter", "frontier", "alps", "dgx-h100"]


def best(model, gpus, machine, *flags):
    """The fastest layout; nothing if none fits."""
    command = [PLANNER, "--gpus", gpus, "--machine", machine, *model, *flags, "--top", 1, "--json"]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return json.loads(ended.stdout)["layouts"][0] if ended.returncode == 0 else None


def written(layout):
    if layout is None:
        return "does not fit"
    context = f", context {layout['context']}" if layout["context"] > 1 else ""
    return f"{layout['seconds']:.2f} ({'x'.join(map(str, layout['grid']))}{context})"


def what_is_divided():
    print("| network | GPUs | whole | rows over y | norms over x | context over z | all |\n" + "| --- " * 7 + "|")
    for name, model, gpus, machine in FEW:
        cells = [written(best(model, gpus, machine, *flags))
                 for flags in ([], ROWS, NORMS, CONTEXT, [*ROWS, *NORMS, *CONTEXT])]
        print(f"| {name} | {gpus} {machine} | {' | '.join(cells)} |")


def best_grids():
    forms = {"whole": [], "rows and norms": [*ROWS, *NORMS], "all": [*ROWS, *NORMS, *CONTEXT]}
    print(f"\n| network | tokens | machine | {' | '.join(forms)} | times |\n" + "| --- " * 7 + "|")
    along_y = dict.fromkeys(forms, 0)
    for name in ("gpt80b", "llama-3.1-70b"):
        for tokens in (8192, 32768, 131072):
            for machine in MACHINES:
                found = {form: best(["--model", name, "--sequence", tokens], 1024, machine, *flags)
                         for form, flags in forms.items()}
                for form, one in found.items():
                    along_y[form] += one is not None and one["grid"][1] > 1
                before, after = found["whole"], found["all"]
                times = f"{before['seconds'] / after['seconds']:.2f}" if before and after else "-"
                print(f"| {name} | {tokens} | {machine} | {' | '.join(map(written, found.values()))} | {times} |")
    print("\nBest grids with y > 1: " + ", ".join(f"{form} {count}" for form, count in along_y.items()))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    what_is_divided()
    best_grids()
