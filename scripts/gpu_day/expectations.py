"""Results of the CPU: the losses of the small networks in fp64, and how far those in other types are from them.
They are in the tree, so that a pack does not wait for them."""
import datetime
import json
import os
import pathlib
import re
import subprocess

from . import figures, packer, steps

FILE = pathlib.Path(__file__).parent / "expected.json"
LEAST_DISTANCE = {"fp64": 1e-10, "fp32": 2.5e-6, "bf16": 1e-4}  # a GPU adds in another order


def arguments(network):
    """All that the losses depend on."""
    return " ".join(map(str, steps.losses(network, steps.DTYPES, ["none"], "cpu")[1:]))


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else "unknown"


def losses_of(network, places):
    words = [str(word).format(**places) for word in steps.losses(network, steps.DTYPES, ["none"], "cpu")]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=packer.libraries()).stdout
    return {dtype: figures.rows_of(text)[f"{network} {dtype} none"]["losses"] for dtype in steps.DTYPES}


def expect(options):
    packer.build(["gpu_switches"])
    found = {"commit": packer.commit(), "date": datetime.date.today().isoformat(), "cpu": processor(),
             "threads": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count()))}
    for network in steps.SMALL:
        losses = losses_of(network, {"bin": packer.BUILD / "bin"})
        found[network] = arguments(network)
        for dtype, ours in losses.items():
            distance = max(figures.distance(ours, losses["fp64"]), LEAST_DISTANCE[dtype])
            found[f"{network} {dtype}"] = {"losses": losses["fp64"], "distance": distance}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{FILE}: {', '.join(steps.SMALL)} by commit {found['commit']}")


def stale(found):
    """Whether these are not of the networks that the steps have now."""
    return [network for network in steps.SMALL if found.get(network) != arguments(network)]
