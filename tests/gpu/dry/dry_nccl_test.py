"""The ranks of a job ask NCCL for the same in the same order, whatever overlaps with what, and every
collective comes before the update that follows it."""
import collections
import unittest

import program_runs
from dry_gpu import OWN_KERNELS, TOP, DryTest, Event, attention
from nccl_order import calls, cycle, differences, not_joined, unanswered

NETWORK = {"gpt": ["--layers", 2, "--hidden", 64, "--heads", 4, "--sequence", 16, "--data", "text.txt"],
           "unet": ["--image", 16, "--base", 32, "--multipliers", 1, 2, "--blocks", 1, "--attention", 8, "--heads", 2,
                    "--groups", 4, "--synthetic-images", 64, "--count", 1, "--sampling-steps", 2, "--sample-every", 0]}
MICRO_BATCHES = ["--micro-batch", 1]
CHECKPOINTING = ["--activation-checkpoint", 1]

# All overlaps, none, and each by itself.
PLAIN = ("2x1x2x1", [])
RUNS = [("2x1x1x1", ["--overlap", "none"]),
        ("1x2x1x1", ["--overlap", "all-reduce", *CHECKPOINTING]),
        ("1x1x2x1", ["--overlap", "reduce-scatter", *MICRO_BATCHES]),
        ("1x1x1x2", ["--overlap", "buckets", *MICRO_BATCHES]),
        PLAIN,
        ("1x1x4x1", ["--overlap", "all-gather", *CHECKPOINTING]),
        ("2x2x2x1", ["--overlap", "cache", *MICRO_BATCHES, *CHECKPOINTING]),
        ("2x1x2x2", ["--prefetch", 4, *MICRO_BATCHES, *CHECKPOINTING])]

# Networks whose memory is mostly activations, which are summed over X.
WIDE = ["--layers", 8, "--hidden", 512, "--heads", 8, "--sequence", 256, "--batch", 32, "--micro-batch", 32]
LARGE = ["--config", TOP / "configs" / "gpt-124m.toml", "--sequence", 1024, "--layers", 48, "--hidden", 1600,
         "--heads", 20, "--batch", 16, "--micro-batch", 16]

# Kernels of ours on grids where X and Y are not 1.
GPT_KERNELS = ["update_adamw", "cross_entropy", "order_tokens", "sum_tokens"]
OWN = {"gpt": {"2x1x2x1": [*GPT_KERNELS, "sum_parts"], "1x2x1x1": GPT_KERNELS},
       "unet": {"2x1x1x1": ["update_adamw"], "1x2x1x1": ["update_adamw"]}}

for_gpt = unittest.skipUnless(program_runs.NAME == "gpt", "a network of gpt")


class Made:
    """A record of calls on communicators A and B, with the compute stream 0 and NCCL's stream 5."""

    def __init__(self, *events, rank=0):
        self.events = [Event("communicator", [str(i), name, str(rank), "2"]) for i, name in enumerate("AB")]
        self.events += [Event(*event) for event in events]


def call(communicator, what="4 of type 7", name="ncclAllReduce"):
    return "nccl", [name, what, communicator, "5"]


class WrongOrderTest(unittest.TestCase):
    def test_other_sizes_are_found(self):
        self.assertEqual(differences([Made(call("0")), Made(call("0"))]), [])
        self.assertEqual(len(differences([Made(call("0")), Made(call("0", "5 of type 7"))])), 1)
        self.assertEqual(len(differences([Made(call("0")), Made(call("0"), call("0"))])), 1)

    def test_messages_that_nobody_receives_are_found(self):
        sent, received = call("0", "4 of type 7 to 1", "ncclSend"), call("0", "4 of type 7 from 0", "ncclRecv")
        self.assertEqual(unanswered([Made(sent), Made(received, rank=1)]), [])
        self.assertEqual(len(unanswered([Made(sent), Made(rank=1)])), 1)
        self.assertEqual(len(unanswered([Made(sent, sent), Made(received, rank=1)])), 1)
        other = call("0", "5 of type 7 from 0", "ncclRecv")
        self.assertEqual(len(unanswered([Made(sent), Made(other, rank=1)])), 1)

    def test_launch_orders_in_a_circle_are_found(self):
        self.assertEqual(cycle([Made(call("0"), call("1")), Made(call("0"), call("1"))]), 0)
        self.assertEqual(cycle([Made(call("0"), call("1")), Made(call("1"), call("0"))]), 2)

    def test_an_update_that_does_not_wait_is_found(self):
        mark, join, update = ("mark", ["5", "e"]), ("join", ["0", "e"]), ("kernel", ["FusedAdam", "1", "1", "0"])
        self.assertEqual(not_joined(Made(call("0"), mark, join, update)), [])
        self.assertEqual(not_joined(Made(call("0"), mark, update, join)), ["ncclAllReduce"])
        self.assertEqual(not_joined(Made(mark, call("0"), join, update)), ["ncclAllReduce"])


class DryNcclTest(DryTest):
    def setUp(self):
        super().setUp()
        (self.directory / "text.txt").write_text("".join(f"line {i}, {i * i % 97}\n" for i in range(300)))

    def train(self, grid, *arguments, **options):
        ranks = 1
        for size in grid.split("x"):
            ranks *= int(size)
        return self.on_dry_gpu("train", *NETWORK[program_runs.NAME], "--out", grid, "--grid", grid, "--batch", 8,
                               "--steps", 3, "--validate-every", 0, "--save-every", 0, "--no-save-last", *arguments,
                               ranks=ranks, **options)

    def assert_order(self, records):
        self.assertTrue(calls(records[0]))
        self.assertEqual(differences(records), [])
        self.assertEqual(unanswered(records), [])
        self.assertEqual(cycle(records), 0)
        for record in records:
            self.assertEqual(not_joined(record), [])

    def assert_calls(self, grid, record):
        """The calls of a step and the communicators of a rank are what docs/gpu.md says."""
        step = collections.Counter(event.fields[0] for event in record.steps()[-2] if event.kind == "nccl")
        columns = ["ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce"]
        self.assert_row(f"NCCL, {grid}", program_runs.NAME, {column: step[column] for column in columns}
                        | {"communicators": len(record.of_kind("communicator"))})

    def test_order(self):
        for grid, arguments in RUNS:
            with self.subTest(grid=grid, arguments=arguments):
                records = self.train(grid, *arguments)
                self.assert_order(records)
                if (grid, arguments) == PLAIN:
                    self.assert_calls(grid, records[0])

    @for_gpt
    def test_order_with_divided_rows(self):
        """Rows of norms over X, which one sequence divides unevenly, and of queries over Y."""
        for grid, arguments in (("2x1x2x1", []), ("2x2x1x1", ["--attention-rows", "on", *CHECKPOINTING]),
                                ("2x1x1x1", ["--sequence", 15, *MICRO_BATCHES])):
            with self.subTest(grid=grid):
                records = self.train(grid, "--norm-rows", "on", *arguments)
                self.assert_order(records)
                names = {name for launch in calls(records[0]) for _, name, _ in launch}
                self.assertIn("ncclReduce" if "--sequence" in arguments else "ncclReduceScatter", names)

    @for_gpt
    def test_order_with_divided_sequences(self):
        """Keys and values go round, each beside what a rank attends, and the host waits for none of them."""
        for grid, *arguments in (("1x1x2x1", "--context", 2), ("1x1x4x1", "--context", 2, *CHECKPOINTING),
                                 ("1x2x2x1", "--context", 2, "--attention-rows", "on", *MICRO_BATCHES),
                                 ("2x1x4x1", "--context", 4, "--norm-rows", "on")):
            with self.subTest(grid=grid, arguments=arguments):
                records = self.train(grid, "--dtype", "bf16", *arguments)
                self.assert_order(records)
                for record in records:
                    step = record.steps()[-2]
                    self.assertEqual(dict(record.waits(step)), {})
                    self.assertEqual(attention(step), "flash")
                    sent = sum(event.kind == "nccl" and event.fields[0] == "ncclSend" for event in step)
                    self.assertGreater(sent, 0)

    @for_gpt
    def test_attention_of_divided_rows_is_flash(self):
        """The first rows of the first rank are a sequence by themselves, which LibTorch gives to cuDNN."""
        records = self.train("1x2x1x1", "--attention-rows", "on", "--dtype", "bf16")
        self.assertEqual([attention(record.steps()[-2]) for record in records], ["cuDNN + flash", "flash"])

    def test_order_with_own_kernels(self):
        for grid, own in OWN[program_runs.NAME].items():
            with self.subTest(grid=grid):
                records = self.train(grid, "--dtype", "bf16", *MICRO_BATCHES, *OWN_KERNELS)
                self.assert_order(records)
                kernels = {name for name, *_ in records[-1].of_kind("kernel")}
                for name in own:
                    self.assertTrue(any(name in kernel for kernel in kernels), name)

    def assert_memory_is_used_again(self, *arguments, **options):
        """The host is a step ahead of the device. Memory of a collective that the compute stream has waited for
        is free at once, not when the host sees the collective done: there is only what lies between tensors."""
        records = self.train("2x1x1x1", "--dtype", "bf16", *arguments, **options)
        for record in records:
            self.assertLess(record.device_bytes, 1.2 * self.peak_bytes("2x1x1x1"))

    @for_gpt
    def test_memory_is_used_again(self):
        self.assert_memory_is_used_again(*WIDE)

    @for_gpt
    @program_runs.nightly
    def test_memory_of_a_large_network_is_used_again(self):
        self.assert_memory_is_used_again(*LARGE, seconds=400)


if __name__ == "__main__":
    unittest.main()
