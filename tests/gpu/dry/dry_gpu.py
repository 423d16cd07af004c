"""Runs `gpt` or `unet` on the dry GPU and reads what it asked of the GPU (record.hpp)."""
import bisect
import collections
import functools
import os
import pathlib
import re
import subprocess
import sys
import typing
import unittest
import uuid

import program_runs

TOP = pathlib.Path(os.environ["AXONN_TABLE"]).parent.parent
sys.path.insert(0, str(TOP / "scripts"))  # has gpu_day

OWN_KERNELS = ["--kernels", "all"]
FOLDER = pathlib.Path(os.environ["AXONN_DRY_GPU"])  # has libdrygpu.so
LIBRARY = str(FOLDER / "libdrygpu.so")


def environment(record=None, fail=None, hang=None, devices=1, memory_gb=None, **more):
    """That of a process on the dry GPU. FUNCTION:N is the call that fails, or that never ends."""
    result = {"LD_LIBRARY_PATH": str(FOLDER / "lib"), "LD_PRELOAD": LIBRARY, "DRY_GPU_DEVICES": str(devices)}
    if memory_gb:
        result["DRY_GPU_MEMORY_GB"] = str(memory_gb)
    if record:
        result["DRY_GPU_RECORD"] = str(record)
    if fail:
        result["DRY_GPU_FAIL"] = fail
    if hang:
        result["DRY_GPU_HANG"] = hang
    return result | more


class Event(typing.NamedTuple):
    kind: str
    fields: list


@functools.cache
def symbols(program):
    """Addresses of the program's functions, ascending, and their names."""
    lines = subprocess.run(["nm", "-C", "-n", "--defined-only", program], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    found = [line.split(" ", 2) for line in lines if line[17:18] in "tTwW"]
    return [int(address, 16) for address, _, _ in found], [name for _, _, name in found]


def named(frame, program):
    """A frame of `callers()`, with the function's name in the place of program+0x1234."""
    if not frame.startswith("program+"):
        return frame
    addresses, names = symbols(program)
    at = bisect.bisect(addresses, int(frame.removeprefix("program+"), 16)) - 1
    return names[at].split("(")[0]


class Record:
    """All that one process asked of the GPU."""

    def __init__(self, path, program=program_runs.PROGRAM):
        self.program = program
        self.events = []
        for line in pathlib.Path(path).read_text(errors="replace").splitlines():
            _, kind, *fields = line.split("\t")
            self.events.append(Event(kind, fields))

    def steps(self):
        """The events of each step: from the first product after an update of AdamW to the first one after
        the next update. So the copies of a step's samples are in the step before. The first step also
        holds the start, and the last one ends with the first copies of the validation."""
        steps, here, updated = [], [], False
        for event in self.events:
            update = event.kind == "kernel" and re.search("FusedAdam|update_adamw", event.fields[0]) is not None
            if updated and not update and event.kind in ("product", "cudnn"):
                steps.append(here)
                here, updated = [], False
            here.append(event)
            updated = updated or update
        return steps

    def of_kind(self, kind):
        return [event.fields for event in self.events if event.kind == kind]

    @property
    def device_bytes(self):
        """The most that the process had of the device at a time: tensors, and memory that waits for them."""
        [[_, peak]] = self.of_kind("end")
        return int(peak)

    def who(self, frames):
        """The nearest function of ours."""
        names = [named(frame, self.program) for frame in " ".join(frames).split(" <- ")]
        ours = [name for name in names if name.startswith("axonn::")]
        return ours[0] if ours else names[0]

    def waits(self, events):
        """How often the host waited while the device had nothing more to do, by call and caller."""
        waits = [event.fields for event in events if event.kind == "wait"]
        return collections.Counter(f"{call} in {self.who(frames)}" for call, *frames in waits)

    def lags(self, events):
        """Waits for earlier work: the caller, and how much work the stream was given after it."""
        return [(self.who(frames), int(behind))
                for behind, *frames in (event.fields for event in events if event.kind == "lag")]


class Counts(typing.NamedTuple):
    """The contents of some events."""
    kernels: int
    products: int
    cudnn: int
    memsets: int
    waits: int
    pageable: int  # copies between the device and memory that is not pinned
    allocations: int
    unaligned: int  # products with an operand that is not aligned to 16 bytes

    @property
    def launches(self):
        return self.kernels + self.products + self.cudnn + self.memsets


def counts(events):
    kinds = collections.Counter(event.kind for event in events)
    return Counts(kernels=kinds["kernel"], products=kinds["product"], cudnn=kinds["cudnn"], memsets=kinds["memset"],
                  waits=kinds["wait"],
                  pageable=sum(event.kind == "copy" and event.fields[2] == "pageable" for event in events),
                  allocations=kinds["allocate"],
                  unaligned=sum(event.kind == "product" and int(event.fields[11]) < 16 for event in events))


def attention(events):
    """The attention that LibTorch chose: a product in a cuDNN graph, or a kernel with its name."""
    found = set()
    for event in events:
        if event.kind == "cudnn" and "product" in event.fields[0]:
            found.add("cuDNN")
        if event.kind == "kernel" and "flash" in event.fields[0]:
            found.add("flash")
        if event.kind == "kernel" and "fmha" in event.fields[0]:
            found.add("efficient")
    return " + ".join(sorted(found)) or "none"


def table(first):
    """The rows of the table in docs/gpu.md whose first column is `first`: by that column's text, then
    by the other columns'. This table holds the expected counts."""
    rows, columns = {}, None
    for line in pathlib.Path(os.environ["AXONN_TABLE"]).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            columns = None
        elif columns is None:
            columns = cells
        elif columns[0] == first and set(cells[0]) != {"-"}:
            rows[cells[0]] = dict(zip(columns[1:], cells[1:]))
    return rows


class Expected(unittest.TestCase):
    """Counts are compared with the documented ones. A smaller count also fails, so that the table
    stays true: put the new row into it."""

    def assert_row(self, first, name, found):
        found = {column: str(value) for column, value in found.items()}
        row = "| " + " | ".join([name, *found.values()]) + " |"
        self.assertEqual(table(first).get(name), found, f"docs/gpu.md, table '{first}', needs the row\n{row}")


class DryTest(program_runs.ProgramTest, Expected):
    def on_dry_gpu(self, *arguments, ranks=1, **options):
        """The run must succeed. Returns the record of every rank."""
        path = self.directory / "record"
        ended = self.run_program(*arguments, "--device", "cuda", ranks=ranks, launcher="tcp",
                                 environment=environment(path, devices=ranks), **options)
        self.assertEqual(ended.status, 0, ended.text)
        return [Record(f"{path}.{rank}") for rank in range(ranks)]

    def counts_of_a_step(self, name, *arguments, **options):
        """Trains on one rank in bf16. Two steps must be alike, and what the second one asks must be what
        docs/gpu.md says. Returns the record and the events of that step."""
        steps = 5
        [record] = self.on_dry_gpu("train", "--out", "run", "--steps", steps, "--dtype", "bf16", "--validate-every", 0,
                                   "--save-every", 0, "--no-save-last", *arguments, **options)
        events = record.steps()
        self.assertEqual(len(events), steps)
        *_, before, steady, _ = events
        self.assertEqual(counts(before), counts(steady))
        found = counts(steady)
        self.assert_row("one rank", name, {
            "launches": found.launches, "kernels": found.kernels, "products": found.products, "cuDNN": found.cudnn,
            "memsets": found.memsets, "waits": found.waits, "pageable": found.pageable,
            "mallocs": found.allocations, "unaligned": found.unaligned, "attention": attention(steady),
            "GB": f"{self.peak_bytes() / 1e9:.1f}"})
        return record, steady

    def assert_steps_are_graphs(self, *arguments, kernels=0, **options):
        """From the fourth step on, a step is one launch, with copies to and from pinned memory around it, and
        `kernels` for what the step takes."""
        steps, out = 7, self.directory / uuid.uuid4().hex
        [record] = self.on_dry_gpu("train", "--out", out, "--steps", steps, "--dtype", "bf16", "--cuda-graph",
                                   "--no-save-last", *arguments, **options)
        self.assertEqual(len(record.of_kind("captured")), 1)
        graphs = [i for i, event in enumerate(record.events) if event.kind == "graph"]
        self.assertEqual(len(graphs), steps - 3)
        for begin, end in zip(graphs, graphs[1:]):
            between = record.events[begin + 1:end]
            self.assertEqual(counts(between), Counts(kernels, *[0] * (len(Counts._fields) - 1)))
            self.assertGreater(sum(event.kind == "copy" for event in between), 3)
        self.assertEqual([line["step"] for line in program_runs.metrics(out)],
                         list(range(1, steps + 1)))

    def peak_bytes(self, out="run"):
        """The most that tensors held, as the run's own metrics have it."""
        return program_runs.metrics(self.directory / out)[-1]["peak_memory_bytes"]

    def assert_no_wait(self, record, events):
        """The host reads the numbers of the step before, when the device has most of a step to do."""
        self.assertEqual(dict(record.waits(events)), {})
        [(who, behind)] = record.lags(events)
        self.assertEqual(who, "axonn::DeviceNumbers::read")
        self.assertGreater(behind, 0.9 * counts(events).launches)
