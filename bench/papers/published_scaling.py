#!/usr/bin/env python3
"""Draws how published runs of FSDP scale on H100, beside the planner's model of the same layouts:

    bench/papers/published_scaling.py build/release/bin/axonn-config docs/pictures/scaling_h100.svg

MPT 1B, 3B and 7B on 64 to 512 GPUs, without activation checkpointing, from
bench/published/mpt_fsdp_h100.csv and mpt_fsdp_h100_large.csv. Prints a line per run. The dashed
line is the model if each weight were a message of its own. 7B on 64 GPUs is not published.
"""
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "scripts"))
from pictures import PALE, Picture  # noqa: E402

NETWORKS = {"2048": ("1B", "#5b7fa6"), "2560": ("3B", "#c8553d"), "4096": ("7B", "#4f9d69")}
COLUMNS = ("machine,gpus,layers,hidden,heads,sequence,vocabulary,micro_batch,batch,checkpointed,overlap,"
           "tokens_per_second_per_gpu").split(",")
WIDTH, HEIGHT, LEFT, RIGHT, TOP_EDGE, BOTTOM = 640, 400, 60, 60, 50, 50
LEAST, MOST = 24, 50  # per cent of the peak


def published():
    """Runs by hidden and GPUs, in the order of GPUs; the per cent of the peak is None if it is not known."""
    runs = []
    for name in ("mpt_fsdp_h100", "mpt_fsdp_h100_large"):
        with (TOP / f"bench/published/{name}.csv").open() as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                if (row["hidden"] in NETWORKS and row["sequence"] == "2048" and row["checkpointed"] == "0"
                        and int(row["gpus"]) >= 64):
                    runs.append({"overlap": "1", **row})
    seven = next(run for run in runs if run["hidden"] == "4096")
    runs.append({**seven, "gpus": "64", "batch": str(64 * int(seven["micro_batch"])), "mfu_percent": None})
    return sorted(runs, key=lambda run: (int(run["hidden"]), int(run["gpus"])))


def modelled(program, runs, messages):
    """Tokens per second and GPU of each run, by the constants of the preset."""
    lines = [",".join([*COLUMNS, "messages"])]
    lines += [",".join([*(run[column] for column in COLUMNS), messages]) for run in runs]
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("\n".join(lines))
        file.flush()
        ended = subprocess.run([program, "validate", file.name, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)["groups"][0]["runs"]
    return [float(run["tokens_per_second_per_gpu"]) / one["preset_ratio"] for run, one in zip(runs, found)]


def x_of(gpus):
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(int(gpus) / 64) / 3


def y_of(percent):
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP_EDGE) * (percent - LEAST) / (MOST - LEAST)


def line(picture, points, color, dashes=""):
    way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    picture.shapes.append(f'<path d="{way}" fill="none" stroke="{color}" stroke-width="2"'
                          f'{dashes and " stroke-dasharray=" + chr(34) + dashes + chr(34)}/>')


def draw(runs, blocks, weights):
    picture = Picture(WIDTH, HEIGHT, "Scaling of FSDP on H100: published runs and the model")
    picture.text(LEFT, 20, "MPT with FSDP on H100, per cent of the peak: points are published runs, lines the model,",
                 12, anchor="start")
    picture.text(LEFT, 36, "dashed lines the model if each weight were a message of its own", 12, anchor="start")
    for percent in range(25, MOST, 5):
        line(picture, [(LEFT, y_of(percent)), (WIDTH - RIGHT, y_of(percent))], "#e4e7eb")
        picture.text(LEFT - 8, y_of(percent) + 4, f"{percent}%", 12, PALE, "end")
    for gpus in (64, 128, 256, 512):
        picture.text(x_of(gpus), HEIGHT - BOTTOM + 20, str(gpus), 12, PALE)
    picture.text(WIDTH / 2, HEIGHT - 8, "GPUs", 12, PALE)
    for hidden, (name, color) in NETWORKS.items():
        own = [i for i, run in enumerate(runs) if run["hidden"] == hidden]
        for values, dashes in ((weights, "4 4"), (blocks, "")):
            line(picture, [(x_of(runs[i]["gpus"]), y_of(values[i])) for i in own], color, dashes)
        for i in own:
            if runs[i]["mfu_percent"] is not None:
                picture.shapes.append(f'<circle cx="{x_of(runs[i]["gpus"]):.1f}" '
                                      f'cy="{y_of(float(runs[i]["mfu_percent"])):.1f}" r="4.5" fill="{color}"/>')
        picture.text(WIDTH - RIGHT + 10, y_of(blocks[own[-1]]) + 4, name, 13, color, "start", bold=True)
    return picture.svg()


def main():
    program, out = sys.argv[1:]
    runs = published()
    series = []
    for messages in ("blocks", "weights"):
        tokens = modelled(program, runs, messages)
        percents = []
        for run, speed in zip(runs, tokens):
            same = next(one for one in runs if one["hidden"] == run["hidden"] and one["mfu_percent"] is not None)
            percents.append(speed * float(same["mfu_percent"]) / float(same["tokens_per_second_per_gpu"]))
        series.append(percents)
    print("network  GPUs  published  model  a message per weight")
    for run, block, weight in zip(runs, *series):
        print(f"{NETWORKS[run['hidden']][0]:>7}  {run['gpus']:>4}  {run['mfu_percent'] or '-':>9}  {block:5.1f}  "
              f"{weight:5.1f}")
    pathlib.Path(out).write_text(draw(runs, *series))


if __name__ == "__main__":
    main()
