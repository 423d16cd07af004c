"""Builds preset cuda and copies what a machine with a GPU needs into a folder: programs, tests, scripts, the losses
that the CPU computes and the counts of the dry GPU. Everything but LibTorch, NCCL and CUDA."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from . import runner, steps

TOP, BUILD = runner.TOP, runner.TOP / "build/cuda"
MOST_BYTES = 50_000_000
LEAST_DISTANCE = {"fp64": 1e-10, "fp32": 2.5e-6, "bf16": 1e-4}  # a GPU adds in another order
SCRIPTS = ["scripts/gpu-day", *(f"scripts/gpu_day/{name}.py" for name in "lines packer report runner steps".split()),
           "tests/gpu/on_one_gpu", "bench/peers.py", "bench/peers_cuda.py", "bench/peers_unet.py"]


def call(*words, **options):
    subprocess.run([str(word) for word in words], check=True, cwd=TOP, **options)


def build():
    """The tests too, if GoogleTest is here."""
    tests = subprocess.run(["g++", "-E", "-x", "c++", "-"], input="#include <gtest/gtest.h>\n", text=True,
                           capture_output=True, check=False).returncode == 0
    torch = importlib.util.find_spec("torch")
    here = [f"-DAXONN_LIBTORCH={torch.submodule_search_locations[0]}"] if torch and not (TOP / ".deps").exists() else []
    call("cmake", "--preset", "cuda", *here, *([] if tests else ["-DAXONN_BUILD_TESTS=OFF"]))
    targets = ["gpu"] if tests else ["gpt", "unet"]
    call("cmake", "--build", "--preset", "cuda", "-j", os.cpu_count(), "--target", *targets)


def programs():
    """Files of all commands, such as bin/gpt."""
    words = [str(word) for step in steps.all_steps({}) for command in step.commands for word in command.words]
    found = [match for word in words for match in re.findall(r"\{(bin|tests)\}/([\w-]+)", word)]
    return sorted({f"{folder}/{name}" for folder, name in found})


def losses(network, dtype, program, data):
    with tempfile.TemporaryDirectory(prefix="gpu-day-") as out:
        words = [str(word).replace("{data}", data).replace("{out}", out) for word in steps.SMALL[network]]
        call(program, *words[2:], "--dtype", dtype, env=libraries(), stdout=subprocess.DEVNULL)
        return runner.training_figures(pathlib.Path(out, "metrics.jsonl"))["losses"]


def libraries():
    """Without the CUDA libraries, the programs of preset cuda start with those of the dry GPU."""
    dry = BUILD / "tests/dry/lib"
    with_cuda = runner.environment()
    return with_cuda | {"LD_LIBRARY_PATH": f"{with_cuda['LD_LIBRARY_PATH']}:{dry}"} if dry.exists() else with_cuda


def expected(pack):
    """The CPU's losses in fp64, and how far those in other types are from them."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="gpu-day-") as data:
        runner.write_data(data)
        for network in steps.SMALL:
            right = losses(network, "fp64", pack / "bin" / network, data)
            for dtype in steps.TOLERANCES:
                ours = right if dtype == "fp64" else losses(network, dtype, pack / "bin" / network, data)
                distance = max(abs(a - b) / abs(b) for a, b in zip(ours, right))
                found[f"{network} {dtype}"] = {"losses": right, "distance": max(distance, LEAST_DISTANCE[dtype])}
    return found


def dry_counts():
    """The rows of docs/gpu.md that tests compare with the dry GPU."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in (TOP / "docs/gpu.md").read_text().splitlines() if line.startswith("|")]
    head = next(row for row in rows if row[0] == "one rank")
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows if len(row) == len(head) and row[1].isdigit()}


def dry_kernels(pack):
    """What a step launches on the dry GPU, of ours and of LibTorch: kernels by name."""
    found, library = {}, BUILD / "tests/dry/libdrygpu.so"
    if not library.exists():
        return found
    for step in (step for step in steps.all_steps({}) if step.group == "kernels" and "774M" not in step.name):
        with tempfile.TemporaryDirectory(prefix="gpu-day-") as out:
            runner.write_data(out)
            places = {"{check}": "", "{bin}": str(pack / "bin"), "{data}": out, "{out}": out}
            words = [str(word) for word in step.commands[0].words]
            for name, place in places.items():
                words = [word.replace(name, place) for word in words]
            words[words.index("--steps") + 1] = "5"
            call(*filter(None, words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                 env=libraries() | step.commands[0].variables | {"LD_PRELOAD": str(library)})
            kernels = runner.kernel_figures(pathlib.Path(out, "trace.json"))["kernels"]
            found[step.name] = {name: round(launches, 2) for name, (_, launches) in kernels.items()}
    return found


def fill(folder):
    for name in programs():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (BUILD / name).exists():
            call("strip", "-o", folder / name, BUILD / name)
    for name in SCRIPTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, folder / name)
    plan = list(steps.all_steps({}))
    (folder / "plan.txt").write_text("".join(f"{step.seconds:5.0f} s  {step.name}\n" for step in plan))
    found = expected(folder) | {"dry": dry_counts(), "kernels": dry_kernels(folder)}
    (folder / "expected.json").write_text(json.dumps(found, indent=1))
    return plan


def pack(options):
    """A pack is there whole or not at all, also when a call on the GPU machine is ended meanwhile."""
    folder = pathlib.Path(options.to).resolve()
    partial = folder.with_name(f"{folder.name}.partial")
    if folder.exists() and not (folder / "plan.txt").is_file() and (not folder.is_dir() or any(folder.iterdir())):
        sys.exit(f"gpu-day: {options.to} is no pack and would be replaced: give a new folder by --to")
    build()
    shutil.rmtree(partial, ignore_errors=True)
    plan = fill(partial)
    size = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    print(f"{options.to}: {size / 1e6:.1f} MB, {len(plan)} steps, {sum(step.seconds for step in plan) / 60:.0f} min "
          "(plan.txt)")
    if size > MOST_BYTES:
        print(f"that is more than {MOST_BYTES / 1e6:.0f} MB")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return 0
