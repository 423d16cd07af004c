"""Copies what a machine with a GPU needs from build/cuda into a folder: programs, tests, scripts and the counts of the
dry GPU. Everything but LibTorch, NCCL and CUDA."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from . import estimates, expectations, figures, machine, runner, steps

TOP, BUILD = machine.TOP, machine.TOP / "build/cuda"
MOST_BYTES = 45_000_000
SCRIPTS = ["scripts/gpu-day", *(str(file.relative_to(TOP)) for file in sorted((TOP / "scripts/gpu_day").glob("*.*"))),
           "tests/gpu/on_one_gpu", "bench/peers.py", "bench/peers_cuda.py", "bench/peers_unet.py"]


def call(*words, **options):
    subprocess.run([str(word) for word in words], check=True, cwd=TOP, **options)


def build(targets):
    """Only what is not up to date."""
    if not (BUILD / "build.ninja").exists():
        torch = machine.torch_folder()
        here = [f"-DAXONN_LIBTORCH={torch}"] if torch and not (TOP / ".deps").exists() else []
        call("cmake", "--preset", "cuda", *here)
    call("cmake", "--build", "--preset", "cuda", "-j", os.cpu_count(), "--target", *targets)


def commit():
    """With a + where files differ from it. An archive of scripts/release names it in a file."""
    if (TOP / "RELEASE").exists():
        return (TOP / "RELEASE").read_text().split()[-1][:8]
    git = lambda *words: subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False).stdout
    return git("rev-parse", "--short", "HEAD").strip() + ("+" if git("status", "--porcelain", "-uno") else "")


def libraries():
    """Without the CUDA libraries, the programs of preset cuda start with those of the dry GPU."""
    dry = BUILD / "tests/dry/lib"
    with_cuda = machine.environment()
    return with_cuda | {"LD_LIBRARY_PATH": f"{with_cuda['LD_LIBRARY_PATH']}:{dry}"} if dry.exists() else with_cuda


def manifest():
    """The sources and libraries of the programs."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    linked = subprocess.run(["ldd", BUILD / "bin/gpt"], capture_output=True, text=True, env=libraries(), check=True)
    torch = pathlib.Path(re.search(r"=> (\S+)/lib/libc10\.so", linked.stdout).group(1))
    return {"commit": commit(), "torch": machine.version_of_torch(torch),
            "architectures": re.search(r"CMAKE_CUDA_ARCHITECTURES:\w+=(.*)", cache).group(1).split(";")}


def dry_counts():
    """The rows of docs/gpu.md that tests compare with the dry GPU."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in (TOP / "docs/gpu.md").read_text().splitlines() if line.startswith("|")]
    head = next(row for row in rows if row[0] == "one rank")
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows if len(row) == len(head) and row[1].isdigit()}


def dry_kernels(pack):
    """Launches of a step of the traces on the dry GPU, of ours and of LibTorch: kernels by name. 774M's are those of
    124M, more often."""
    found, library = {}, BUILD / "tests/dry/libdrygpu.so"
    if not library.exists():
        return found
    traces = [step for step in steps.Plan(estimates.DEVICES["h100"]).table() if step.group == "traces"]
    for step in (step for step in traces if "774M" not in step.name):
        with tempfile.TemporaryDirectory(prefix="gpu-day-") as out:
            runner.write_text(pathlib.Path(out, "text.txt"), estimates.VOCABULARY, 200_000)
            words = [str(word).format(bin=pack / "bin", data=out, out=out) for word in step.commands[0].words]
            words[words.index("--steps") + 1] = "5"
            call(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                 env=libraries() | {"LD_PRELOAD": str(library)})
            kernels = figures.kernel_figures(pathlib.Path(out, "trace.json"))["kernels"]
            found[step.name] = {name: round(launches, 2) for name, (_, launches) in kernels.items()}
    return found


def fill(folder):
    for name in steps.programs():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        call("strip", "-o", folder / name, BUILD / name)
    for name in SCRIPTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, folder / name)
    (folder / "manifest.json").write_text(json.dumps(manifest(), indent=1))
    (folder / "dry.json").write_text(json.dumps({"counts": dry_counts(), "kernels": dry_kernels(folder)}, indent=1))


def pack(options):
    """A pack is there whole or not at all, also when a call on the GPU machine is ended meanwhile."""
    start = time.monotonic()
    folder = pathlib.Path(options.to).resolve()
    partial = folder.with_name(f"{folder.name}.partial")
    if folder.exists() and not (folder / "manifest.json").is_file() and (
            not folder.is_dir() or any(folder.iterdir())):
        sys.exit(f"gpu-day: {options.to} is no pack and would be replaced: give a new folder by --to")
    if stale := expectations.stale(json.loads(expectations.FILE.read_text())):
        sys.exit(f"gpu-day: {expectations.FILE.name} is of other networks ({', '.join(stale)}): run gpu-day expect")
    build(sorted(pathlib.Path(name).name for name in steps.programs()))
    shutil.rmtree(partial, ignore_errors=True)
    fill(partial)
    size = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    print(f"{options.to}: {size / 1e6:.1f} MB in {time.monotonic() - start:.0f} s; then: scripts/gpu-day plan")
    if size > MOST_BYTES:
        print(f"that is more than {MOST_BYTES / 1e6:.0f} MB")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return 0
