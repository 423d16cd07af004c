"""Programs of torch::nn modules that axonn wraps, each built outside against the package: it trains
on four ranks as on one, and leaves the same tensors in its file."""
import concurrent.futures
import os
import unittest

from outside_project import HIDDEN, LIBTORCH, MPIRUN, SOURCE, OutsideProject, losses, on_ranks, run

EXAMPLES = ("sharded_cnn", "sharded_lstm", "split_mlp", "split_transformer")


class WrappedExamples(OutsideProject):
    @classmethod
    def setUpClass(cls):
        """The compiler reads LibTorch's headers for half a minute per example, so they build side by side."""
        super().setUpClass()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for built in [pool.submit(cls.build, SOURCE / "examples" / name, name, f"-DAXONN_LIBTORCH={LIBTORCH}",
                                      *HIDDEN, seconds=300) for name in EXAMPLES]:
                built.result()

    def check_wrapped(self, name, grid, tensor):
        program, files = self.scratch / name / name, [self.scratch / f"{name}-{count}" for count in (1, 4)]
        said = run(program, "1x1x1x1", files[0])
        alone = losses(said)
        self.assertEqual(len(alone), 5)
        self.assertLess(alone[-1], 0.3 * alone[0])
        if MPIRUN:
            together = losses(on_ranks(4, program, grid, files[1]))
            for a, b in zip(alone, together, strict=True):
                self.assertAlmostEqual(a, b, delta=2e-3)
            headers = [file.read_bytes() for file in files]
            size = 8 + int.from_bytes(headers[0][:8], "little")
            self.assertEqual(*[header[:size] for header in headers])
            self.assertIn(tensor, headers[0][:size])
        return said

    def test_a_wrapped_module_trains_on_any_grid_and_leaves_one_file(self):
        self.check_wrapped("sharded_cnn", "1x1x2x2", b'"blocks.0.first.weight"')

    def test_an_lstm_is_a_unit(self):
        self.assertIn("text: each rank keeps", self.check_wrapped("sharded_lstm", "1x1x2x2", b'"lstm.weight_hh_l0"'))

    def test_a_sequential_is_divided_over_x_and_y(self):
        self.check_wrapped("split_mlp", "2x1x2x1", b'"0.weight"')

    def test_typed_members_are_divided_over_x_and_y(self):
        self.check_wrapped("split_transformer", "2x1x2x1", b'"blocks.1.qkv.weight"')


if __name__ == "__main__":
    unittest.main()
