"""A rehearsal of the whole of scripts/gpu-day, from a pack that `pack` made, in a place that has no
checkout and no .deps: LibTorch is that of a Python package elsewhere. And a checkout without a
pack, which makes one."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import program_runs
from dry_gpu import FOLDER, LIBRARY
from gpu_day_test import PROGRAMS, TOP, Rehearsal

from gpu_day import lines, packer, steps  # gpu_day_test knows the folder

TORCH = pathlib.Path(os.environ["AXONN_LIBTORCH"])
# In a mount namespace of its own: the checkout is hidden, and Python's packages are somewhere else.
ELSEWHERE = """mount --bind "$1" "$2" && mount -t tmpfs none "$3" && cd "$4" && shift 4 && exec "$@" """


class PackTest(Rehearsal):
    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine lets no user make a mount namespace")
        self.packages, self.dry = self.directory / "packages", self.directory / "dry"
        self.packages.mkdir()
        shutil.copytree(FOLDER / "lib", self.dry / "lib", symlinks=True)
        shutil.copy2(LIBRARY, self.dry)

    def environment(self):
        return super().environment() | {"LD_LIBRARY_PATH": str(self.dry / "lib"), "PYTHONPATH": str(self.packages)}

    def command(self, *arguments):
        script = ["env", f"LD_PRELOAD={self.dry / pathlib.Path(LIBRARY).name}", *super().command(*arguments)]
        return ["env", "-u", "LD_PRELOAD", "unshare", "-rm", "bash", "-c", ELSEWHERE, "bash", TORCH.parent,
                self.packages, TOP, self.directory, *script]

    def make_pack(self):
        made = subprocess.run([sys.executable, TOP / "scripts/gpu-day", "pack", "--to", self.pack], check=False,
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)

    def check_pack(self):
        files = [file for file in self.pack.rglob("*") if file.is_file()]
        self.assertLess(sum(file.stat().st_size for file in files), packer.MOST_BYTES)
        for name in [*packer.programs(), *packer.SCRIPTS]:
            self.assertTrue((self.pack / name).is_file(), name)
        for name in packer.programs():
            sections = subprocess.run(["readelf", "-S", self.pack / name], capture_output=True, text=True, check=True)
            self.assertNotIn(".symtab", sections.stdout, f"{name} is not stripped")
        plan = (self.pack / "plan.txt").read_text().splitlines()
        self.assertEqual(len(plan), len(list(steps.all_steps({}))))
        for line in plan:
            self.assertRegex(line, r"^ *\d+ s  \w.*: ")
        expected = json.loads((self.pack / "expected.json").read_text())
        self.assertIn("GPT 124M, 64 rows", expected.pop("dry"))
        launched = expected.pop("kernels")
        self.assertEqual(len(launched), 4)
        for name, kernels in launched.items():
            self.assertEqual(any("update_adamw" in kernel for kernel in kernels), "our own" in name, name)
        self.assertEqual(sorted(expected), sorted(f"{network} {dtype}" for network in steps.SMALL
                                                  for dtype in steps.TOLERANCES))
        for name, right in expected.items():
            self.assertEqual(len(right["losses"]), 10)
            self.assertLess(right["distance"], 0.1, name)

    @program_runs.nightly
    def test_all(self):
        self.make_pack()
        self.check_pack()
        self.spoil()
        killed = ["trains: gpt 124M", "sizes: 124M, 1024 tokens", "NCCL: collectives, 2 ranks"]
        found, out = self.rehearse(killed)
        self.check(found, killed)
        ended = {line["step"]: line for line in found}
        # PyTorch's own steps need CUDA's libraries, which the dry GPU does not have.
        for name in ("starts: libraries", "trains: gpt 124M", "trains: unet 53M", "kernels: 774M, our own"):
            self.assertEqual(ended[name]["state"], "right", ended[name])
        report = self.start("report", out).communicate()[0]
        self.assertIn("## Switches to turn on", report)
        self.assertIn("## Time by kernels: unet, our own", report)


# In the place of a compiler: the first build takes longer than a call may.
CMAKE = """#!/bin/sh
mkdir -p build
[ -e build/cuda ] || { ln -s %s build/cuda; sleep 1000; }
"""


class CheckoutTest(Rehearsal):
    """`pack` is a checkout here."""

    def setUp(self):
        super().setUp()
        for name in [*packer.SCRIPTS, "docs/gpu.md"]:
            (self.pack / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, self.pack / name)
        cmake = self.directory / "tools/cmake"
        cmake.parent.mkdir()
        cmake.write_text(CMAKE % PROGRAMS)
        cmake.chmod(0o755)

    def environment(self):
        return super().environment() | {"PATH": f"{self.directory / 'tools'}:{os.environ['PATH']}"}

    @program_runs.nightly
    def test_without_a_pack_it_is_built_there(self):
        self.addCleanup(self.end_all)
        out, given = self.directory / "lines.jsonl", ["run", "--rehearse", "--only", "trains"]
        for budget, status in ((30, 3), (540, 0)):
            process = self.start(*given, "--budget", budget, "--out", out)
            text = process.communicate()[0]
            self.assertEqual(process.returncode, status, text)
        self.assertEqual([line["state"] for line in lines.read(out) if line["step"] == "builds: pack"],
                         ["failed", "right"])
        self.assertEqual({line["state"] for line in lines.read(out) if line["step"].startswith("trains")},
                         {"begun", "right"})
        self.assertTrue((self.pack / ".gpu-day/plan.txt").exists())


if __name__ == "__main__":
    unittest.main()
