"""Runs the steps that are not done and fit into the time, and writes a line as each one ends."""
import ctypes
import functools
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from . import estimates, lines, machine, steps

LAST = 25        # lines kept of a command that fails
MARGIN = 8       # seconds of the budget for ending a step
LEAST_ROOM = 2**26  # bytes of the disk that a command may need
MOST_BEGINS = 2  # a step that ended the machine as often is lost
LABELS = ("network", "dtype", "kernels", "library", "side", "switch", "kind", "width", "test")  # what a row is of
SAME = 1e-10     # relative, of losses in fp64: a GPU adds in another order
BUSIEST = 6      # kernels of a trace that standard output names


def write_text(path, words, length, first=0x100):
    """`length` characters by a Zipf law of `words` different ones, and each of them once more."""
    letters = [chr(first + word) for word in range(words)]
    frequent = random.Random(1).choices(letters, [1 / (word + 1) for word in range(words)], k=length)
    path.write_text("".join(frequent + letters), encoding="utf-8")


def scratch_folder():
    """The temporary folder, or memory where its disk is full."""
    found = tempfile.gettempdir()
    return found if shutil.disk_usage(found).free > LEAST_ROOM or not os.path.isdir("/dev/shm") else "/dev/shm"


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


def figures_of(out, text):
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


def end_with(parent):
    """In the child: timeout ends its whole group when it is told to. The parent may have ended
    before this asked for it."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(128 + signal.SIGTERM)


class Runner:
    def __init__(self, results, options):
        self.results, self.call, self.rehearsal, self.groups = results, options.number, options.rehearse, options.only
        self.gpu = machine.gpu()
        self.places = machine.folders() | {"python": sys.executable}
        self.environment = machine.environment()
        self.device = self.gpu.name if self.gpu else "no nvidia-smi"
        self.kind = estimates.device_of(self.gpu.gib) if self.gpu else estimates.DEVICES["h100"]
        file = self.places["gpu_day"] / "expected.json"
        self.expected = json.loads(file.read_text()) if file.exists() else {}

    @functools.cached_property
    def data(self):
        """Texts whose characters are the words of the networks, made when first asked for."""
        found = tempfile.TemporaryDirectory(prefix="gpu-day-data-", dir=scratch_folder(), ignore_cleanup_errors=True)
        write_text(pathlib.Path(found.name, "text.txt"), estimates.VOCABULARY, 200_000)
        small = steps.SMALL["gpt"]
        write_text(pathlib.Path(found.name, "small.txt"), small[small.index("--vocab") + 1], 20_000)
        return found

    def words(self, command, out):
        for word in map(str, command.words):
            if word == "{check}":
                yield from steps.CHECK if self.find("compute-sanitizer") else []
                continue
            if "{data}" in word:
                word = word.replace("{data}", self.data.name)
            for name, place in (self.places | {"out": out}).items():
                word = word.replace(f"{{{name}}}", str(place))
            yield word

    def find(self, tool):
        return shutil.which(tool, path=self.environment["PATH"])

    def one(self, command, limit):
        """Returns status, output and figures of a command, which is ended after `limit` seconds. Figures of a command
        that failed are those that it printed."""
        with tempfile.TemporaryDirectory(prefix="gpu-day-", dir=scratch_folder(),
                                         ignore_cleanup_errors=True) as scratch:
            out, log = pathlib.Path(scratch), pathlib.Path(scratch, "output.txt")
            words = ["timeout", "-k", "3", f"{limit:.0f}", *self.words(command, out)]
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
                return status, text, figures_of(out, text) if status == 0 else rows_of(text)
            except (ValueError, KeyError, IndexError, ZeroDivisionError, statistics.StatisticsError) as problem:
                return 1, f"{text}\nits figures cannot be read: {problem!r}", {}

    def take(self, step, most_seconds):
        """Returns the fields of the step's line, or nothing if the budget ended before the step did."""
        start, limit, runs = time.monotonic(), step.limit, {}
        state, why, last = "right", "", []
        for command in step.commands:
            left = min(limit, most_seconds) - (time.monotonic() - start)
            status, text, figures = self.one(command, max(left, 1))
            spent = time.monotonic() - start
            for label, row in figures.items():
                runs.setdefault(" ".join(filter(None, [command.label, label])), []).append(row)
            if status in (124, 137) and spent >= min(limit, most_seconds) - 1:
                if spent < limit - 1:
                    return {}
                state, why = "hung", f"not done after {spent:.0f} s"
            elif status != 0:
                state, why = "failed", f"{command.label or 'it'} ended with status {status}: {reason(text)}"
            if state != "right":
                last = [line for line in text.splitlines() if not line.startswith(("{", "frame #"))][-LAST:]
                break
        found = {label: merge(same) for label, same in runs.items()}
        fault = judge(step, found, self.expected)
        if self.gpu and any(row.get("compared") is False for row in found.values()):
            fault = "it compared nothing, as on the dry GPU"
        if state == "right" and fault:
            state, why = "wrong", fault
        if state == "right" and step.flops:
            only = found[""]
            only["share"] = only["per_second"] * step.flops / only["product_tflops"] / 1e12
        return {"state": state, "figures": found} | ({"why": why, "last": last} if why else {})

    def missing(self, step):
        """What of the step is not here: a file, a tool, the losses to compare with."""
        places = [str(self.places[key]) for key in ("bin", "tests", "bench", "scripts")]
        for command in step.commands:
            for word in self.words(command, ""):
                if any(word.startswith(f"{place}/") for place in places) and not pathlib.Path(word).exists():
                    return word
            if command.words[0] == "compute-sanitizer" and not self.find("compute-sanitizer"):
                return "compute-sanitizer in PATH or CUDA's folders"
            if command.words[0] == "{python}" and "peers_cuda" in command.words[1] and not machine.torch_folder():
                return "torch for this python3"
        if step.expected and f"{step.expected} fp64" not in self.expected:
            return "expected.json"
        return ""

    def line(self, step, most_seconds):
        if self.results.begun(step.name) >= MOST_BEGINS:
            return {"state": "lost", "why": f"begun {MOST_BEGINS} times and never ended"}
        try:
            if name := self.missing(step):
                return {"state": "missing", "why": f"there is no {name}"}
            self.results.add(step=step.name, state="begun", device=self.device)
            return self.take(step, most_seconds)
        except OSError as problem:  # a full disk
            return {"state": "missing", "why": str(problem)}

    def spent_again(self):
        return sum(line.get("seconds", 0) for name, line in self.results.ended().items() if name.startswith("again:"))

    def left(self):
        """Steps without a line, in order. What starts on one device is asked again on another."""
        ended = self.results.ended()
        here = {line["step"] for line in self.results.all
                if line.get("device") == self.device and line["state"] != "begun"}
        again = steps.AGAIN_MOST - self.spent_again()
        for step in steps.Plan(self.kind, ended, self.rehearsal).all_steps():
            if step.call > self.call or (self.groups and step.group not in self.groups):
                continue
            if step.group == "again" and step.limit > again:
                continue
            if step.name not in ended or (step.group == "versions" and step.name not in here):
                yield step

    def device_is_there(self):
        """As at the start of the call."""
        if self.gpu:
            return machine.gpu() is not None
        try:
            return subprocess.run([self.places["tests"] / "cuda_probe"], env=self.environment, capture_output=True,
                                  timeout=30, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def begin(self):
        """Whether there is a device. With a pack that cannot run here, only PyTorch's steps are taken."""
        pack = self.places["pack"]
        self.pack_problem = machine.problem_of_pack(pack, self.gpu)
        others = machine.other_scripts(pack)
        why = self.pack_problem or (f"these scripts are not the pack's: {', '.join(others)}" if others else "")
        self.results.add(step="versions: pack", state="wrong" if self.pack_problem else "right", device=self.device,
                         figures={"": machine.manifest(pack)}, **({"why": why} if why else {}))
        if self.device_is_there():
            return True
        self.results.add(step="versions: device", state="missing", device=self.device, why="there is no device")
        return False

    def run(self, budget):
        """Returns the steps that are left."""
        end = time.monotonic() + budget - MARGIN
        unfinished = set()
        going = self.begin()
        while going:
            room = end - time.monotonic()
            fits = [step for step in self.left() if step.seconds <= room and step.name not in unfinished and
                    not (self.pack_problem and uses_pack(step))]
            if not fits:
                break
            step, start = fits[0], time.monotonic()
            found = self.line(step, room)
            if not found or found["state"] == "missing":
                unfinished.add(step.name)
            if not found:
                continue
            if found["state"] != "right" and not self.device_is_there():
                found |= {"state": "missing", "why": f"the device is gone: {found['why']}"}
                going = False
            self.results.add(step=step.name, device=self.device, seconds=round(time.monotonic() - start, 1), **found)
        return list(self.left())


def reason(text):
    """What an output says most clearly: its first line with an error, else its last. GoogleTest says what failed in the
    line after."""
    said = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("{", "frame #"))]
    errors = [at for at, line in enumerate(said) if re.search("error|fail|exception", line, re.IGNORECASE)]
    if not errors:
        return said[-1] if said else "no word"
    return " ".join(said[errors[0]:errors[0] + (2 if said[errors[0]].endswith(": Failure") else 1)])


def uses_pack(step):
    return any("{bin}" in str(word) or "{tests}" in str(word) for command in step.commands for word in command.words)


def run(options):
    results = lines.Lines(options.out, options.earlier)
    left = Runner(results, options).run(options.budget)
    if left:
        print(f"{len(left)} steps are left, about {sum(step.seconds for step in left):.0f} s: run again with "
              f"--from {options.out}")
    return 3 if left else 0
