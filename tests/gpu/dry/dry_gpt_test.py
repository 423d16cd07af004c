"""A step of GPT asks of the GPU what docs/gpu.md says."""
import collections
import re
import unittest

from dry_gpu import OWN_KERNELS, TOP, DryTest, attention, counts, environment
from gpu_day import figures  # dry_gpu knows the folder
from program_runs import nightly

CONFIG = TOP / "configs" / "gpt-124m.toml"
LARGE = ["--layers", 48, "--hidden", 1600, "--heads", 25, "--batch", 16, "--micro-batch", 16]
SMALL = ["--layers", 2, "--hidden", 256, "--heads", 4, "--sequence", 64, "--batch", 8, "--validate-every", 0]


def moved(events, direction, memory="pinned"):
    """Bytes of each copy between the device and such memory of the host."""
    return [int(event.fields[1]) for event in events if event.kind == "copy" and event.fields[0] == direction
            and event.fields[2] == memory]


class DryGptTest(DryTest):
    def setUp(self):
        super().setUp()
        self.text = self.directory / "text.txt"
        self.text.write_text("".join(f"line {i} of a text, {i * i % 97} and {i * 7 % 31}\n" for i in range(9000)))

    def step(self, name, *arguments, **options):
        return self.counts_of_a_step(name, "--config", CONFIG, "--data", self.text.name, *arguments, **options)

    def test_one_micro_batch(self):
        record, events = self.step("GPT 124M, 64 rows", "--batch", 64, "--micro-batch", 64)
        self.assert_no_wait(record, events)

    def test_eight_micro_batches(self):
        record, events = self.step("GPT 124M, 8 x 8 rows", "--batch", 64, "--micro-batch", 8)
        self.assert_no_wait(record, events)

    def test_own_kernels(self):
        record, events = self.step("GPT 124M, 64 rows, own kernels", "--batch", 64, "--micro-batch", 64,
                                   *OWN_KERNELS)
        self.assert_no_wait(record, events)

    @nightly
    def test_large_network(self):
        self.step("GPT 1.5B, 16 rows", *LARGE, seconds=400)

    @nightly
    def test_large_network_with_own_kernels(self):
        self.step("GPT 1.5B, 16 rows, own kernels", *LARGE, *OWN_KERNELS, seconds=400)

    def products(self, *arguments):
        """How the products of a small network in fp32 compute, and the attention that was chosen."""
        [record] = self.on_dry_gpu("train", "--data", self.text.name, "--out", f"run-{len(arguments)}", "--steps", 2,
                                   "--no-save-last", *SMALL, *arguments)
        return {fields[8] for fields in record.of_kind("product")}, attention(record.events)

    def test_products_put_weight_gradients_into_fp32(self):
        """Four weights in each of two blocks and the head: one product each, without a launch for rounding."""
        [record] = self.on_dry_gpu("train", "--data", self.text.name, "--out", "run", "--steps", 4, "--no-save-last",
                                   "--dtype", "bf16", *SMALL, "--micro-batch", 4)
        products = [event.fields for event in record.steps()[1] if event.kind == "product"]
        wide = collections.Counter((a, adds) for *_, a, c, _, adds, _, _, _ in products if c == "fp32")
        self.assertEqual(wide, {("bf16", "sets"): 9, ("bf16", "adds"): 9})

    def small_step(self, *arguments, layers=2, dtype="bf16"):
        """A step of a small network with our own kernels."""
        [record] = self.on_dry_gpu("train", "--data", self.text.name, "--out", f"{layers}-{dtype}-{len(arguments)}",
                                   "--steps", 4, "--no-save-last", "--dtype", dtype, "--layers", layers, *SMALL[2:],
                                   *arguments, *OWN_KERNELS)
        return record.steps()[1]

    def test_own_kernels_of_a_block(self):
        """A block is 21 launches."""
        two, four = (counts(self.small_step(layers=layers)).launches for layers in (2, 4))
        self.assertEqual(four - two, 2 * 21)

    def test_epilogues(self):
        """Two blocks and two micro-batches: all biases, GELU, the residual sums and their gradients."""
        found = collections.Counter()
        for *_, c, _, adds, epilogue, _, _ in (event.fields for event in self.small_step("--micro-batch", 4)
                                               if event.kind == "product"):
            found[c, adds, epilogue] += 1
        blocks = 2 * 2  # in two micro-batches
        self.assertEqual(found, {
            ("bf16", "sets", "bias"): blocks, ("bf16", "adds", "bias"): 2 * blocks,
            ("bf16", "sets", "gelu+aux+bias"): blocks, ("bf16", "sets", "dgelu"): blocks,
            ("bf16", "sets", "none"): 3 * blocks + 2 * 2, ("fp32", "sets", "bgrad b"): 2 * blocks,
            ("fp32", "adds", "bgrad b"): 2 * blocks, ("fp32", "sets", "none"): 1, ("fp32", "adds", "none"): 1})

    def test_own_kernels_need_16_bits_and_no_dropout(self):
        """In other networks, LibTorch's products and GELU are taken."""
        for step in (self.small_step(dtype="fp32"), self.small_step("--dropout", 0.1)):
            epilogues = {event.fields[10] for event in step if event.kind == "product"}
            self.assertFalse(epilogues & {"gelu+aux+bias", "dgelu"})

    def test_offload_does_not_wait(self):
        [record] = self.on_dry_gpu("train", "--data", self.text.name, "--out", "run", "--steps", 4, "--no-save-last",
                                   *SMALL, "--activation-checkpoint", 1, "--activation-offload")
        step = record.steps()[1]
        self.assertEqual(dict(record.waits(step)), {})
        self.assertEqual(counts(step).pageable, 0)
        inputs = 2 * 8 * 64 * 256 * 4  # bytes of those of two blocks
        for direction in ("DtoH", "HtoD"):
            self.assertGreaterEqual(sum(moved(step, direction)), inputs)

    def test_checkpoints_go_through_pinned_memory(self):
        state = 3 * 4 * 256 * 256  # bytes of the words' table: weights and moments
        run = ["--data", self.text.name, "--out", "run", *SMALL]
        for command, direction in ((["train", *run, "--steps", 1], "DtoH"),
                                   (["train", "--resume", "run", "--steps", 2], "HtoD")):
            [record] = self.on_dry_gpu(*command)
            self.assertGreaterEqual(sum(moved(record.events, direction)), state)
            if direction == "DtoH":  # initial values come from pageable memory
                self.assertLess(max(moved(record.events, direction, "pageable"), default=0), 64 << 10)

    def test_saves_beside_steps_are_copied_on_a_stream_of_their_own(self):
        """They begin when the values are there, and the next update comes after the last copy."""
        [record] = self.on_dry_gpu("train", "--data", self.text.name, "--out", "run", "--steps", 4, "--save-every", 2,
                                   "--no-save-last", *SMALL)
        least = 256 * 256 * 4  # a weight, in bytes
        copies = [i for i, event in enumerate(record.events) if event.kind == "copy" and event.fields[0] == "DtoH"
                  and event.fields[2] == "pinned" and int(event.fields[1]) >= least]
        updates = [i for i, event in enumerate(record.events) if event.kind == "kernel"
                   and re.search("FusedAdam|update_adamw", event.fields[0])]
        per_step = len(updates) // 4
        self.assertEqual(len(updates), 4 * per_step)
        first = [i for i in copies if i < updates[3 * per_step]]  # the save after the second step
        self.assertGreater(len(first), 10)
        self.assertGreater(min(first), updates[2 * per_step - 1])
        self.assertLess(max(first), updates[2 * per_step])
        [stream] = {record.events[i].fields[3] for i in first}
        self.assertNotIn(stream, {record.events[i].fields[-1] for i in updates})
        joins = [i for i, event in enumerate(record.events) if event.kind == "join" and event.fields[0] == stream]
        self.assertTrue(any(updates[2 * per_step - 1] < i < min(first) for i in joins))

    def test_trace(self):
        """The trace has the kernels of each of its three steps, under their names."""
        [record] = self.on_dry_gpu("train", "--data", self.text.name, "--out", "run", "--steps", 6, "--no-save-last",
                                   *SMALL, "--dtype", "bf16", "--trace", "trace.json", *OWN_KERNELS)
        traced = figures.kernel_figures(self.directory / "trace.json")["kernels"]
        kernels = counts(record.steps()[3]).kernels
        self.assertGreater(kernels, 20)
        self.assertAlmostEqual(sum(launches for _, launches in traced.values()), kernels)
        updates = sum(launches for name, (_, launches) in traced.items() if "update_adamw" in name)
        self.assertAlmostEqual(updates, 2)  # with and without decay

    def test_steps_as_graphs(self):
        for arguments in ([], ["--dropout", 0.1, "--micro-batch", 4, "--activation-checkpoint", 1]):
            for kernels in ([], OWN_KERNELS):
                with self.subTest(arguments=arguments, kernels=kernels):
                    self.assert_steps_are_graphs("--data", self.text.name, *SMALL, *arguments, *kernels)

    def test_steps_as_graphs_go_on(self):
        """After a validation and a checkpoint, and in a resumed run, which records a graph of its own."""
        run = ["train", "--data", self.text.name, "--dtype", "bf16", "--cuda-graph", *SMALL, "--validate-every", 5,
               "--save-every", 6, "--out", "run"]
        self.on_dry_gpu(*run, "--steps", 8)
        [record] = self.on_dry_gpu("train", "--resume", "run", "--cuda-graph", "--steps", 13)
        self.assertEqual(len(record.of_kind("graph")), 2)

    def test_steps_as_graphs_are_refused(self):
        for arguments, why in ((["--dtype", "fp64"], "--cuda-graph needs fp32 or bf16"),
                               (["--optimizer", "sgd"], "choose --optimizer adamw")):
            ended = self.run_program("train", "--data", self.text.name, "--device", "cuda", "--cuda-graph", *SMALL,
                                     *arguments, "--out", "no", environment=environment())
            self.assert_refused(ended, why)

    def test_tf32(self):
        self.assertEqual(self.products()[0], {"fp32"})
        self.assertEqual(self.products("--tf32")[0], {"tf32"})

    def test_deterministic_kernels(self):
        self.assertEqual(self.products("--dtype", "bf16")[1], "cuDNN")
        self.assertEqual(self.products("--dtype", "bf16", "--deterministic")[1], "flash")

    def test_other_commands_run(self):
        self.on_dry_gpu("train", "--data", self.text.name, "--out", "small", "--steps", 2, *SMALL)
        for command in (["train", "--resume", "small", "--steps", 4],
                        ["generate", "--checkpoint", "small", "--tokens", 4, "--prompt", "line"], ["verify"]):
            with self.subTest(command=command[0]):
                [record] = self.on_dry_gpu(*command)
                self.assertGreater(counts(record.events).kernels, 50)


if __name__ == "__main__":
    unittest.main()
