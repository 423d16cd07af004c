"""Programs of torch::nn modules that axonn wraps: each trains on four ranks as on one, and leaves the
same tensors in its file. They are those of this build; AXONN_TEST_NIGHTLY=1 builds each outside
against the package."""
import array
import json
import os
import re
import unittest

from outside_project import BUILD, HIDDEN, LIBTORCH, MPIRUN, SOURCE, OutsideProject, losses, on_ranks, run

EXAMPLES = ("distributed_mnist", "sharded_cnn", "sharded_gan", "sharded_lstm", "split_mlp", "split_transformer")
TWO_RANKS = ("1x1x2x1", "1x1x1x2", "2x1x1x1")


def tensors(file):
    """name -> elements, of a safetensors file of fp64."""
    data = file.read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:size]).items():
        if name != "__metadata__" and entry["dtype"] == "F64":
            begin, end = entry["data_offsets"]
            found[name] = array.array("d", data[size + begin:size + end])
    return found


def numbers(text):
    return [float(word) for word in re.findall(r"[-+\d.e]+", " ".join(
        line for line in text.splitlines() if line.startswith(("step", "epoch")))) if re.search(r"\d", word)]


class WrappedExamples(OutsideProject):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = {name: BUILD / "bin" / name for name in EXAMPLES}
        if os.environ.get("AXONN_TEST_NIGHTLY"):
            for name in EXAMPLES:
                cls.start_build(SOURCE / "examples" / name, name, f"-DAXONN_LIBTORCH={LIBTORCH}", *HIDDEN)
            cls.programs = {name: cls.built(name)[0] / name for name in EXAMPLES}

    def check_wrapped(self, name, grid, tensor):
        program, files = self.programs[name], [self.scratch / f"{name}-{count}" for count in (1, 4)]
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

    def check_exactly(self, name, arguments, files):
        """In fp64 every number that it prints, and the tensors that it leaves, are those of one rank."""
        program, alone = self.programs[name], self.scratch / f"{name}-self"
        said = run(program, "1x1x1x1", alone, *arguments, "fp64")
        self.assertGreater(len(numbers(said)), 3)
        for grid in TWO_RANKS if MPIRUN else ():
            out = self.scratch / f"{name}-{grid}"
            for a, b in zip(numbers(said), numbers(on_ranks(2, program, grid, out, *arguments, "fp64")), strict=True):
                self.assertLess(abs(a - b), 1e-12 * max(1, abs(a)), grid)
            for file in files:
                need, got = tensors(alone / file), tensors(out / file)
                self.assertEqual(need.keys(), got.keys())
                for tensor, values in need.items():
                    worst = max(abs(a - b) for a, b in zip(values, got[tensor], strict=True))
                    self.assertLess(worst, 1e-12 * max(map(abs, values)), f"{tensor} on {grid}")
        return said

    def test_two_networks_take_turns(self):
        files = ("generator.safetensors", "discriminator.safetensors")
        said = self.check_exactly("sharded_gan", (10,), files)
        self.assertEqual(said.count("step"), 2)

    def test_a_data_loader_and_a_mean_loss_are_those_of_one_rank(self):
        self.check_exactly("distributed_mnist", (2,), ("",))

    def test_digits_are_learned(self):
        said = run(self.programs["distributed_mnist"])
        self.assertGreater(int(re.findall(r"right (\d+) of 200", said)[-1]), 150)

    def test_digits_are_read_from_the_files_of_mnist(self):
        folder = self.scratch / "mnist"
        folder.mkdir()
        for part, count in (("train", 60000), ("t10k", 10000)):
            images, labels = folder / f"{part}-images-idx3-ubyte", folder / f"{part}-labels-idx1-ubyte"
            sizes = b"".join(number.to_bytes(4, "big") for number in (0x803, count, 28, 28))
            images.write_bytes(sizes + bytes(count * 784))
            labels.write_bytes(b"".join(number.to_bytes(4, "big") for number in (0x801, count)) + bytes(count))
        said = run(self.programs["distributed_mnist"], "1x1x1x1", "", 0, "fp32", folder)
        self.assertEqual(said, "")

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
