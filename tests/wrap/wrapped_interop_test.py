"""Python's own network, PyTorch and safetensors beside files of wrapped modules; scripts/setup
--interop installs both."""
import os
import pathlib
import subprocess
import unittest

from wrapped_runs import WrappedRuns, read

DEPS = pathlib.Path(__file__).parents[2] / ".deps"
PYTHON = next(DEPS.glob("torch-*-cuda/bin/python"), None)
LIBRARY = next(DEPS.glob("transformers-*/lib/python3*/site-packages"), None)
NETWORK = """
import sys, numpy, torch, safetensors.numpy, safetensors.torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(3, 10, 3), nn.GroupNorm(2, 10), nn.Flatten(), nn.Linear(160, 33))
        self.norm = nn.BatchNorm2d(10)
        self.words = nn.Embedding(61, 20)
        self.lstm = nn.LSTM(20, 12)
        self.up = self.down = nn.Linear(40, 40)
        self.scale = nn.Parameter(torch.zeros(()))
        self.frozen = nn.Parameter(torch.zeros(1500), requires_grad=False)

torch.manual_seed(1)
net = Net()
"""
LOAD = NETWORK + """
from wrapped_runs import SHAPES, values
arrays = safetensors.numpy.load_file(sys.argv[1])
print(net.load_state_dict(safetensors.torch.load_file(sys.argv[1]), strict=True))
for name, tensor in net.state_dict().items():
    assert arrays[name].shape == tuple(SHAPES[name]), name
    assert arrays[name].flatten().tolist() == values(name), name
    assert tensor.flatten().tolist() == values(name), name
assert sorted(arrays) == sorted(net.state_dict())
"""
# safetensors.torch.save_file refuses tensors that share memory.
SAVE = NETWORK + """
net.norm.running_mean.uniform_()
safetensors.torch.save_file({name: tensor.clone() for name, tensor in net.state_dict().items()}, sys.argv[1])
torch.save(dict(net.state_dict()), sys.argv[2])
torch.save(net.state_dict(), sys.argv[3])
"""


@unittest.skipUnless(PYTHON and LIBRARY, "no PyTorch and safetensors in .deps (scripts/setup --interop)")
class WrappedInterop(WrappedRuns):
    def python(self, code, *arguments):
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(pathlib.Path(__file__).parent), str(LIBRARY)])
        ended = subprocess.run([PYTHON, "-c", code, *arguments], capture_output=True, text=True, timeout=100,
                               env={**os.environ, "PYTHONPATH": path})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def test_python_loads_what_a_grid_saved(self):
        self.assertIn("All keys matched", self.python(LOAD, self.save(self.grids()[-1])))

    def test_grids_load_what_python_saved(self):
        file, dictionary, ordered = (self.scratch / f"python.{name}" for name in ("safetensors", "pt", "ordered.pt"))
        self.python(SAVE, file, dictionary, ordered)
        tensors = read(file)
        for grid in self.grids():
            with self.subTest(grid=grid):
                self.assertEqual(read(self.save(grid, file)), tensors)
                self.assertEqual(read(self.save(grid, dictionary)), tensors)
        with self.assertRaisesRegex(AssertionError, "was written by torch.save; convert it in Python"):
            self.save("1x1x1x1", ordered)


if __name__ == "__main__":
    unittest.main()
