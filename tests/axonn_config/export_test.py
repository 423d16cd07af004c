"""A layout in the words of other programs is read back as the same layout."""
import json
import tomllib
import unittest

from planner_runs import PlannerTest
from public_models import MODELS

JOB = ("--model", "gpt5b", "--machine", "dgx-a100", "--batch", "512")


class Export(PlannerTest):
    def exported(self, grid, program, *more):
        return self.run_program("export", grid, *JOB, "--to", program, *more).stdout

    def test_comes_back_as_the_same_layout(self):
        for grid, gpus in (("1x1x64x1", 64), ("8x1x1x8", 64), ("4x1x8x2", 64), ("2x1x8x4", 64), ("1x1x16x1", 16)):
            for program in ("megatron", "torchtitan", "deepspeed"):
                for checkpoint in ("on", "off"):
                    more = ("--micro-batch", "1", "--checkpoint", checkpoint, "--memory-margin", "0")
                    file = self.write("layout", self.exported(grid, program, *more))
                    text = self.run_program("import", file, "--from", program, "--gpus", gpus).stdout
                    self.assertEqual(text, f"{grid} --batch 512 --micro-batch 1 --checkpoint {checkpoint}\n", program)
                    blocks = self.exported(grid, program, *more, "--what-if", "block-messages")
                    self.assertEqual(blocks, self.exported(grid, program, *more))
                    if (grid, program) == ("4x1x8x2", "torchtitan"):
                        self.run_program("explain", *text.split(), "--model", "gpt5b", "--memory-margin", "0",
                                         "--machine", "dgx-a100")

    def test_of_a_divided_context_comes_back_too(self):
        more = ("--micro-batch", "1", "--checkpoint", "on", "--memory-margin", "0", "--context")
        for grid, programs in (("4x1x16x1", ("megatron", "torchtitan")), ("2x1x8x4", ("megatron", "torchtitan")),
                               ("8x1x1x8", ("megatron",))):
            for program in programs:
                on_data = grid.split("x")[2] == "1"
                for context, gathers in (("8", ""), ("4", "gather-keys")):
                    theirs = ",".join(filter(None, (gathers, "context-over-data" if on_data else "")))
                    words = (context, *(("--what-if", theirs) if theirs else ()))
                    file = self.write("layout", self.exported(grid, program, *more, *words))
                    text = self.run_program("import", file, "--from", program, "--gpus", "64").stdout
                    self.assertEqual(text, f"{grid} --batch 512 --micro-batch 1 --checkpoint on "
                                     f"--context {' '.join(words)}\n", program)
        self.run_program("explain", *text.split(), "--model", "gpt5b", "--memory-margin", "0", "--machine", "dgx-a100")
        titan = tomllib.loads(self.exported("2x1x8x4", "torchtitan", *more, "4"))["parallelism"]
        self.assertEqual((titan["data_parallel_shard_degree"], titan["context_parallel_degree"],
                          titan["context_parallel_rotate_method"]), (2, 4, "alltoall"))
        words = self.exported("8x1x1x8", "megatron", *more, "8", "--what-if", "context-over-data").split()
        self.assertEqual(words[words.index("--context-parallel-size") + 1], "8")
        self.assertEqual(words[words.index("--cp-comm-type") + 1], "p2p")
        for grid, program, what, message in (
                ("8x1x1x8", "torchtitan", "8 --what-if context-over-data", "grid 8x1x1x8 needs a z that divides by 8"),
                ("1x1x64x1", "deepspeed", "8", "remove --context"),
                ("1x1x64x1", "megatron", "8 --what-if zero2", "only gather-keys, context-over-data"),
                ("4x1x4x4", "megatron", "8", "z % context"), ("8x1x1x8", "megatron", "8", "z % context")):
            self.refuse("export", grid, *JOB, "--to", program, "--context", *what.split(), words=[message])

    def test_what_import_prints_is_accepted(self):
        """Files as users of the programs write them, which leave out what follows from the rest."""
        recompute = "--recompute-granularity selective"
        for program, text, words in (
                ("torchtitan", "[training]\nlocal_batch_size = 2\n", "1x1x64x1 --batch 128 --micro-batch 2"),
                ("torchtitan", "[training]\nlocal_batch_size = 2\nglobal_batch_size = -1 # the least\n"
                 "[parallelism]\ndata_parallel_replicate_degree = 8", "1x1x8x8 --batch 128 --micro-batch 2"),
                ("torchtitan", "[parallelism]\ncontext_parallel_degree = 8", "1x1x64x1 --batch 8 --micro-batch 1"),
                ("megatron", "--tensor-model-parallel-size=4 \\\n --micro-batch-size=2", "4x1x1x16 --batch 32 "),
                ("megatron", f"--tensor-model-parallel-size 8 --global-batch-size 64 {recompute}",
                 "8x1x1x8 --batch 64 --micro-batch 1 --checkpoint selective"),
                ("deepspeed", '{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}',
                 "1x1x64x1 --batch 128 --micro-batch 2"),
                ("deepspeed", '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, '
                 '"gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3}}', "1x1x64x1 --batch 512 "),
                ("deepspeed", '{"train_batch_size": 512, "gradient_accumulation_steps": 4, "zero_optimization": '
                 '{"stage": 3}}', "1x1x64x1 --batch 512 --micro-batch 2")):
            with self.subTest(program=program, text=text):
                job = ("import", self.write("file", text), "--from", program, "--gpus", "64")
                bare = self.run_program(*job).stdout
                self.assertIn(words, bare)
                network = ("--model", "gpt5b", "--machine", "dgx-a100", "--memory-margin", "0")
                whole = self.run_program(*job, *network).stdout.split()
                self.assertEqual(sorted(whole), sorted(["axonn-config", "explain", *bare.split(), *network]))
                self.run_program(*whole[1:])
        self.refuse("import", self.write("file", "--micro-batch-size 8 --global-batch-size 96"), "--from", "megatron",
                    "--gpus", "64", words=["a batch of 96 sequences must divide by the 64 ranks", "micro-batch of 8"])
        self.refuse("import", self.write("file", '[activation_checkpoint]\nmode = "selective"'), "--from", "torchtitan",
                    "--gpus", "64", words=["'activation_checkpoint.mode' is selective", "give full or none"])

    def test_no_command_that_explain_would_refuse_is_printed(self):
        llama = next(model["config"] for model in MODELS if model["name"] == "llama-3.1-405b")
        self.write("config.json", json.dumps(llama))
        replicas = ("import", self.write("file", "--micro-batch-size 2"), "--from", "megatron", "--gpus", "8")
        self.assertFalse(self.run_program(*replicas).stdout.startswith("axonn-config"))
        words = "the file describes 1x1x1x8 --batch 16 --micro-batch 2 --checkpoint off; explain refuses that: "
        for network, why in ((["--model", "config.json", "--sequence", "8192"], "(memory)"),
                             (["--model", "gpt80b"], "(memory)"), (["--model", "unet4b"], "(memory)"),
                             (["--layers", "2"], "hidden"),
                             (["--model", "config.json"], "--sequence"), (["--model", "none"], "unknown model")):
            with self.subTest(network):
                self.refuse(*replicas, *network, words=[words, why])
        split = ("import", self.write("file", "--context-parallel-size 8"), "--from", "megatron", "--gpus", "8")
        self.refuse(*split, "--model", "unet-cifar", words=["explain refuses that: ", "are for transformers"])
        self.refuse(*split, "--model", "gpt5b", "--sequence", "24", words=["needs a --sequence that divides by 16"])

    def test_uses_the_words_of_each_program(self):
        words = self.exported("4x1x8x2", "megatron", "--micro-batch", "2", "--checkpoint", "on").split()
        for key, value in (("--tensor-model-parallel-size", "4"), ("--micro-batch-size", "2"),
                           ("--global-batch-size", "512"), ("--recompute-granularity", "full")):
            self.assertEqual(words[words.index(key) + 1], value)
        self.assertNotIn("--sequence-parallel", words)
        norms = self.exported("4x1x8x2", "megatron", "--micro-batch", "2", "--checkpoint", "on", "--norm-rows", "on")
        self.assertIn("--sequence-parallel", norms.split())
        text = self.run_program("import", self.write("layout", norms), "--from", "megatron", "--gpus", "64").stdout
        self.assertEqual(text, "4x1x8x2 --batch 512 --micro-batch 2 --checkpoint on --norm-rows on\n")
        self.refuse("export", "4x1x8x2", *JOB, "--to", "deepspeed", "--norm-rows", "on",
                    words=["computes norms on all ranks of a tensor group: remove --norm-rows"])
        titan = tomllib.loads(self.exported("4x1x8x2", "torchtitan", "--micro-batch", "2"))
        self.assertEqual((titan["parallelism"]["data_parallel_shard_degree"],
                          titan["parallelism"]["data_parallel_replicate_degree"],
                          titan["parallelism"]["tensor_parallel_degree"], titan["training"]["local_batch_size"]),
                         (8, 2, 4, 2))
        speed = json.loads(self.exported("4x1x8x2", "deepspeed", "--micro-batch", "2"))
        self.assertEqual(speed["zero_optimization"], {"stage": 3, "mics_shard_size": 8})
        self.assertEqual(speed["train_batch_size"], speed["train_micro_batch_size_per_gpu"] *
                         speed["gradient_accumulation_steps"] * 16)

    def test_mistakes_are_one_sentence(self):
        self.refuse("export", "2x2x4x1", *JOB, "--to", "megatron", words=["megatron has no axis y: grid 2x2x4x1"])
        self.refuse("export", "1x1x8x1", *JOB, "--to", "alpa", words=["--to", "megatron, torchtitan, deepspeed"])
        self.refuse("import", "none", "--from", "megatron", "--gpus", "8", words=["cannot read none"])
        for program, text, words in (("megatron", "--tensor-model-parallel-size 3", "8 GPUs must divide by"),
                                     ("megatron", "--micro-batch-size x", "'micro-batch-size' must be a whole number"),
                                     ("torchtitan", "[parallelism]\ntensor_parallel_degree = 16", "8 GPUs must divide"),
                                     ("torchtitan", "[parallelism]\npipeline_parallel_degree = 2", "pipeline"),
                                     ("torchtitan", "[parallelism]\nexpert_parallel_degree = 2", "no grid of ours"),
                                     ("torchtitan", "[parallelism]\ncontext_parallel_degree = 3", "x 1 x 3"),
                                     ("torchtitan", '[parallelism]\ncontext_parallel_degree = 2\n'
                                      'context_parallel_rotate_method = "x"', "give alltoall or allgather"),
                                     ("megatron", "--pipeline-model-parallel-size 2", "no grid of ours"),
                                     ("megatron", "--expert-model-parallel-size 2", "no grid of ours"),
                                     ("megatron", "--context-parallel-size 2 --cp-comm-type a2a", "p2p or all_gather"),
                                     ("megatron", "--context-parallel-size 3", "a context of 3 ranks must divide"),
                                     ("deepspeed", '{"sequence_parallel_size": 2}', "no grid of ours"),
                                     ("torchtitan", "[parallelism]\ndata_parallel_shard_degree = 2", "2"),
                                     ("deepspeed", "[]", "no JSON object"), ("deepspeed", "{", "no JSON object"),
                                     ("deepspeed", '{"tensor_parallel": {"autotp_size": 0}}', "from 1")):
            self.refuse("import", self.write("file", text), "--from", program, "--gpus", "8", words=[words])


if __name__ == "__main__":
    unittest.main()
