"""Wrong command lines, and jobs that fit nowhere, get an error of one sentence."""
import json
import re
import shlex
import unittest

from planner_runs import PlannerTest
from public_models import MODELS

HUGE = "9223372036854775807"
MACHINE = """[gpu]
memory_gib = 16
memory_bandwidth_gbps = 900
bf16_tflops = 100

[[level]]
size = 8
bandwidth_gbps = 50

[[level]]
bandwidth_gbps = 12.5
"""


class PlannerErrors(PlannerTest):
    JOB = ("--gpus", "8", "--model", "gpt-124m", "--batch-tokens", "64k")

    def test_counts_that_fit_no_grid_name_the_nearest_that_do(self):
        self.refuse("--gpus", "44", "--model", "gpt-124m", "--batch-tokens", "64k", status=1,
                    words=["no grid of 44 GPUs fits gpt-124m", "the nearest counts that have one: 36 and 48"])

    def test_batches_that_fit_no_grid_name_the_nearest_that_do(self):
        job = ("--gpus", "96", "--model", "gpt5b", "--machine", "dgx-a100")
        self.refuse(*job, status=1, words=["the nearest batches that have one: 2016 and 2112 sequences (--batch 2112)"])
        self.assertTrue(self.plan(*job, "--batch", "2112")["layouts"])
        self.assertTrue(self.plan(*job, "--batch", "2016")["layouts"])
        # Heads that no grid of 11 nodes divides: no batch helps.
        self.refuse("--gpus", "44", "--model", "gpt-124m", "--batch-tokens", "64k", "--fix", "x=11", status=1,
                    words=["with heads % x != 0; no count near it has one"])

    def test_flags_that_would_be_ignored(self):
        self.refuse(*self.JOB, "--measurements", "none.csv", words=["--measurements", "--plot"])
        self.refuse(*self.JOB, "--csv", "--json", words=["--csv", "--json"])
        self.refuse(*self.JOB, "--fix", "x=2,x=4", words=["--fix has axis x twice"])
        self.refuse(*self.JOB, "--mode", "aware", "--reduction", "ring", words=["--reduction is for mode exact"])
        for flag, value in (("--gpus", "8"), ("--top", "3"), ("--min-tensor", "2"), ("--max-tensor", "8"),
                            ("--fix", "x=2"), ("--knee", "0.5"), ("--plot", "a.svg")):
            for command in ("explain", "launch"):
                self.refuse(command, "1x1x4x2", "--model", "gpt-124m", flag, value, words=[f"unknown flag '{flag}'"])
        self.write("m.csv", "1x1x1x8,3\n1x1x2x8,3\n")
        ended = self.run_program(*self.JOB, "--plot", "a.svg", "--measurements", "m.csv", status=2)
        self.assertIn("m.csv has grid 1x1x2x8, which is not among the", ended.stderr)

    def test_what_comes_next_is_quoted_for_a_shell(self):
        self.write("my net's.toml", "[model]\nmodel = 'gpt-124m'\n")
        text = self.run_program("--gpus", "8", "--batch-tokens", "64k", "--model", "my net's.toml").stdout
        command = shlex.split(re.search(r"next: (axonn-config explain .*)", text)[1])
        self.assertIn("my net's.toml", command)
        self.run_program(*command[1:])

    def test_no_list_of_names_has_an_empty_item(self):
        texts = [self.run_program("--help").stdout, self.run_program("--gpus", "8", status=2).stderr,
                 self.run_program("--gpus", "8", "--model", "none", status=2).stderr]
        for text in texts:
            self.assertIn("unet4b", text)
            self.assertNotRegex(" ".join(text.split()), r"[;,] ?[;,]")

    def test_no_command_is_suggested_that_would_be_refused(self):
        for name, file in (("llama-2-7b", "config.json"), ("mixtral-8x7b", "sparse.json")):
            self.write(file, json.dumps(next(model["config"] for model in MODELS if model["name"] == name)))
        lines = [["--gpus", "64", "--model", "config.json", "--sequence", "4096"],
                 ["--gpus", "256", "--machine", "dgx-h200", "--model", "sparse.json", "--sequence", "4096"],
                 ["--gpus", "64", "--model", "gpt5b"],
                 ["--gpus", "8,16,32", "--model", "gpt5b"], ["--gpus", "8", "--model", "unet-cifar"],
                 ["--gpus", "64", "--model", "gpt5b", "--checkpoint", "selective"],
                 ["--gpus", "64", "--model", "gpt5b", "--norm-rows", "on"],
                 ["--gpus", "64", "--model", "gpt5b", "--what-if", "block-messages"],
                 ["--gpus", "64", "--model", "gpt5b", "--objective", "memory", "--sensitivity"]]
        launched = []
        for line in lines:
            text = self.run_program(*line).stdout
            suggested = re.findall(r"^(?:next:|     ) (axonn-config .*)$", text, re.MULTILINE)
            self.assertTrue(suggested, text)
            for command in suggested:
                with self.subTest(command):
                    self.run_program(*shlex.split(command.split(" > ")[0])[1:])
            launched.append(any(" launch " in command for command in suggested))
        self.assertEqual(launched, [True, False, True, False, True, False, True, False, True])

    def test_what_would_fit_fits(self):
        """Batches and counts that a message names are accepted; not named so is what memory has no room for."""
        stages = ("--gpus", "72", "--batch", "17", "--model", "gpt5b", "--what-if", "pipeline=2")
        text = self.run_program(*stages, status=1).stderr
        self.assertIn("no grid of 36 GPUs, for one of 2 stages, fits gpt5b", text)
        self.assertIn("the nearest counts that have one: 64 and 128", text)
        self.accept(stages, text)
        self.accept(("--gpus", "44", "--model", "gpt-124m", "--batch-tokens", "64k"), status=1)
        self.accept(("--gpus", "96", "--model", "gpt5b", "--batch", "17", "--fix", "z=8"), status=1)
        short = ("--gpus", "100", "--model", "gpt20b", "--batch-tokens", "1M", "--mode", "agnostic", "--max-tensor",
                 "4")
        text = self.run_program(*short, status=1).stderr
        self.assertRegex(text, "if there were memory for it, the nearest batches that have one: 500 and 600 sequences; "
                               "if there were memory for it, the nearest counts that have one: 64 and 128$")
        for flag, value in (("--batch", "600"), ("--gpus", "64")):
            self.assertIn("GiB too much", self.run_program(*self.with_flag(short, flag, value), status=1).stderr)

    def with_flag(self, line, flag, value):
        pairs = dict(zip(line[::2], line[1::2]))
        if flag == "--batch":
            pairs.pop("--batch-tokens", None)
        return [word for pair in {**pairs, flag: value}.items() for word in pair]

    def accept(self, line, text=None, status=0):
        text = text or self.run_program(*line, status=status).stderr
        batch = re.search(r"\(--batch (\d+)\)", text)
        counts = re.search(r"nearest counts that have one: (\d+)(?: and (\d+))?$", text.strip())
        self.assertTrue(batch or counts, text)
        named = [("--batch", batch[1])] if batch else []
        named += [("--gpus", count) for count in (counts.groups() if counts else ()) if count]
        for flag, value in named:
            with self.subTest(line=line, flag=flag, value=value):
                self.run_program(*self.with_flag(line, flag, value))

    def test_memory_of_the_table_is_that_of_explain(self):
        text = self.run_program("--gpus", "1024", "--model", "gpt80b", "--top", "1").stdout
        best = self.plan("--gpus", "1024", "--model", "gpt80b", "--top", "1")["layouts"][0]
        self.assertIn(f"{best['memory_bytes'] / 2**30:.2f} GiB", text)
        self.assertGreater(best["memory"]["cache"], 0)

    def test_nodes_that_are_not_filled(self):
        self.refuse("--gpus", "30", "--model", "gpt5b", words=["30 GPUs do not fill units of 4 (node)", "28 and 32"])
        self.refuse("--gpus", "16", "--machine", "workstation", "--model", "gpt-124m",
                    words=["workstation has 8 GPUs, got 16"])

    def test_nothing_fits_in_memory_and_by_how_much(self):
        self.refuse("--gpus", "8", "--model", "gpt80b", status=1,
                    words=["no grid of 8 GPUs fits gpt80b", "over 36.80 GiB (closest", "GiB too much"])

    def test_nothing_fits_in_memory_names_the_flag_that_helps(self):
        job = ("--model", "gpt80b", "--batch", "512")
        for machine, more in (("perlmutter", ()), ("dgx-h100", ("--what-if", "pipeline=2"))):
            flags = (*job, "--machine", machine, *more)
            text = self.run_program("--gpus", "16", *flags, status=1).stderr
            count = int(re.search(r"; (\d+) GPUs have memory for one \(--gpus \1\)$", text.strip())[1])
            self.run_program("--gpus", count, *flags)
            self.run_program("--gpus", count // 2, *flags, status=1)
        off = ("--gpus", "32", "--model", "gpt20b", "--machine", "dgx-a100-40", "--micro-batch", "16",
               "--checkpoint")
        text = self.run_program(*off, "off", status=1).stderr
        self.assertTrue(text.endswith("; with --checkpoint on there is memory for one\n"), text)
        self.run_program(*off, "on")

    def test_nothing_fits_is_an_empty_ranking_for_programs(self):
        ended = self.run_program("--gpus", "8", "--model", "gpt80b", "--json", status=1)
        self.assertIn('"layouts": []', ended.stdout)
        self.assertIn('"bytes_over"', ended.stdout)

    def test_unknown_names(self):
        self.refuse("--gpus", "8", "--model", "gpt8b", words=["unknown model 'gpt8b'; did you mean"])
        self.refuse(*self.JOB, "--machine", "perlmuter",
                    words=["unknown machine 'perlmuter'; did you mean 'perlmutter'?"])
        self.refuse(*self.JOB, "--machine", "summit", words=["the machines are perlmutter, frontier"])
        self.refuse(*self.JOB, "--mode", "awar", words=["'awar'; did you mean 'aware'?"])
        self.refuse(*self.JOB, "--coefficients", "papers", words=["did you mean 'paper'?"])
        self.refuse(*self.JOB, "--objective", "speed", words=["time, communication, memory, cost", "'speed'"])
        self.refuse(*self.JOB, "--precision", "fp8", words=["bf16, fp16, fp32, fp64", "'fp8'"])
        self.refuse(*self.JOB, "--overlap", "all-gathr", words=["'all-gathr'; did you mean 'all-gather'?"])
        self.refuse(*self.JOB, "--checkpoint", "maybe", words=["auto, on, off"])
        self.refuse(*self.JOB, "--optimizer", "adam", words=["adamw", "'adam'"])
        self.refuse(*self.JOB, "--reduction", "tree", words=["--reduction must be one of auto, ring, got 'tree'"])
        self.refuse(*self.JOB, "--order", "xyz", words=["'xyz'"])
        self.refuse(*self.JOB, "--fix", "w=4", words=["x=4 or data=2", "'w=4'"])
        self.refuse(*self.JOB, "--mod", "x", words=["unknown flag '--mod'; did you mean '--mode'?"])
        self.refuse("explan", words=["'explan'; did you mean 'explain'?"])

    def test_values_that_mean_nothing(self):
        for flag, value in (("--gpus", "0"), ("--gpus", "-4"), ("--gpus", "many"), ("--batch-tokens", "0"),
                            ("--batch-tokens", "4X"), ("--top", "0"), ("--min-tensor", "0"), ("--max-tensor", "-1"),
                            ("--micro-batch", "-1"), ("--memory-margin", "1"), ("--fix", "x=0"), ("--layers", "-1"),
                            ("--hidden", "10"), ("--memory-margin", "nan")):
            with self.subTest(flag=flag, value=value):
                self.refuse(*self.JOB, f"{flag}={value}", words=["axonn-config: "])
        self.refuse(*self.JOB, "--batch-tokens", "65000",
                    words=["whole sequences of 1024 tokens, got 65000; the nearest are 64512 and 65536"])
        self.refuse(*self.JOB[:4], "--batch-tokens", "1000", words=["got 1000; the nearest is 1024\n"])
        for flag in ("--sequence", "--layers", "--vocab"):
            self.refuse(*self.JOB, flag, "0", words=[f"{flag} must be from 1 to"])
        self.refuse(*self.JOB, "--min-tensor=-8", words=["--min-tensor must be at least 1, got -8"])
        self.refuse(words=["how many GPUs"])
        self.refuse("--gpus", "8", words=["which network"])
        self.refuse("--gpus", "8", "--layers", "2", words=["hidden must be positive"])

    def test_numbers_that_overflow(self):
        for flag in ("--gpus", "--batch-tokens", "--layers", "--hidden", "--sequence", "--vocab"):
            for value in (HUGE, "99999999999999999999", "8000000000G"):
                with self.subTest(flag=flag, value=value):
                    self.refuse("--gpus", "8", "--model", "gpt-124m", flag, value, words=["axonn-config: "])
        self.refuse("explain", "2000000000x2000000000x4x1", "--model", "gpt5b", words=["axonn-config: "])

    def test_machine_files_name_file_line_and_key(self):
        def refuse(old, new, *words):
            self.refuse(*self.JOB, "--machine", self.write("mine.toml", MACHINE.replace(old, new)), words=words)

        self.plan(*self.JOB, "--machine", self.write("mine.toml", MACHINE))
        refuse("memory_gib = 16", "memory_gib = -16",
               "mine.toml:2: 'memory_gib' in [gpu] must be greater than 0, got -16")
        refuse("memory_gib = 16\n", "", "mine.toml:1: 'memory_gib' is missing in [gpu]")
        refuse("bandwidth_gbps = 50", "bandwith_gbps = 50", "mine.toml:6: 'bandwidth_gbps' is missing in [[level]]")
        refuse("size = 8", "size = 8\nsiez = 4", "mine.toml:8: unknown key 'siez' in [[level]]; did you mean 'size'?")
        refuse("size = 8", "sze = 8", "mine.toml:6: 'size' is missing in [[level]]; did you mean it by 'sze'?")
        refuse("bf16_tflops = 100", "fp64_tflops = 1", "machine mine has no peak for bf16")
        refuse("size = 8", "size = = 8", "mine.toml:7:")
        self.refuse(*self.JOB, "--machine", "none.toml", words=["cannot read none.toml"])
        self.refuse(*self.JOB, "--machine", self.write("mine.toml", MACHINE), "--mode", "measured",
                    words=["no measured bandwidth"])
        self.refuse(*self.JOB, "--machine", "mine.toml", "--objective", "cost", words=["no price", "dollars_per_hour"])

    def test_network_files_name_file_line_and_key(self):
        for name, text, words in (("a.toml", "[model]\nlayers = 2\nhiden = 8\n",
                                   "a.toml:3: unknown key 'hiden' in [model]; did you mean 'hidden'?"),
                                  ("a.toml", "[model]\nlayers = 2\n", "a.toml: 'hidden' is missing in [model]"),
                                  ("a.toml", "[model]\nmodel = 'gpt-124m'\nhiden = 8\n",
                                   "a.toml:3: unknown key 'hiden' in [model]; did you mean 'hidden'?"),
                                  ("a.json", "{", "a.json is not a JSON object"),
                                  ("a.json", '{"model_type": "gpt2", "n_layer": 2}', "'n_embd' is missing")):
            self.refuse("--gpus", "8", "--model", self.write(name, text), words=[words])
        self.refuse("--gpus", "8", "--model", "none.json", words=["cannot read none.json"])

    def test_grids_that_are_not_possible(self):
        self.refuse("explain", "5x1x1x4", "--model", "gpt5b", words=["5x1x1x4", "heads % x"])
        self.refuse("explain", "1x1x1x8", "--model", "gpt80b",
                    words=["memory", "too much; choose a grid with more ranks on x"])
        self.refuse("explain", "1x1x", "--model", "gpt5b", words=["a grid is written"])
        self.refuse("explain", words=["grid"])
        self.refuse("launch", "1x1x4x2", "--model", "gpt-124m", "--launcher", "qsub",
                    words=["--launcher must be one of srun, mpirun, got 'qsub'"])

    def test_files_that_cannot_be_written_or_read(self):
        def refuse(*arguments, words):
            ended = self.run_program(*self.JOB, *arguments, status=2)
            self.assertIn(words, ended.stderr)

        refuse("--plot", "nowhere/out.svg", words="cannot write nowhere/out.svg")
        refuse("--plot", "out.svg", "--measurements", "none.csv", words="cannot read none.csv")
        refuse("--plot", "out.svg", "--measurements", self.write("m.csv", "\n1x1x1x8;3\n"), words="m.csv:2:")


if __name__ == "__main__":
    unittest.main()
