"""Runs the steps that are not done and fit into the time, and writes a line as each one ends."""
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import random
import shutil
import signal
import statistics
import string
import subprocess
import sys
import tempfile
import time

from . import lines, steps

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
LAST = 25        # lines kept of a command that fails
MARGIN = 8       # seconds of the budget for ending a step
WARM_UP = 5      # steps of a run that its figures leave out
MOST_BEGINS = 2  # a step that ended the machine as often is lost


def folders():
    """Where things are: in a pack, or in a checkout with a pack in .gpu-day."""
    pack = TOP if (TOP / "expected.json").exists() else TOP / ".gpu-day"
    return {"pack": pack, "bin": pack / "bin", "tests": pack / "tests", "scripts": TOP / "tests/gpu",
            "bench": TOP / "bench"}


def environment():
    """The libraries of the Python package torch come after those of LD_LIBRARY_PATH."""
    paths = [os.environ.get("LD_LIBRARY_PATH", "")]
    if found := importlib.util.find_spec("torch"):
        torch = pathlib.Path(found.submodule_search_locations[0])
        nvidia = torch.parent / "nvidia"
        paths += [torch / "lib", nvidia / "nccl/lib", nvidia / "cu13/lib", nvidia / "cudnn/lib"]
    return os.environ | {"LD_LIBRARY_PATH": ":".join(str(path) for path in paths if str(path))}


def device():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], text=True,
                              capture_output=True, timeout=30).stdout.strip() or "no device"
    except (OSError, subprocess.TimeoutExpired):
        return "no nvidia-smi"


def write_data(folder):
    """Text that is the same everywhere."""
    text = "".join(random.Random(1).choices(string.ascii_letters + " \n", k=400_000))
    pathlib.Path(folder, "text.txt").write_text(text)


def training_figures(path):
    """Figures of a run of gpt or unet, by its metrics.jsonl."""
    metrics = [json.loads(line) for line in path.read_text().splitlines()]
    timed = metrics[WARM_UP:] or metrics
    median = lambda value: statistics.median(value(line) for line in timed)
    return {"losses": [line["loss"] for line in metrics], "ms": 1e3 * median(lambda line: line["seconds"]["step"]),
            "per_second": median(lambda line: line.get("tokens_per_second") or line["images_per_second"]),
            "product_tflops": median(lambda line: line["model_flops_per_second"] / line["utilisation"] / 1e12),
            "GB": metrics[-1]["peak_memory_bytes"] / 1e9}


def kernel_figures(path):
    """What the device did in the steps of a trace: the share of time without work, and milliseconds and
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


def figures_of(out, text):
    """Of one command: its metrics, or a line of JSON at the end of its output."""
    if (out / "metrics.jsonl").exists():
        figures = training_figures(out / "metrics.jsonl")
        return figures | kernel_figures(out / "trace.json") if (out / "trace.json").exists() else figures
    last = text.strip().splitlines()[-1:]
    return json.loads(last[0]) if last and last[0].startswith("{") else {}


def merge(runs):
    """Runs of one label: medians of numbers, else the first."""
    return {key: statistics.median(run[key] for run in runs) if isinstance(runs[0][key], (int, float)) else runs[0][key]
            for key in (runs[0] if runs else {}) if all(key in run for run in runs)}


def fault_in(losses, step, expected):
    """Why these losses are wrong, or nothing."""
    if any(not math.isfinite(loss) for loss in losses):
        return f"a loss is not finite: {losses}"
    if not step.expected:
        return ""
    want = expected[step.expected]
    tolerance = step.tolerance * want["distance"]
    off = max(abs(loss - right) / abs(right) for loss, right in zip(losses, want["losses"]))
    if len(losses) != len(want["losses"]) or off > tolerance:
        return f"losses differ by {off:.1e}, more than {tolerance:.1e}: {losses} for {want['losses']}"
    return ""


def end_with(parent):
    """In the child: timeout ends its whole group when it is told to. The parent may have ended
    before this asked for it."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(128 + signal.SIGTERM)


class Runner:
    def __init__(self, results, rehearsal, groups):
        self.results, self.rehearsal, self.groups = results, rehearsal, groups
        self.places, self.environment, self.device = folders(), environment(), device()
        self.data = tempfile.TemporaryDirectory(prefix="gpu-day-data-")
        write_data(self.data.name)
        self.read_expected()
        self.places |= {"python": sys.executable, "data": self.data.name}

    def words(self, command, out, check):
        for word in map(str, command.words):
            if word == "{check}":
                yield from check
            else:
                for name, place in (self.places | {"out": out}).items():
                    word = word.replace(f"{{{name}}}", str(place))
                yield word

    def one(self, command, limit, check):
        """Returns status, output and figures of a command, which is ended after `limit` seconds."""
        with tempfile.TemporaryDirectory(prefix="gpu-day-", ignore_cleanup_errors=True) as scratch:
            out, log = pathlib.Path(scratch), pathlib.Path(scratch, "output.txt")
            words = ["timeout", "-k", "3", f"{limit:.0f}", *self.words(command, out, check)]
            runner = os.getpid()
            with log.open("w") as file:
                process = subprocess.Popen(words, env=self.environment | command.variables, stdin=subprocess.DEVNULL,
                                           stdout=file, stderr=file, preexec_fn=lambda: end_with(runner))
            try:
                status = process.wait(limit + 6)
            except subprocess.TimeoutExpired:  # the driver does not let it end
                status = 124
            text = log.read_text(errors="replace")
            try:
                return status, text, figures_of(out, text) if status == 0 else {}
            except (ValueError, KeyError, IndexError, ZeroDivisionError, statistics.StatisticsError) as problem:
                return 1, f"{text}\nits figures cannot be read: {problem!r}", {}

    def take(self, step, most_seconds):
        """Returns the fields of the step's line, or nothing if the budget ended before the step did."""
        check = []
        if step.name.endswith(", again") and shutil.which("compute-sanitizer"):
            check = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"]
        start, limit, runs = time.monotonic(), 3 * step.seconds, {}
        for command in step.commands:
            left = min(limit, most_seconds) - (time.monotonic() - start)
            status, text, figures = self.one(command, max(left, 1), check)
            spent = time.monotonic() - start
            last = text.splitlines()[-LAST:]
            if status in (124, 137) and spent >= min(limit, most_seconds) - 1:
                hung = {"state": "hung", "why": f"not done after {spent:.0f} s", "last": last}
                return hung if spent >= limit - 1 else {}
            if status != 0:
                return {"state": "failed", "why": f"{command.label or 'it'} ended with status {status}", "last": last}
            if fault := fault_in(figures.get("losses", []), step, self.expected):
                return {"state": "wrong", "why": fault, "last": last}
            runs.setdefault(command.label, []).append(figures)
        figures = {label: merge(same) for label, same in runs.items()}
        if step.flops:
            only = figures[""]
            only["share"] = only["per_second"] * step.flops / only["product_tflops"] / 1e12
        return {"state": "right", "figures": figures}

    def missing(self, step):
        """The first file of the step that is not here."""
        places = [str(self.places[key]) for key in ("bin", "tests", "bench", "scripts")]
        for command in step.commands:
            for word in self.words(command, "", []):
                if any(word.startswith(f"{place}/") for place in places) and not pathlib.Path(word).exists():
                    return word
        return ""

    def build(self, room):
        """Without a pack it is made here."""
        command = steps.Command([sys.executable, TOP / "scripts/gpu-day", "pack"])
        start = time.monotonic()
        status, text, _ = self.one(command, room, [])
        self.results.add(step="builds: pack", state="right" if status == 0 else "failed", device=self.device,
                         seconds=round(time.monotonic() - start, 1), why=f"it ended with status {status}",
                         last=text.splitlines()[-LAST:])
        self.read_expected()
        return status == 0

    def read_expected(self):
        file = self.places["pack"] / "expected.json"
        self.expected = json.loads(file.read_text()) if file.exists() else {}

    def line(self, step, most_seconds):
        if self.results.begun(step.name) >= MOST_BEGINS:
            return {"state": "lost", "why": f"begun {MOST_BEGINS} times and never ended"}
        if name := self.missing(step):
            return {"state": "missing", "why": f"there is no {name}"}
        if step.expected and step.expected not in self.expected:
            return {"state": "missing", "why": "there is no expected.json"}
        self.results.add(step=step.name, state="begun", device=self.device)
        return self.take(step, most_seconds)

    def left(self):
        """Steps without a line, in order. What starts on one device is asked again on another."""
        states = self.results.states()
        here = {line["step"] for line in self.results.all
                if line.get("device") == self.device and line["state"] != "begun"}
        return [step for step in steps.all_steps(states, self.rehearsal, self.groups)
                if step.name not in states or (step.name == "starts: libraries" and step.name not in here)]

    def run(self, budget):
        """Returns the steps that are left."""
        end = time.monotonic() + budget - MARGIN
        unfinished = set()
        if not (self.places["bin"] / "gpt").exists() and not self.build(end - time.monotonic()):
            return self.left()
        while True:
            room = end - time.monotonic()
            fits = [step for step in self.left() if step.seconds <= room and step.name not in unfinished]
            if not fits:
                return self.left()
            step, start = fits[0], time.monotonic()
            print(f"{step.name} ...", flush=True)
            found = self.line(step, room)
            if not found or found["state"] == "missing":
                unfinished.add(step.name)
            if not found:
                continue
            self.results.add(step=step.name, device=self.device, seconds=round(time.monotonic() - start, 1), **found)
            print(f"{step.name}: {found['state']} {found.get('why', '')}", flush=True)


def run(options):
    results = lines.Lines(options.out, options.earlier)
    left = Runner(results, options.rehearse, options.only).run(options.budget)
    if left:
        print(f"{len(left)} steps are left, about {sum(step.seconds for step in left):.0f} s: run again with "
              f"--from {options.out}")
    return 3 if left else 0
