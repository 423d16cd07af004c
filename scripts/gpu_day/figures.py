"""Figures of a command, by what they are of: read from its files and output, and compared with what is expected."""
import json
import math
import re
import statistics

from . import steps

LABELS = ("network", "dtype", "kernels", "library", "side", "switch", "kind", "width", "test")  # they name a row
SAME = 1e-10  # relative, of losses in fp64: a GPU adds in another order
BUSIEST = 6   # kernels of a trace that standard output names


def training_figures(path):
    """Figures of a run of gpt or unet, by its metrics.jsonl."""
    metrics = [json.loads(line) for line in path.read_text().splitlines()]
    timed = metrics[steps.WARM_UP:] or metrics
    median = lambda value: statistics.median(value(line) for line in timed)
    return {"losses": [line["loss"] for line in metrics], "ms": 1e3 * median(lambda line: line["seconds"]["step"]),
            "per_second": median(lambda line: line.get("tokens_per_second") or line["images_per_second"]),
            "product_tflops": median(lambda line: line["model_flops_per_second"] / line["utilisation"] / 1e12),
            "GB": metrics[-1]["peak_memory_bytes"] / 1e9}


def kernel_figures(path):
    """Work of the device in the steps of a trace: the share of time without work, and milliseconds and
    launches per step of each kernel, copy and memset."""
    events = json.loads(path.read_text())["traceEvents"]
    device = {event["tid"] for event in events
              if event["name"] == "thread_name" and event["args"]["name"].startswith("GPU stream")}
    spans = [event for event in events if event["ph"] == "X"]
    traced = sum(event["name"].startswith("step ") for event in spans)
    ran = sorted((event["ts"], event["ts"] + event["dur"], event["name"]) for event in spans if event["tid"] in device)
    if not ran:
        return {"idle": 1.0, "kernels": {}}
    busy, until, kernels = 0, ran[0][0], {}
    for begin, end, name in ran:
        busy += max(0, end - max(begin, until))
        until = max(until, end)
        milliseconds, launches = kernels.get(name, (0, 0))
        kernels[name] = (milliseconds + (end - begin) / 1e3 / traced, launches + 1 / traced)
    return {"idle": 1 - busy / (until - ran[0][0]),
            "kernels": dict(sorted(kernels.items(), key=lambda kernel: -kernel[1][0]))}


def rows_of(text):
    """Figures of a command's output: of each line of JSON, by what it is of."""
    found = {}
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            label = " ".join(str(row.pop(key)) for key in LABELS if key in row)
            found.setdefault(label, {}).update(row)
    return found


def of_command(out, text):
    """Its metrics and trace, if it wrote them, else what it printed."""
    if not (out / "metrics.jsonl").exists():
        return rows_of(text)
    figures = {"": training_figures(out / "metrics.jsonl")}
    if (out / "trace.json").exists():
        figures[""] |= kernel_figures(out / "trace.json")
        busiest = list(figures[""]["kernels"].items())[:BUSIEST]
        figures["busiest"] = {name[:60]: milliseconds for name, (milliseconds, _) in busiest}
    return figures


def merge(runs):
    """Runs of one label: medians of numbers, else the first."""
    is_number = lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    return {key: statistics.median(run[key] for run in runs) if is_number(runs[0][key]) else runs[0][key]
            for key in (runs[0] if runs else {}) if all(key in run for run in runs)}


def distance(losses, right):
    if len(losses) != len(right):
        return math.inf
    return max(abs(loss - want) / abs(want) for loss, want in zip(losses, right))


def judge(step, figures, expected):
    """Puts `off`, `allowed` and `right` into rows whose losses are known. Returns why they are wrong, or nothing."""
    faults = []
    for label, row in figures.items():
        if any(not math.isfinite(loss) for loss in row.get("losses", [])):
            row["right"] = False
            faults.append(f"{label}: a loss is not finite: {row['losses']}")
        elif step.expected and "losses" in row and label:
            dtype = label.split()[1]
            want = expected[f"{step.expected} {dtype}"]
            allowed = steps.DTYPES[dtype] * want["distance"]
            off = distance(row["losses"], want["losses"])
            row |= {"off": off, "allowed": allowed, "right": off <= allowed}
            if off > allowed:
                faults.append(f"{label}: losses differ by {off:.1e}, more than {allowed:.1e}")
    if step.same and len(figures) == len({command.label for command in step.commands}):
        first, *others = (row["losses"] for row in figures.values())
        off = max(distance(other, first) for other in others)
        list(figures.values())[-1]["off"] = off
        if off > SAME:
            faults.append(f"losses differ by {off:.1e}, more than {SAME:.1e}")
    return "; ".join(faults)


def reason(text):
    """The clearest line of an output: the first with an error, else its last. GoogleTest says in the lines after
    it what failed, and in which case."""
    said = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("{", "frame #"))]
    errors = [at for at, line in enumerate(said) if re.search("error|fail|exception", line, re.IGNORECASE)]
    if not errors:
        return said[-1] if said else "no word"
    after = said[errors[0]:errors[0] + (5 if said[errors[0]].endswith(": Failure") else 1)]
    return " ".join(line for line in after if line not in ("Failed", "Google Test trace:"))
