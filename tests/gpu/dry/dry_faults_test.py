"""A GPU that fails ends the run with one sentence that names what failed."""
import re
import time
import unittest

import program_runs
from dry_gpu import DryTest, environment

TRAINING = ["train", "--layers", 2, "--hidden", 64, "--heads", 4, "--sequence", 16, "--data", "text.txt",
            "--out", "run", "--batch", 8, "--steps", 3, "--validate-every", 0, "--save-every", 0, "--device", "cuda"]
MOST_LOGITS = ["--vocab", 50257, "--sequence", 1024, "--batch", 32, "--validation-fraction", 0, "--dtype", "bf16"]


class DryFaultsTest(DryTest):
    def setUp(self):
        super().setUp()
        (self.directory / "text.txt").write_text("".join(f"line {i}, {i * i % 97}\n" for i in range(300)))

    def assert_fails(self, function, *words, ranks=1):
        ended = self.run_program(*TRAINING, *(["--grid", "2x1x1x1"] if ranks == 2 else []), ranks=ranks, launcher="tcp",
                                 environment=environment(fail=function, devices=ranks))
        self.assertNotEqual(ended.status, 0, ended.text)
        for word in words:
            self.assertIn(word, ended.text)
        return ended

    def test_memory(self):
        """More than was predicted: the loss computes in fp32, and keeps it for the backward."""
        ended = self.run_program(*TRAINING, *MOST_LOGITS, environment=environment(memory_gb=12))
        self.assertNotEqual(ended.status, 0, ended.text)
        self.assertIn("out of memory", ended.text)

    def test_a_network_that_is_too_large(self):
        ended = self.run_program(*TRAINING, "--layers", 48, "--hidden", 1600, "--heads", 25,
                                 environment=environment(memory_gb=16))
        self.assert_refused(ended, "a rank needs at least", "and its GPU has 16.00 GiB", "not even one row fits",
                            "--dry-run")
        self.assertFalse((self.directory / "run" / "metrics.jsonl").exists())

    def test_the_largest_micro_batch_that_fits(self):
        """One that is named is taken, though it need not end well; the next larger divisor of the batch is refused."""
        run = lambda rows: self.run_program(*TRAINING, *MOST_LOGITS, "--batch", 48, "--micro-batch", rows,
                                            environment=environment(memory_gb=4))
        for rows in (48, 16):
            self.assert_refused(run(rows), "a rank needs at least",
                                "choose --micro-batch 12, the largest micro-batch that fits")
        self.assertNotIn("a rank needs", run(12).text)

    def test_a_loss_in_place_of_the_logits_needs_less(self):
        run = lambda *more: self.run_program(*TRAINING, *MOST_LOGITS, *more, environment=environment(memory_gb=8))
        self.assert_refused(run(), "a rank needs at least")
        ended = run("--kernels", "cross-entropy")
        self.assertEqual(ended.status, 0, ended.text)

    def test_kernel(self):
        self.assert_fails("kernel:100", "illegal memory access")

    def test_a_norm_that_is_not_finite(self):
        """Each step reads the parts of the loss, their sums, and the norm, while the next step is under way."""
        ended = self.run_program(*TRAINING, environment=environment(fail="number:6"))
        self.assert_refused(ended, "the gradient (every loss is finite) is not finite in step 2, which has changed")
        self.assertEqual([line["step"] for line in program_runs.metrics(self.directory / "run")], [1])

    def test_nccl_call(self):
        self.assert_fails("ncclAllReduce:5", "ncclAllReduce", "unhandled cuda error", ranks=2)

    def test_nccl_start(self):
        self.assert_fails("ncclCommInitRank:1", "ncclCommInitRank of group", "invalid usage", ranks=2)

    def start_pair(self, of_rank, *arguments, devices=1, **more):
        """Two ranks, each with environment variables of its own."""
        job = environment(devices=devices, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(program_runs.free_port()), **more)
        return self.start(*TRAINING, "--grid", "2x1x1x1", *arguments, ranks=2, environment=job,
                          launcher=lambda rank: {"RANK": str(rank)} | of_rank(rank))

    def pair(self, of_rank, devices=1):
        return self.start_pair(of_rank, devices=devices).wait(program_runs.RUN_SECONDS)

    def test_a_collective_that_hangs(self):
        """Rank 1's device hangs in a kernel of step 8, and rank 0's in the first all-reduce after it."""
        hangs = ["ncclAllReduce:100", "kernel:900"]
        ended = self.start_pair(lambda rank: {"DRY_GPU_HANG": hangs[rank]}, "--steps", 20, devices=2,
                                AXONN_TIMEOUT_SECONDS="2").wait(20)
        self.assertEqual(ended.status, 1, ended.text)
        why = r"all-reduce #\d+ of group 'x' .* made no progress for 2 s: rank 1's device has not come to it"
        self.assertEqual(len(re.findall(f"error 0/2 .*{why}", ended.text)), 1, ended.text)
        self.assertRegex(ended.text, f"gpt: {why}")  # rank 0 comes back
        self.assertRegex(ended.text, f"error 1/2 .*{why}; rank 1's program did not come back within 5 s")
        self.assertLess(ended.seconds, 2 + 10 + 5)
        self.assertEqual(len(program_runs.metrics(self.directory / "run")), 7)
        self.assertTrue((self.directory / "run" / "flight" / "rank-0001.jsonl").exists())

    def test_a_rank_that_cannot_join(self):
        """A communicator is made in the middle of the first step. NCCL waits for all members, on the other rank."""
        fault = [{"DRY_GPU_FAIL": "ncclCommInitRank:1"}, {"DRY_GPU_HANG": "ncclCommInitRank:1"}]
        ended = self.start_pair(lambda rank: fault[rank], devices=2).wait(20)
        self.assertEqual(ended.status, 1, ended.text)
        self.assertIn("gpt: ncclCommInitRank of group 'x' (rank 0 of 2): invalid usage", ended.text)
        self.assertRegex(ended.text, r"\[rank 1\] gpt: .*rank 0")
        self.assertNotIn("did not come back", ended.text)
        self.assertLess(ended.seconds, program_runs.refusal_seconds())

    def test_a_rank_that_is_lost(self):
        """Its partner waits for a device whose all-reduce never ends, and comes back."""
        hangs = [{"DRY_GPU_HANG": "ncclAllReduce:100"}, {}]
        job = self.start_pair(lambda rank: hangs[rank], "--steps", 100000, devices=2)
        time.sleep(8)
        job.processes[1].kill()
        ended = job.wait(program_runs.REFUSAL_SECONDS)
        self.assertRegex(ended.text, "gpt: .*rank 1")
        self.assertEqual(len(program_runs.metrics(self.directory / "run")), 7)

    def test_ranks_that_share_a_gpu(self):
        self.assert_refused(self.pair(lambda rank: {}), "ranks 0 and 1 share the GPU 0000:00:00.0 of", "NCCL_HOSTID")

    def test_ranks_that_share_a_gpu_on_purpose(self):
        ended = self.pair(lambda rank: {"NCCL_HOSTID": f"r{rank}"})
        self.assertEqual(ended.status, 0, ended.text)

    def test_gpus_of_two_kinds(self):
        ended = self.pair(lambda rank: {"DRY_GPU_ARCH": str(80 + 10 * rank)}, devices=2)
        self.assert_refused(ended, "the GPUs of ranks 0 and 1 are of different kinds", "(sm_80)", "(sm_90)")

    def test_ranks_that_would_start_nccl_in_other_ways(self):
        for variable, values, words in (("AXONN_NCCL_RANKS_PER_ROOT", ("128", "2"), "AXONN_NCCL_RANKS_PER_ROOT = 2 and "
                                         "rank 0 has 128"),
                                        ("DRY_GPU_NCCL", ("22300", "21800"), "NCCL = 2.18 to 2.22 and rank 0 has 2.23 "
                                         "or newer")):
            with self.subTest(variable):
                ended = self.pair(lambda rank: {variable: values[rank]}, devices=2)
                self.assert_refused(ended, f"rank 1 has {words}")

    def test_a_gpu_without_code(self):
        for arch, fits in (("75", False), ("120", True)):
            ended = self.run_program(*TRAINING, environment=environment(DRY_GPU_ARCH=arch))
            if fits:
                self.assertEqual(ended.status, 0, ended.text)
            else:
                self.assert_refused(ended, "is of kind sm_75, and this build has code from sm_80 on",
                                    "-DCMAKE_CUDA_ARCHITECTURES=75")

    def test_no_device(self):
        ended = self.run_program(*TRAINING, environment=environment(devices=0))
        self.assert_refused(ended, "this machine has no CUDA device")


if __name__ == "__main__":
    unittest.main()
