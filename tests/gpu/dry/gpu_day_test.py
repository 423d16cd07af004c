"""Rehearsals of scripts/gpu-day: both calls with stand-ins for every program, with faults, killed and
resumed; and a part of them with the real programs on the dry GPU."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import program_runs
from dry_gpu import FOLDER, LIBRARY, TOP, DryTest
from gpu_day import estimates, expectations, figures, lines, machine, packer, planner, runner, steps

PROGRAMS = pathlib.Path(program_runs.PROGRAM).parent.parent  # with bin and tests
STAND_IN = pathlib.Path(__file__).with_name("gpu_day_stand_in.py")
LOSS, OFF = 4.0, 4.1  # the stand-ins'; the dry GPU's are 4 too
VERSION = "2.11.0+cu130"
SECONDS = 2  # per step of a rehearsal with stand-ins
H100 = "NVIDIA H100 80GB HBM3, 580.159.04, 81559, 9.0"
MOST_CALLS = 5
MANIFEST = {"commit": "1234567", "torch": VERSION, "architectures": ["80", "90"]}


def expected():
    """As expected.json, of losses that are all the same."""
    return {f"{network} {dtype}": {"losses": [LOSS] * steps.LOSSES, "distance": 1e-10}
            for network in steps.SMALL for dtype in steps.DTYPES}


class Rehearsal(DryTest):
    """`pack`: a folder with programs and scripts, beside a Python package torch in the layout of a wheel."""

    def setUp(self):
        super().setUp()
        self.pack, self.mark = self.directory / "pack", uuid.uuid4().hex
        self.site = self.directory / "venv/lib/python3.12/site-packages"
        self.addCleanup(self.end_all)
        sanitizer = self.directory / "tools/compute-sanitizer"
        sanitizer.parent.mkdir()
        sanitizer.write_text('#!/bin/sh\nwhile [ ! -x "$1" ]; do shift; done\nexec "$@"\n')
        sanitizer.chmod(0o755)

    def copy_scripts(self):
        for name in packer.SCRIPTS:
            (self.pack / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, self.pack / name)
        (self.pack / "manifest.json").write_text(json.dumps(MANIFEST))
        (self.pack / "scripts/gpu_day/expected.json").write_text(json.dumps(expected()))

    def make_torch(self, version=VERSION):
        torch = self.site / "torch"
        (torch / "lib").mkdir(parents=True, exist_ok=True)
        (torch / "__init__.py").touch()
        (torch / "version.py").write_text(f"__version__ = '{version}'\n")

    def environment(self):
        return {"PATH": f"{self.directory / 'tools'}:{os.environ['PATH']}", "HOME": str(self.directory),
                "TMPDIR": str(self.directory), "LD_LIBRARY_PATH": str(FOLDER / "lib"), "LD_PRELOAD": LIBRARY,
                "PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                program_runs.MARK: self.mark}

    def command(self, *arguments):
        return [sys.executable, self.pack / "scripts/gpu-day", *map(str, arguments)]

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), env=self.environment(), cwd=self.directory,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def call(self, *arguments):
        """Returns status and output."""
        process = self.start(*arguments)
        text = process.communicate()[0]
        return process.returncode, text

    def kill_in(self, step, process, out):
        """Ends it without a warning while it is in the step. Its children end too."""
        deadline = time.monotonic() + program_runs.RUN_SECONDS
        while not (out.exists() and f'"{step}", "state": "begun"' in out.read_text()):
            self.assertIsNone(process.poll(), step)
            self.assertLess(time.monotonic(), deadline, out.read_text() if out.exists() else "no lines")
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        text = process.communicate()[0]
        deadline = time.monotonic() + 12  # less than a step's limit
        while left := program_runs.processes_with(self.mark):
            self.assertLess(time.monotonic(), deadline, f"processes {left} are still there")
            time.sleep(0.02)
        return text

    def rehearse(self, killed, *arguments):
        """Each run has the lines of the one before, and no other file of it: killed in these steps, and called until
        nothing is left. Returns the lines, their file, and what all runs printed."""
        outs, texts = [self.directory / f"lines-{i}.jsonl" for i in range(len(killed) + 1)], []
        for step, earlier, out in zip([*killed, None], [None, *outs], outs):
            given = ["run", *arguments, "--out", out, *(["--from", earlier] if earlier else [])]
            if earlier is None or killed.index(step or killed[-1]) < 2 and step:
                given += ["--call", "1"]
            process = self.start(*given)
            if step:
                texts.append(self.kill_in(step, process, out))
                with out.open("a") as file:
                    file.write('{"step": "sizes: 12')  # a line that was being written
        texts.append(process.communicate()[0])
        for _ in range(MOST_CALLS):
            if process.returncode == 3:  # something is left
                process = self.start("run", "--out", outs[-1], *arguments)
                texts.append(process.communicate()[0])
        self.assertEqual(process.returncode, 0, texts[-1])
        return lines.read(outs[-1]), outs[-1], "".join(texts)

    def end_all(self):
        for process in program_runs.processes_with(self.mark):
            os.kill(process, signal.SIGKILL)

    def check_lines(self, found, killed):
        """Every step has its line, and only those in which a call was killed began twice."""
        ended = lines.ended(found)
        plan = steps.Plan(estimates.DEVICES["h100"], ended)
        self.assertEqual([step.name for step in plan.all_steps() if step.name not in ended], [])
        begun = [line["step"] for line in found if line["state"] == "begun"]
        self.assertEqual(sorted(name for name in set(begun) if begun.count(name) > 1), sorted(killed))
        again = [line["seconds"] for name, line in ended.items() if name.startswith("again: ")]
        self.assertLess(sum(again), steps.AGAIN_MOST)
        return ended


class StandInTest(Rehearsal):
    def setUp(self):
        super().setUp()
        self.copy_scripts()
        self.make_torch()
        for name in [*steps.programs(), "bench/peers_cuda.py", "scripts/gpu_day/versions.py"]:
            (self.pack / name).parent.mkdir(exist_ok=True)
            shutil.copy2(STAND_IN, self.pack / name)
        self.gpu(H100)
        self.plant()
        (self.pack / "tests/nvidia-smi").symlink_to("cuda_probe")
        (self.directory / "tools/nvidia-smi").write_text(f'#!/bin/sh\nexec {self.pack}/tests/nvidia-smi "$@"\n')
        (self.directory / "tools/nvidia-smi").chmod(0o755)

    def environment(self):
        return {key: value for key, value in super().environment().items() if not key.startswith("LD_")}

    def gpu(self, text):
        (self.pack / "device").write_text(text)

    def plant(self, *faults):
        (self.pack / "faults.json").write_text(json.dumps(faults))

    def run_all(self, *arguments):
        """One call. Returns the last line of each step, and what it printed."""
        out = self.directory / "lines.jsonl"
        status, text = self.call("run", "--rehearse", SECONDS, "--out", out, *arguments)
        return status, lines.ended(lines.read(out)) if out.exists() else {}, text

    def test_cut_at_five_moments_with_faults(self):
        self.plant(["time gpt layer-norm", "crash"], ["verify --device cuda --grid 1x1x2x1", "hang"],
                   ["losses gpt bf16 all", "wrong"], ["losses gpt bf16 adamw", "wrong"],
                   ["--layers 4 --hidden 64", "crash"])
        killed = ["kernels: test", "switches: unet", "PyTorch: 124M", "NCCL: verify 2x1x1x1",
                  "checkpoint: CPU, GPU, CPU"]
        found, out, text = self.rehearse(killed, "--rehearse", SECONDS)
        ended = self.check_lines(found, killed)
        wrong = {name: line["state"] for name, line in ended.items() if line["state"] != "right"}
        self.assertEqual(wrong, {"right: gpt": "wrong", "switches: 124M": "failed", "sizes: 1558M": "failed",
                                 "NCCL: verify 1x1x2x1": "hung", "again: right: gpt": "wrong"})
        rows = ended["switches: 124M"]["figures"]
        self.assertEqual([*rows, *ended["again: switches: 124M"]["figures"]],
                         ["cross-entropy", "embedding", "adamw", "epilogues", "cublaslt", "flash"])
        self.assertIn("illegal memory access", ended["switches: 124M"]["why"])
        self.assertEqual(set(ended["right: gpt"]["figures"]),
                         {f"gpt {dtype} {kernels}" for dtype in steps.DTYPES for kernels in ("none", "all")})
        self.assertIn("gpt bf16 all: losses differ by 2.5e-02, more than 2.0e-10", ended["right: gpt"]["why"])
        self.assertEqual([label for label, row in ended["again: right: gpt"]["figures"].items() if not row["right"]],
                         ["gpt bf16 adamw"])
        self.assertEqual(ended["again: sizes: 1558M"]["state"], "right")
        for line in text.splitlines():
            self.assertTrue(len(line) <= lines.MOST_SHORT or not line.startswith("{"), line)
        report = self.call("report", out)[1]
        for words in ("| unet group-norm | right |", "- **NCCL: verify 1x1x2x1**: hung: not done after",
                      "- `cross-entropy`: turn on: 124M x 1.100 (predicted 29% at 124M, 5% at 774M); right",
                      "- `layer-norm`: leave off: never measured", "- `adamw`: leave off: 124M x 1.100, unet x 1.100",
                      "- 124M: axonn is 2.00 times as fast as compiled PyTorch",
                      "- **two copies of nccl**: 22809 at /here/libnccl.so.2"):
            self.assertIn(words, report)

    def test_what_was_printed_stands_for_a_lost_file(self):
        _, ended, text = self.run_all("--call", "1")
        saved, out = self.directory / "printed.txt", self.directory / "second.jsonl"
        saved.write_text(f"some log\n{text}")
        (self.directory / "lines.jsonl").unlink()
        status, more = self.call("run", "--rehearse", SECONDS, "--call", "1", "--from", saved, "--out", out)
        self.assertEqual(status, 0)
        self.assertEqual([line["step"] for line in lines.read(out) if line["state"] == "begun" and "at" in line],
                         ["versions: axonn"], more)  # this device's
        again = lines.ended(lines.read(saved))
        self.assertEqual({name: line["state"] for name, line in again.items()},
                         {name: line["state"] for name, line in ended.items()})
        scalars = lambda row: {key: lines.rounded(value) for key, value in row.items()
                               if not isinstance(value, (list, dict))}
        for name, line in ended.items():
            rows = {label: scalars(row) for label, row in line["figures"].items() if scalars(row)}
            self.assertEqual(rows, again[name]["figures"], name)
        self.assertLess(len(text), 12_000)

    def test_the_first_call_ends_with_its_steps(self):
        _, ended, _ = self.run_all("--call", "1")
        self.assertEqual(list(ended), ["versions: pack", *(step.name for step in steps.Plan(
            estimates.DEVICES["h100"]).table() if step.call == 1)])
        self.assertEqual({line["state"] for line in ended.values()}, {"right"})
        self.assertEqual(ended["traces: 124M"]["figures"]["busiest"], {"axonn::a kernel": 5.0})

    def test_a_device_that_falls_off(self):
        self.plant(["time gpt embedding", "gone"])
        status, ended, text = self.run_all("--only", "headline", "switches")
        self.assertEqual(status, 3, text)
        self.assertIn("the device is gone: it ended with status 1: CUDA error: the device is lost", text)
        self.assertEqual(ended["headline: unet"]["state"], "right")
        self.assertEqual(list(ended["switches: 124M"]["figures"]), ["cross-entropy"])
        status, _, text = self.run_all("--only", "headline", "switches")
        self.assertIn('{"step":"versions: device","state":"missing","why":"there is no device"}', text)
        self.assertEqual(status, 3)
        self.gpu(H100)
        self.plant()
        status, ended, text = self.run_all("--only", "headline", "switches")
        self.assertEqual(status, 0, text)
        self.assertEqual(ended["switches: 124M"]["state"], "right")

    def test_a_pack_for_another_machine(self):
        for gpu, torch, words in (("NVIDIA T4, 580, 16384, 7.5", VERSION, "the GPU is sm_75, and the pack has code"),
                                  (H100, "2.12.0+cu130", "torch is 2.12.0+cu130 here, and the pack was made with 2.11"),
                                  (H100, None, "this python3 has no torch, whose libraries the programs need")):
            with self.subTest(words):
                self.gpu(gpu)
                shutil.rmtree(self.site, ignore_errors=True)
                if torch:
                    self.make_torch(torch)
                (self.directory / "lines.jsonl").unlink(missing_ok=True)
                status, ended, text = self.run_all()
                self.assertEqual(status, 3)
                self.assertIn(words, text)
                self.assertEqual(ended["versions: pack"]["state"], "wrong")
                self.assertEqual(ended["versions: pack"]["figures"][""]["commit"], MANIFEST["commit"])
                right = [name for name, line in ended.items() if line["state"] == "right"]
                self.assertEqual(right, ["bounds: PyTorch"] if torch else [])

    def test_a_full_disk(self):
        """Of which a process gets 40 kB per file."""
        out = self.directory / "lines.jsonl"
        small = ["bash", "-c", 'ulimit -f 40; exec "$@"', "bash", *map(str, self.command(
            "run", "--rehearse", SECONDS, "--out", out, "--only", "right", "traces"))]
        out.write_text(json.dumps({"step": "old", "state": "right", "why": "x" * 40_500, "at": 1}) + "\n")
        ended = subprocess.run(small, env=self.environment(), cwd=self.directory, capture_output=True, text=True,
                               check=False)
        self.assertEqual(ended.returncode, 3, ended.stdout + ended.stderr)  # the text for GPT had no room
        self.assertIn("lines.jsonl cannot be written: [Errno 27] File too large", ended.stdout)
        self.assertIn('{"step":"right: unet","state":"right"', ended.stdout)
        self.assertIn('{"step":"traces: 124M","state":"missing",', ended.stdout)
        self.assertIn('{"step":"traces: unet","state":"right"', ended.stdout)
        self.assertEqual(self.run_all("--only", "right", "traces")[0], 0)  # there is room again

    def test_what_is_not_in_the_pack(self):
        (self.pack / "tests/nccl_collectives_test").unlink()
        status, ended, _ = self.run_all("--only", "NCCL")
        self.assertEqual(status, 3)
        self.assertEqual(ended["NCCL: collectives"]["state"], "missing")
        self.assertIn("tests/nccl_collectives_test", ended["NCCL: collectives"]["why"])
        self.assertEqual(ended["NCCL: verify 1x1x2x1"]["state"], "right")

    def test_no_tool_of_cuda(self):
        (self.directory / "tools/compute-sanitizer").unlink()
        _, ended, _ = self.run_all("--only", "sanitizers")
        self.assertEqual({line["why"] for name, line in ended.items() if name.startswith("sanitizers")},
                         {"there is no compute-sanitizer in PATH or CUDA's folders"})

    def test_other_scripts_than_the_packs(self):
        """In a checkout with a pack in .gpu-day."""
        checkout = self.directory / "checkout"
        for name in packer.SCRIPTS:
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.pack / name, checkout / name)
        with (checkout / "scripts/gpu_day/steps.py").open("a") as file:
            file.write("\n")
        pack, self.pack = self.pack, checkout
        (checkout / ".gpu-day").symlink_to(pack)
        _, ended, text = self.run_all("--only", "right")
        self.assertEqual(ended["versions: pack"]["why"], "these scripts are not the pack's: steps.py")
        self.assertEqual(ended["right: gpt"]["state"], "right", text)

    def test_kernels_that_did_not_run(self):
        self.plant(["kernels compared", "wrong"])
        _, ended, _ = self.run_all("--only", "kernels")
        self.assertEqual(ended["kernels: test"]["why"], "it compared nothing, as on the dry GPU")

    def test_no_pack(self):
        (self.pack / "manifest.json").unlink()
        status, _, text = self.run_all("--only", "right")
        self.assertIn("there is no pack: make one by scripts/gpu-day pack, and bring .gpu-day along", text)
        self.assertEqual(status, 3 if "steps are left" in text else 0)

    def test_a_step_that_ends_the_machine_is_lost(self):
        step, out = "sanitizers: memcheck", self.directory / "lines.jsonl"
        out.write_text("".join(json.dumps({"step": step, "state": "begun", "at": i}) + "\n" for i in range(2)))
        self.run_all("--only", "sanitizers")
        self.assertEqual([line["state"] for line in lines.read(out) if line["step"] == step],
                         ["begun", "begun", "lost"])

    def test_no_step_begins_that_does_not_fit(self):
        out = self.directory / "lines.jsonl"
        status, text = self.call("run", "--budget", 30, "--only", "sanitizers", "--out", out)
        self.assertIn("2 steps are left", text)
        self.assertEqual((status, [line["step"] for line in lines.read(out)]), (3, ["versions: pack"]))


class PlanTest(unittest.TestCase):
    def test_rows_by_memory(self):
        rows = {gib: [estimates.rows(size, gib) for size in estimates.SIZES] for gib in (15, 39, 79, 139)}
        self.assertEqual(rows, {15: [8, 2, 1, 1], 39: [16, 8, 4, 1], 79: [32, 32, 16, 8], 139: [64, 64, 32, 16]})

    def test_calls_are_short(self):
        for name, device in estimates.DEVICES.items():
            first, second = planner.seconds_of_calls(device).values()
            self.assertLessEqual(first, 180, name)
            self.assertLessEqual(second + steps.AGAIN_MOST, 540, name)
        for call in planner.BUDGETS:
            self.assertLess(len(planner.command(call)), planner.MOST_CHARACTERS)
        first, second = planner.seconds_of_calls(estimates.DEVICES["h100"]).values()
        self.assertIn(f"by plan {first:.0f} s and {second:.0f} s on an H100", pathlib.Path(
            os.environ["AXONN_TABLE"]).read_text(), "docs/gpu.md, 'What a device has to show'")

    def test_the_plan_is_printed_with_its_command_lines(self):
        text = subprocess.run([sys.executable, TOP / "scripts/gpu-day", "plan", "--device", "h100"], check=True,
                              capture_output=True, text=True).stdout
        for step in steps.Plan(estimates.DEVICES["h100"]).table():
            self.assertRegex(text, rf"(?m)^ *\d+ s  {step.name} +\w.*\d")
        for call in planner.BUDGETS:
            self.assertIn(f"\n{planner.command(call)}\n", text)

    def test_what_failed_costs_at_most_half_more_than_planned(self):
        for step in steps.Plan(estimates.DEVICES["h100"]).table():
            self.assertLessEqual(step.limit, max(20, 1.5 * step.seconds), step.name)

    def test_expected_losses_are_of_these_networks(self):
        found = json.loads(expectations.FILE.read_text())
        self.assertEqual(expectations.stale(found), [])
        for network in steps.SMALL:
            for dtype in steps.DTYPES:
                right = found[f"{network} {dtype}"]
                self.assertEqual(len(right["losses"]), steps.LOSSES)
                self.assertLess(right["distance"], 1e-3, f"{network} {dtype}")


class LinesTest(unittest.TestCase):
    def test_short_lines_hold_every_number(self):
        numbers = {f"number {i}": i / 7 for i in range(20)}
        every = {"a b": numbers | {"losses": [1] * 50, "path": "/x" * 200}, "c": {"n": 1}}
        line = {"step": "s: t", "state": "wrong", "seconds": 1.5, "figures": every, "why": 'a "reason"' * 40}
        texts = lines.short(line)
        self.assertLessEqual(max(map(len, texts)), lines.MOST_SHORT)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "printed")
            file.write_text("\n".join(texts))
            [found] = lines.read(file)
        self.assertEqual(found["figures"]["a b"].pop("path"), "/x" * 40)
        rounded = {name: float(f"{value:.4g}") for name, value in numbers.items()}
        self.assertEqual(found["figures"], {"a b": rounded, "c": {"n": 1}})
        self.assertTrue(found["why"].startswith('a "reason"a'))

    def test_a_begin_in_file_and_output_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file, printed = pathlib.Path(folder, "lines"), pathlib.Path(folder, "printed")
            file.write_text('{"step": "s: t", "state": "begun", "device": "a", "at": 1}\n')
            printed.write_text('{"step":"s: t","state":"begun"}\n')
            self.assertEqual(lines.Lines(str(file), [printed]).begun("s: t"), 1)


class MachineTest(unittest.TestCase):
    def test_code_for_an_architecture(self):
        runs = lambda names, capability: not machine.wrong_architecture(names, capability)
        self.assertTrue(runs(["80", "90"], "9.0"))
        self.assertTrue(runs(["80", "90"], "8.9"))
        self.assertTrue(runs(["80", "90"], "12.0"))  # from the text that is compiled there
        self.assertFalse(runs(["80", "90"], "7.5"))
        self.assertFalse(runs(["90-real"], "8.0"))
        self.assertFalse(runs(["90-real"], "10.0"))

    def test_libraries_of_torch_come_first(self):
        with tempfile.TemporaryDirectory() as folder:
            torch = pathlib.Path(folder, "torch")
            torch.mkdir()
            (torch / "__init__.py").touch()
            text = subprocess.run([sys.executable, "-c", "from gpu_day import machine; e = machine.environment();"
                                   "print(e['LD_LIBRARY_PATH']); print(e['PATH'])"], text=True, check=True,
                                  capture_output=True, env={"PYTHONPATH": f"{TOP / 'scripts'}:{folder}", "PATH": "/bin",
                                                            "LD_LIBRARY_PATH": "/image"}).stdout
        libraries, path = text.splitlines()
        nvidia = f"{folder}/nvidia"
        self.assertEqual(libraries, f"{torch}/lib:{nvidia}/nccl/lib:{nvidia}/cu13/lib:{nvidia}/cudnn/lib:/image")
        self.assertTrue(path.startswith("/bin"))


class ReasonTest(unittest.TestCase):
    def test_what_an_output_says(self):
        failure = "a\nx.cpp:7: Failure\nFailed\nelement 3\nframe #1\nGoogle Test trace:\ny.cpp:1: adamw, bf16\nb\n"
        for text, reason in ((failure, "x.cpp:7: Failure element 3 y.cpp:1: adamw, bf16"), ("", "no word"),
                             ("{}\nit ends\n{}\n", "it ends"),
                             ("CUDA error: lost\nterminate called\n", "CUDA error: lost")):
            self.assertEqual(figures.reason(text), reason)


class KernelFiguresTest(unittest.TestCase):
    def test_work_at_the_same_time_counts_once(self):
        lane = lambda number, name: {"ph": "M", "tid": number, "name": "thread_name", "args": {"name": name}}
        span = lambda number, name, begin, length: {"ph": "X", "tid": number, "name": name, "ts": begin, "dur": length}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "trace.json")
            file.write_text(json.dumps({"traceEvents": [
                lane(0, "parts of the step"), lane(1, "GPU stream 7"), lane(2, "GPU stream 9"),
                span(0, "step 3", 0, 9000), span(0, "step 4", 9000, 9000), span(1, "a", 1000, 2000),
                span(2, "b", 2000, 2000), span(1, "a", 9000, 2000)]}))
            found = figures.kernel_figures(file)
        self.assertAlmostEqual(found["idle"], 0.5)  # 1 to 4 and 9 to 11 of 1 to 11 ms
        self.assertEqual(found["kernels"], {"a": (2, 1), "b": (1, 0.5)})


class CommandTest(Rehearsal):
    def test_nothing_starts_after_its_runner(self):
        start = lambda parent: subprocess.run(["true"], preexec_fn=lambda: runner.end_with(parent), check=False)
        self.assertEqual([start(parent).returncode for parent in (os.getpid(), 0)], [0, 128 + signal.SIGTERM])

    def test_arguments(self):
        self.copy_scripts()
        for given, words in ((["--budget", 600], "a budget is 30 to 580 seconds, got 600"),
                             (["--from", "lost.jsonl"], "there is no lost.jsonl")):
            status, text = self.call("run", *given)
            self.assertIn(words, text)
            self.assertEqual(status, 2)

    def test_pack_replaces_nothing_but_a_pack(self):
        mine = self.directory / "mine/thesis.txt"
        mine.parent.mkdir()
        mine.write_text("do not lose me")
        ended = subprocess.run([sys.executable, TOP / "scripts/gpu-day", "pack", "--to", mine.parent], text=True,
                               capture_output=True, timeout=60, check=False)
        self.assertEqual((ended.returncode, mine.read_text()), (1, "do not lose me"))
        self.assertIn("mine is no pack and would be replaced: give a new folder by --to", ended.stderr)


class DryGpuTest(Rehearsal):
    def test_real_programs(self):
        """Those that start fast: what they are asked, and how their figures are read."""
        self.copy_scripts()
        self.make_torch()
        for name in steps.programs():
            (self.pack / name).parent.mkdir(exist_ok=True)
            (self.pack / name).symlink_to(PROGRAMS / name)
        out = self.directory / "lines.jsonl"
        status, text = self.call("run", "--rehearse", "20", "--out", out, "--only", "headline", "traces", "epilogues")
        self.assertEqual(status, 0, text)
        ended = lines.ended(lines.read(out))
        self.assertEqual({line["state"] for line in ended.values()}, {"right"}, text)
        self.assertIn("per_second", ended["headline: 774M"]["figures"]["all"])
        self.assertTrue(any("update_adamw" in name for name in ended["traces: unet"]["figures"][""]["kernels"]))
        self.assertEqual(len(ended["epilogues: products"]["figures"]), 15)


if __name__ == "__main__":
    unittest.main()
