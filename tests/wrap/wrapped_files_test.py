"""A file of save_state_dict() is a safetensors file for every reader of the format."""
import unittest

from wrapped_runs import SHAPES, WrappedRuns, read, values


class WrappedFiles(WrappedRuns):
    def test_every_grid_saves_every_tensor(self):
        first = None
        for grid in self.grids():
            with self.subTest(grid=grid):
                file = self.save(grid)
                tensors = read(file)
                self.assertEqual(sorted(tensors), sorted(SHAPES))
                for name, (shape, elements) in tensors.items():
                    self.assertEqual(shape, SHAPES[name], name)
                    self.assertEqual(elements, values(name), name)
                first = first or file.read_bytes()
                self.assertEqual(file.read_bytes(), first)


if __name__ == "__main__":
    unittest.main()
