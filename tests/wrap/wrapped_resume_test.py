"""A program that trains a wrapped module with torch::optim::AdamW is killed, and goes on from its
checkpoint on the same grid and on others."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import unittest

from program_runs import PROGRAM, RUN_SECONDS, ProgramTest, needs_mpi
from wrapped_runs import read

STEPS = 24
CHECKPOINT = pathlib.Path(PROGRAM).parents[1] / "bin/axonn-checkpoint"
# Sharded and parallelized modules store the kernels of a Conv2d in different orders.
GRIDS = {"1x1x2x2": ["1x1x1x4", "2x1x2x1"], "2x2x1x1": ["1x2x2x1", "1x1x4x1"]}


@needs_mpi
class WrappedResume(ProgramTest):
    def train(self, grid, run):
        """The file of weights in the end."""
        out = self.directory / f"{run.name}.safetensors"
        ended = self.run_program(grid, run, STEPS, out, ranks=4)
        self.assertEqual(ended.status, 0, ended.text)
        return out

    def kill(self, grid, run):
        """Ends one rank at a random moment of a random step in the first half of the run."""
        job = self.start(grid, run, STEPS, self.directory / "never", ranks=4)
        self.addCleanup(job.end)
        step = random.randrange(2, STEPS // 2)
        while True:
            line = job.processes[0].stdout.readline().decode()
            self.assertTrue(line, "the run ended before its time")
            if line == f"step {step}\n":
                break
        os.kill(random.choice([pid for pid in job.ranks() if pid != job.processes[0].pid]), signal.SIGKILL)
        self.assertNotEqual(job.wait(RUN_SECONDS).status, 0)
        self.assertFalse((self.directory / "never").exists())

    def check_grid(self, grid):
        undisturbed = self.train(grid, self.directory / f"undisturbed-{grid}")
        killed = self.directory / f"killed-{grid}"
        self.kill(grid, killed)
        copies = {other: self.directory / f"{grid}-{other}" for other in GRIDS[grid]}
        for copy in copies.values():
            shutil.copytree(killed, copy)
        self.assertEqual(self.train(grid, killed).read_bytes(), undisturbed.read_bytes())
        need = read(undisturbed)
        for other, copy in copies.items():
            got = read(self.train(other, copy))
            self.assertEqual(sorted(got), sorted(need))
            for name, (shape, values) in need.items():
                self.assertEqual(got[name][0], shape, name)
                scale = max(map(abs, values))
                worst = max(abs(a - b) for a, b in zip(got[name][1], values, strict=True))
                self.assertLessEqual(worst, 1e-10 * scale, f"{name} on {other}")
        return killed, need

    def test_a_sharded_module_goes_on(self):
        run, weights = self.check_grid("1x1x2x2")
        exported = self.directory / "exported.safetensors"
        for command in (["verify", run], ["export", run, "--out", exported]):
            subprocess.run([CHECKPOINT, *command], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual({name: values for name, (_, values) in read(exported).items()},
                         {name: values for name, (_, values) in weights.items()})

    def test_a_parallelized_module_goes_on(self):
        self.check_grid("2x2x1x1")


if __name__ == "__main__":
    unittest.main()
