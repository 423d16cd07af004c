"""Runs the program wrapped_files, and knows what its network holds. CTest sets AXONN_PROGRAM,
AXONN_MPIRUN and AXONN_HAS_MPI."""
import json
import math
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

GRIDS = {1: ["1x1x1x1"], 3: ["1x1x3x1"], 4: ["1x1x2x2", "1x1x4x1", "1x1x1x4", "1x2x2x1"],
         6: ["3x1x2x1"]}
SHAPES = {
    "tower.0.weight": [10, 3, 3, 3], "tower.0.bias": [10], "tower.1.weight": [10], "tower.1.bias": [10],
    "tower.3.weight": [33, 160], "tower.3.bias": [33],
    "norm.weight": [10], "norm.bias": [10], "norm.running_mean": [10], "norm.running_var": [10],
    "norm.num_batches_tracked": [], "words.weight": [61, 20],
    "lstm.weight_ih_l0": [48, 20], "lstm.weight_hh_l0": [48, 12], "lstm.bias_ih_l0": [48], "lstm.bias_hh_l0": [48],
    "up.weight": [40, 40], "up.bias": [40], "down.weight": [40, 40], "down.bias": [40],
    "scale": [], "frozen": [1500],
}


def is_integer(name):
    return name.endswith("num_batches_tracked")


def values(name):
    """All elements of the tensor as wrapped_files.cpp fills it."""
    key = sum(name.replace("down", "up").encode())
    numbers = [(i * 7 + key) % 101 - 50 for i in range(math.prod(SHAPES[name]))]
    return numbers if is_integer(name) else [number / 64 for number in numbers]


def read(path):
    """The tensors of a safetensors file: name -> (shape, elements)."""
    data = path.read_bytes()
    size = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:size]).items():
        if name != "__metadata__":
            code, width = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8)}[entry["dtype"]]
            begin, end = entry["data_offsets"]
            assert end - begin == width * math.prod(entry["shape"]), entry
            tensors[name] = entry["shape"], list(struct.unpack(f"<{(end - begin) // width}{code}",
                                                               data[size + begin:size + end]))
    return tensors


class WrappedRuns(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def save(self, grid, *arguments):
        """Runs wrapped_files on the grid; returns the file it saved."""
        out = self.scratch / f"{grid}.safetensors"
        ranks = math.prod(map(int, grid.split("x")))
        launch = [os.environ["AXONN_MPIRUN"], "-n", str(ranks)] if ranks > 1 else []
        ended = subprocess.run([*launch, os.environ["AXONN_PROGRAM"], grid, out, *arguments], capture_output=True,
                               text=True, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return out

    def grids(self):
        counts = [*GRIDS] if os.environ["AXONN_HAS_MPI"] == "1" else [1]
        return [grid for count in counts for grid in GRIDS[count]]
