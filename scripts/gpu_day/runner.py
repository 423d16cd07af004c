"""Runs the steps that are not done and fit into the time, and writes a line as each one ends."""
import ctypes
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import estimates, figures, lines, machine, steps

LAST = 25        # lines kept of a command that fails
MARGIN = 8       # seconds of the budget for ending a step
LEAST_ROOM = 2**26  # bytes of the disk that a command may need
MOST_BEGINS = 2  # a step that ended the machine as often is lost


def write_text(path, words, length, first=0x100):
    """`length` characters by a Zipf law of `words` different ones, and each of them once more."""
    letters = [chr(first + word) for word in range(words)]
    frequent = random.Random(1).choices(letters, [1 / (word + 1) for word in range(words)], k=length)
    path.write_text("".join(frequent + letters), encoding="utf-8")


def scratch_folder():
    """The temporary folder, or memory where its disk is full."""
    found = tempfile.gettempdir()
    return found if shutil.disk_usage(found).free > LEAST_ROOM or not os.path.isdir("/dev/shm") else "/dev/shm"


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
                return status, text, figures.of_command(out, text) if status == 0 else figures.rows_of(text)
            except (ValueError, KeyError, IndexError, ZeroDivisionError) as problem:
                return 1, f"{text}\nits figures cannot be read: {problem!r}", {}

    def take(self, step, most_seconds):
        """Returns the fields of the step's line, or nothing if the budget ended before the step did."""
        start, limit, runs = time.monotonic(), step.limit, {}
        state, why, last = "right", "", []
        for command in step.commands:
            left = min(limit, most_seconds) - (time.monotonic() - start)
            status, text, printed = self.one(command, max(left, 1))
            spent = time.monotonic() - start
            for label, row in printed.items():
                runs.setdefault(" ".join(filter(None, [command.label, label])), []).append(row)
            if status in (124, 137) and spent >= min(limit, most_seconds) - 1:
                if spent < limit - 1:
                    return {}
                state, why = "hung", f"not done after {spent:.0f} s"
            elif status != 0:
                who = command.label or "it"
                state, why = "failed", f"{who} ended with status {status}: {figures.reason(text)}"
            if state != "right":
                last = [line for line in text.splitlines() if not line.startswith(("{", "frame #"))][-LAST:]
                break
        found = {label: figures.merge(same) for label, same in runs.items()}
        fault = figures.judge(step, found, self.expected)
        if self.gpu and any(row.get("compared") is False for row in found.values()):
            fault = "it compared nothing, as on the dry GPU"
        if state == "right" and fault:
            state, why = "wrong", fault
        if state == "right" and step.flops:
            only = found[""]
            only["share"] = only["per_second"] * step.flops / only["product_tflops"] / 1e12
        return {"state": state, "figures": found} | ({"why": why, "last": last} if why else {})

    def missing(self, step):
        """The first thing that the step lacks: a file, a tool, the losses to compare with."""
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
        """Steps without a line, in order. Starts of one device are asked again on another."""
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


def uses_pack(step):
    return any("{bin}" in str(word) or "{tests}" in str(word) for command in step.commands for word in command.words)


def run(options):
    results = lines.Lines(options.out, options.earlier)
    left = Runner(results, options).run(options.budget)
    if left:
        print(f"{len(left)} steps are left, about {sum(step.seconds for step in left):.0f} s: run again with "
              f"--from {options.out}")
    return 3 if left else 0
