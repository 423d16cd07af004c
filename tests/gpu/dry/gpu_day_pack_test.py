"""A rehearsal of the whole of scripts/gpu-day, from a pack that `pack` made, on the dry GPU with 79 GiB, in a
place like a GPU machine: no checkout and no .deps; LibTorch and CUDA's libraries are in a Python package torch as
pip installs it, and LD_LIBRARY_PATH leads to another NCCL, which does not load."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

import program_runs
from dry_gpu import FOLDER, LIBRARY
from gpu_day import lines, machine, packer, steps
from gpu_day_test import TOP, Rehearsal, expected

TORCH = pathlib.Path(os.environ["AXONN_LIBTORCH"])
PACK_SECONDS = 120
SECONDS = 20  # per step: LibTorch starts on a machine that does other things
# In a mount namespace of its own: the checkout is hidden, and LibTorch is somewhere else.
ELSEWHERE = """mount --bind "$1" "$2" && mount -t tmpfs none "$3" && cd "$4" && shift 4 && exec "$@" """
HANGS, CRASHES = "graph: unet", "switches: 124M"
PROGRAM = r"""#!/usr/bin/env bash
case " $* " in {cases}
esac
exec {program} "$@"
"""


class PackTest(Rehearsal):
    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine lets no user make a mount namespace")
        self.image, nvidia = self.directory / "image", self.site / "nvidia"
        (self.site / "torch").mkdir(parents=True)
        for names, folder in ((("libnccl*",), "nccl"), (("libcudnn*",), "cudnn"), (("*",), "cu13")):
            (nvidia / folder / "lib").mkdir(parents=True)
            for name in names:
                for file in (FOLDER / "lib").glob(name):
                    (nvidia / folder / "lib" / file.name).symlink_to(self.directory / "libdrygpu.so")
        shutil.copy2(LIBRARY, self.directory / "libdrygpu.so")
        self.image.mkdir()
        (self.image / "libnccl.so.2").write_text("not a library")

    def environment(self):
        return super().environment() | {"LD_LIBRARY_PATH": str(self.image), "DRY_GPU_MEMORY_GB": "79"}

    def command(self, *arguments):
        script = ["env", f"LD_PRELOAD={self.directory / 'libdrygpu.so'}", *super().command(*arguments)]
        return ["env", "-u", "LD_PRELOAD", "unshare", "-rm", "bash", "-c", ELSEWHERE, "bash", TORCH,
                self.site / "torch", TOP, self.directory, *script]

    def make_pack(self):
        command = [sys.executable, TOP / "scripts/gpu-day", "pack", "--to", self.pack]
        subprocess.run(command, check=False, capture_output=True)  # builds what is not built
        start = time.monotonic()
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        print(made.stdout.splitlines()[-1])
        self.assertLess(time.monotonic() - start, PACK_SECONDS * max(1, os.getloadavg()[0] / os.cpu_count()))

    def check_pack(self):
        for name in [*steps.programs(), *packer.SCRIPTS]:
            self.assertTrue((self.pack / name).is_file(), name)
        for name in steps.programs():
            sections = subprocess.run(["readelf", "-S", self.pack / name], capture_output=True, text=True, check=True)
            self.assertNotIn(".symtab", sections.stdout, f"{name} is not stripped")
        manifest = json.loads((self.pack / "manifest.json").read_text())
        self.assertEqual(manifest["torch"], machine.version_of_torch(TORCH))
        self.assertIn("90", manifest["architectures"])
        dry = json.loads((self.pack / "dry.json").read_text())
        self.assertIn("GPT 124M, 64 rows", dry["counts"])
        self.assertEqual(sorted(dry["kernels"]), ["traces: 124M", "traces: unet"])
        for name, kernels in dry["kernels"].items():
            self.assertTrue(any("update_adamw" in kernel for kernel in kernels), name)

    def spoil(self):
        """One step hangs, one crashes on its way, and one has wrong numbers."""
        cases = {"gpu_switches": '\n*" time gpt --layers 1 "*" --warmup 1 ") export DRY_GPU_FAIL=kernel:900 ;;',
                 "unet": '\n*" --cuda-graph "*) sleep 1000 ;;'}
        for name, text in cases.items():
            program = self.pack / "bin" / name
            right = program.rename(program.with_name(f"right-{name}"))
            program.write_text(PROGRAM.format(cases=text, program=right))
            program.chmod(0o755)
        wrong = {"unet bf16": {"losses": [4.5] * steps.LOSSES, "distance": 1e-10}}
        (self.pack / "scripts/gpu_day/expected.json").write_text(json.dumps(expected() | wrong))

    @program_runs.nightly
    def test_all(self):
        self.make_pack()
        self.check_pack()
        self.spoil()
        killed = ["right: gpt", "headline: 774M", "sizes: 350M", "NCCL: collectives", "checkpoint: CPU, GPU, CPU"]
        found, out, text = self.rehearse(killed, "--rehearse", SECONDS)
        ended = self.check_lines(found, killed)
        report = self.call("report", out)[1]
        print(report)
        states = {name: line["state"] for name, line in ended.items()}
        right = [name for name, state in states.items() if state == "right"]
        for name in ("versions: axonn", "kernels: test", "epilogues: products", "right: gpt", "headline: 124M",
                     "headline: 774M", "headline: unet", "switches: unet", "traces: 124M", "traces: 774M",
                     "traces: unet", "sizes: 350M", "sizes: 1558M", "NCCL: verify 2x1x1x1", "graph: 124M",
                     "sizes: 124M, 2048 tokens"):
            self.assertIn(name, right, ended[name])
        self.assertEqual(states[HANGS], "hung")
        self.assertEqual(states["checkpoint: CPU, GPU, CPU"], "wrong")  # the dry GPU's losses are all 4
        self.assertEqual(states[CRASHES], "failed")
        self.assertIn("illegal memory access", ended[CRASHES]["why"])
        self.assertTrue(ended[CRASHES]["figures"])
        self.assertEqual(states["right: unet"], "wrong")
        self.assertEqual([label for label, row in ended["right: unet"]["figures"].items() if not row["right"]],
                         ["unet bf16 none", "unet bf16 all"])
        for words in ("## Switches to turn on", "## Time by traces: unet", f"- **{HANGS}**: hung"):
            self.assertIn(words, report)
        printed = [line for line in text.splitlines() if line.startswith("{")]
        self.assertLessEqual(max(map(len, printed)), lines.MOST_SHORT)


if __name__ == "__main__":
    unittest.main()
