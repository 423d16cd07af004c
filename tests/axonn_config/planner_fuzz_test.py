"""Random command lines and damaged files never crash axonn-config.

It exits with 0, 1 or 2, and prints one sentence if the status is not 0. AXONN_FUZZ_RUNS is the number
of command lines per test; it is meant for builds with sanitizers (preset planner-asan). AXONN_FUZZ_SEED
is the seed."""
import json
import os
import random
import re
import subprocess
import unittest

from planner_runs import PROGRAM, PlannerTest

RUNS = int(os.environ.get("AXONN_FUZZ_RUNS", "120"))
SEED = int(os.environ.get("AXONN_FUZZ_SEED", "1"))
NUMBERS = ["0", "1", "-1", "2", "3", "7", "8", "64", "1024", "4096", "65535", "2147483647", "2147483648",
           "9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e308", "-1e308", "1e-308", "1e400",
           "0.5", "nan", "inf", "-inf", "0x10", "1k", "4M", "8000000000G", "", " ", "é", "1,2", "1,,2"]
GRIDS = ["1x1x8x1", "2x2x2x1", "1x1x1x8", "2x1x4x1", "0x1x1x8", "-1x1x1x1", "2147483647x2147483647x1x1", "1x1", "x",
         "1x1x1x1x1", "3x1x1x1", "8x1x1x1", "1x4x2x1"]
MATRICES = ["2x4", "[[2 2] [2 2]]", "2x1,1x4", "16", "[[", "2x2x2", "0x4", "-1x2", "9999999999x2", "1", "[[1 1] [1 1]]",
            "", "2x4,", "1x1x1x1x1x1x1x1x1x1", "65536x65536", "64x4"]
PROGRAMS = ["all-reduce:0-7", "all-reduce:0+1", "reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7",
            ":", "all-reduce:", "all-reduce:0-9999999999", "broadcast:7-0", "all-reduce:0-7@0", "all-reduce:0-7@-1",
            "reduce:0+0", "a/b/c", "all-gather:0-7/all-gather:0-7", "all-reduce:0-4294967295@1"]
NAMES = {
    "--model": ["gpt5b", "gpt-124m", "gpt-tiny", "unet-tiny", "unet-cifar", "unet2b", "gpt", "", "x.toml", "x.json",
                "network.toml", "unet.toml", "config.json", "experts.json", "/", "..toml"],
    "--machine": ["perlmutter", "workstation", "dgx-h100", "frontier", "alps", "machine.toml", "none.toml", "", "/",
                  "./"],
    "--mode": ["exact", "aware", "agnostic", "measured", "x"],
    "--coefficients": ["trainer", "paper", "authors", ""],
    "--objective": ["time", "communication", "memory", "cost", "x"],
    "--order": ["zxyd", "xyzd", "xy", "xxyz", "dzyx", ""],
    "--fix": ["x=2", "y=1,z=4", "data=0", "x", "=", "w=1", "z=99999999999"],
    "--precision": ["bf16", "fp32", "fp64,fp16", "bf16,bf16", "x", ","],
    "--checkpoint": ["on", "off", "auto", "selective", "stopped", "x"],
    "--what-if": ["moments=int8,logits-chunks=8", "moments=", "logits-chunks=0",
                  "pipeline=2", "gather-keys", "context-over-data", "gather-keys,context-over-data,zero2", "zero2",
                  "block-messages", "pipeline=4,chunks=2", "pipeline=0", "zero", "pipeline", ",", "context=2"],
    "--context": ["1", "2", "4", "8", "3", "1024", "0", "x", ""],
    "--norm-rows": ["on", "auto", "off", "x"],
    "--overlap": ["all", "none", "cache,buckets", ",", "x"],
    "--optimizer": ["adamw", "sgd", "sgd-momentum", "x"],
    "--reduction": ["auto", "ring", "x"],
    "--launcher": ["srun", "mpirun", "x"],
    "--plot": ["out.svg", "/nowhere/out.svg", "."],
    "--measurements": ["measured.csv", "none.csv", "."],
}
SIZES = ["--gpus", "--batch", "--batch-tokens", "--layers", "--hidden", "--heads", "--sequence", "--vocab", "--image",
         "--channels", "--base", "--multipliers", "--blocks", "--attention", "--groups", "--classes", "--min-tensor",
         "--max-tensor", "--micro-batch", "--memory-margin", "--top"]
BARE = ["--json", "--csv", "--tied", "--scale-shift", "--learned-variance", "--verbose", "--sensitivity", "--help",
        "--version",
        "--", "-", "--mod", "explain", "launch"]
SMALL = ["1", "2", "4", "8", "12", "16", "32", "64", "128", "256"]

NETWORK = ('[model]\nmodel = "gpt-124m"\nlayers = 12\nhidden = 768\nheads = 12\nsequence = 1024\nvocab = 50257\n'
           "tied = true\ndropout = 0.1\n\n[train]\nbatch = 512\n")
UNET = ("[model]\nimage = 32\nchannels = 3\nbase = 128\nmultipliers = [1, 2, 2]\nblocks = 2\nattention = [16, 8]\n"
        "heads = 4\ngroups = 32\nclasses = 10\nscale_shift = true\nlearned_variance = false\n")
CONFIG = ('{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, '
          '"vocab_size": 50257, "tie_word_embeddings": true}')
EXPERTS = ('{"model_type": "qwen2_moe", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, '
           '"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "max_position_embeddings": 1024, '
           '"vocab_size": 512, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, '
           '"shared_expert_intermediate_size": 64, "use_sliding_window": true, "sliding_window": 128, '
           '"max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention"]}')
RUNS_CSV = ("machine,grid,batch,micro_batch,checkpointed,layers,hidden,heads,sequence,vocabulary,pipeline,seconds\n"
            "dgx-a100,1x1x8x1,64,1,0,4,512,8,512,1000,1,1.5\ndgx-a100,1x1x8x1,64,2,1,4,512,8,512,1000,1,2.5\n"
            "dgx-a100,8x1x1x1,64,2,selective,4,512,8,1024,1000,2,2.5\n"
            "dgx-a100,best,64,2,stopped,4,512,8,512,1000,1,3\n")
FOREIGN = {"megatron": "--tensor-model-parallel-size 2\n--micro-batch-size 1\n--use-torch-fsdp2\n"
                       "--context-parallel-size 2\n",
           "torchtitan": "[training]\nlocal_batch_size = 2\n[parallelism]\ntensor_parallel_degree = 2\n"
                         "context_parallel_degree = 2\n",
           "deepspeed": '{"train_batch_size": 64, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}'}
MEASURED = "# grid,seconds\n1x1x8x1,1.5\n2x1x4x1,2\n"


class PlannerFuzz(PlannerTest):
    def setUp(self):
        super().setUp()
        self.noise = random.Random(f"{SEED} {self._testMethodName}")
        machine = self.run_program("machine", "perlmutter").stdout
        self.texts = {"machine.toml": machine, "network.toml": NETWORK, "unet.toml": UNET, "config.json": CONFIG,
                      "experts.json": EXPERTS,
                      "measured.csv": MEASURED, "runs.csv": RUNS_CSV, **FOREIGN}
        for name, text in self.texts.items():
            self.write(name, text)

    def hold(self, line):
        """Runs one command line: it must end with a result or with one sentence."""
        ended = subprocess.run([PROGRAM, *line], cwd=self.directory, capture_output=True, timeout=60)
        out, err = ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace")
        context = (f"{line}\n" + "\n".join(f"--- {name}\n{(self.directory / name).read_bytes()!r}"
                                           for name in self.texts if name in line) + f"\n{err}")
        self.assertIn(ended.returncode, (0, 1, 2), context)
        if ended.returncode == 0:
            self.assertEqual(err, "", context)
        else:
            self.assertTrue(err.startswith("axonn-config: ") and err.endswith("\n") and err.count("\n") == 1, context)
        if "--json" in line and out.startswith("{"):
            for layout in json.loads(out).get("layouts", []):
                self.assertTrue(0 < layout["seconds"] and 0 <= layout["communication_seconds"]
                                and 0 < layout["memory_bytes"], context)
        self.statuses[ended.returncode] = self.statuses.get(ended.returncode, 0) + 1

    def try_lines(self, make):
        self.statuses = {}
        for _ in range(RUNS):
            self.hold(make())
        self.assertGreater(self.statuses.get(2, 0), 0)
        self.assertGreater(self.statuses.get(0, 0), 0, "nothing was said rightly: the noise is too loud")

    def value(self, flag):
        pick = self.noise.choice
        if flag in NAMES:
            return pick(NAMES[flag][:3] if self.noise.random() < 0.7 else NAMES[flag])
        return pick(SMALL) if self.noise.random() < 0.7 else pick(NUMBERS)

    def flags(self, names, most):
        line = []
        for flag in self.noise.sample(names, self.noise.randrange(most + 1)):
            line += [flag, self.value(flag)] if self.noise.random() < 0.9 else [f"{flag}={self.value(flag)}"]
        return line

    def test_of_any_flags(self):
        def line():
            command = self.noise.choice([[], [], [], ["explain", self.noise.choice(GRIDS)],
                                         ["launch", self.noise.choice(GRIDS)],
                                         ["export", self.noise.choice(GRIDS), "--to",
                                          self.noise.choice([*FOREIGN, "x"])]])
            usual = ([] if self.noise.random() < 0.1 else
                     ["--model", self.value("--model")] + ([] if command else ["--gpus", self.value("--gpus")]))
            line = command + usual + self.flags([*SIZES, *NAMES], 3)
            return line + [self.noise.choice(BARE)] if self.noise.random() < 0.4 else line

        self.try_lines(line)

    def test_of_any_reduction(self):
        def line():
            line = [self.noise.choice(["simulate", "synthesize"]), self.noise.choice(MATRICES)]
            values = {"--reduce": NUMBERS, "--machine": NAMES["--machine"], "--bytes": NUMBERS,
                      "--algorithm": ["ring", "tree", "x"], "--collapse": ["hardware", "paper", "x"],
                      "--program": PROGRAMS, "--synth": ["full", "paper", "x"],
                      "--goal": ["all-reduce", "reduce-scatter", "scatter", "x"],
                      "--limit": ["1", "3", "4", "-1", "99"], "--top": NUMBERS}
            for flag in self.noise.sample(list(values), self.noise.randrange(4)):
                line += [flag, self.noise.choice(values[flag])]
            return line + (["--json"] if self.noise.random() < 0.5 else [])

        self.try_lines(line)

    def damaged(self, text):
        noise, lines = self.noise, text.split("\n")
        for _ in range(noise.randrange(1, 4)):
            kind, at = noise.randrange(7), noise.randrange(len(lines))
            if kind == 0:
                lines[at] = re.sub(r"-?\d+(\.\d+)?", lambda _: noise.choice(NUMBERS), lines[at], count=1)
            elif kind == 1:
                del lines[at]
                lines = lines or [""]
            elif kind == 2:
                lines.insert(at, noise.choice(lines))
            elif kind == 3:
                lines[at] = re.sub(r"= .*", lambda _: "= " + noise.choice(
                    ["true", '"text"', "[1, 2]", "[]", "{}", "1979-05-27", "[[1]]", "''", "{a = 1}"]), lines[at])
            elif kind == 4 and lines[at]:
                where = noise.randrange(len(lines[at]))
                lines[at] = lines[at][:where] + noise.choice("0-9=[]\n\"x.{}é\x00\\") + lines[at][where + 1:]
            elif kind == 5:
                lines = lines[:at + 1]
            else:
                lines[at] = noise.choice(["[gpu]", "[[level]]", "[[measured]]", "[model]", "[[model]]", "x = 1",
                                          "{" * 300, "[" * 3000])
        return "\n".join(lines)

    def test_of_damaged_files(self):
        def line():
            name = self.noise.choice(list(self.texts))
            self.write(name, self.damaged(self.texts[name]))
            if name == "machine.toml":
                return self.noise.choice([["machine", name],
                                          ["--machine", name, "--gpus", "64", "--model", "gpt5b", "--top", "2",
                                           "--json"],
                                          ["--machine", name, "--gpus", "8", "--model", "gpt-124m",
                                           "--mode", "measured"],
                                          ["explain", "2x1x4x1", "--model", "unet-tiny", "--machine", name],
                                          ["synthesize", "2x4", "--machine", name]])
            if name == "runs.csv":
                return self.noise.choice([["fit", name, "--out", "fitted.toml"], ["validate", name, "--json"],
                                          ["fit", name, "--machine", "workstation"], ["validate", name, "--verbose"]])
            if name in FOREIGN:
                return ["import", name, "--from", name, "--gpus", self.noise.choice(NUMBERS + ["8"] * 20)]
            if name == "measured.csv":
                return ["--gpus", "8", "--model", "gpt-tiny", "--plot", "out.svg", "--measurements", name]
            return self.noise.choice([["--gpus", "8", "--model", name, "--json"],
                                      ["explain", "1x1x8x1", "--model", name], ["launch", "1x1x8x1", "--model", name]])

        self.try_lines(line)


if __name__ == "__main__":
    unittest.main()
