"""Parts of this machine: its GPU, Python's torch, CUDA's tools; and whether a pack is for it."""
import glob
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import typing

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# Tools that a container's PATH often lacks: compute-sanitizer, ncu.
TOOLS = ("/usr/local/cuda/bin", "/usr/local/cuda-*/bin", "/usr/local/cuda/compute-sanitizer",
         "/opt/nvidia/nsight-compute/*")


class Gpu(typing.NamedTuple):
    name: str
    driver: str
    gib: float
    capability: str  # such as 9.0


def gpu():
    """The first one that nvidia-smi lists, if it does."""
    asked = "name,driver_version,memory.total,compute_cap"
    try:
        ended = subprocess.run(["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader,nounits"], text=True,
                               capture_output=True, timeout=30, check=False)
        name, driver, mib, capability = ended.stdout.splitlines()[0].split(", ")
        return Gpu(name, driver, float(mib) / 1024, capability) if ended.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None


def folders():
    """The place of things: in a pack, or in a checkout with a pack in .gpu-day."""
    pack = TOP if (TOP / "manifest.json").exists() else TOP / ".gpu-day"
    return {"pack": pack, "bin": pack / "bin", "tests": pack / "tests", "scripts": TOP / "tests/gpu",
            "gpu_day": TOP / "scripts/gpu_day", "bench": TOP / "bench"}


def torch_folder():
    found = importlib.util.find_spec("torch")
    return pathlib.Path(found.submodule_search_locations[0]) if found else None


def version_of_torch(folder):
    """Without an import, which takes seconds."""
    found = re.search(r"__version__ = '([^']+)'", (folder / "version.py").read_text())
    return found.group(1) if found else "unknown"


def environment():
    """The libraries of the Python package torch come before those of LD_LIBRARY_PATH: an image may have another
    NCCL. Tools come after those of PATH."""
    libraries, tools = [], [path for name in TOOLS for path in sorted(glob.glob(name))]
    if torch := torch_folder():
        nvidia = torch.parent / "nvidia"
        libraries = [torch / "lib", nvidia / "nccl/lib", nvidia / "cu13/lib", nvidia / "cudnn/lib"]
    join = lambda *paths: ":".join(str(path) for path in paths if str(path))
    return os.environ | {"LD_LIBRARY_PATH": join(*libraries, os.environ.get("LD_LIBRARY_PATH", "")),
                         "PATH": join(os.environ.get("PATH", ""), *tools)}


def manifest(pack):
    """The origin and the purpose of a pack, or nothing."""
    try:
        return json.loads((pack / "manifest.json").read_text())
    except (OSError, ValueError):
        return {}


def wrong_architecture(architectures, capability):
    """Code for an architecture runs on later ones of its first digit; on all later ones if it is not `-real`."""
    have = int(capability.replace(".", ""))
    for name in architectures:
        number = int(re.match(r"\d+", name).group(0))
        if have >= number and ("real" not in name or have // 10 == number // 10):
            return ""
    return f"the GPU is sm_{have}, and the pack has code for {', '.join(architectures)}"


def problem_of_pack(pack, here):
    """Why the pack's programs cannot run here, or nothing."""
    made = manifest(pack)
    if not made:
        return "there is no pack: make one by scripts/gpu-day pack, and bring .gpu-day along"
    if here and (problem := wrong_architecture(made["architectures"], here.capability)):
        return problem
    if not (torch := torch_folder()):
        return "this python3 has no torch, whose libraries the programs need"
    if (found := version_of_torch(torch)) != made["torch"]:
        return f"torch is {found} here, and the pack was made with {made['torch']}"
    return ""


def other_scripts(pack):
    """Those of this checkout that differ from the pack's: the programs may not know what they ask."""
    theirs = sorted((pack / "scripts/gpu_day").glob("*.*"))
    return [file.name for file in theirs if not (ours := TOP / "scripts/gpu_day" / file.name).exists() or
            ours.read_bytes() != file.read_bytes()]
