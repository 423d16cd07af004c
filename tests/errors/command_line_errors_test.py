"""Errors on the command line give one sentence, before anything is started or written."""
import os
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import needs_mpi, refusal_seconds

HUGE = "9223372036854775807"


def on_two_hosts(rank):
    """As a launcher starts 4 ranks on 2 hosts, which ends no rank when another one has ended."""
    return {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2)}


class CommandLine(GptTest):
    def refuse_train(self, *arguments, words, **options):
        return self.refuse("train", "--data", self.text, "--out", "run", *arguments, words=words, **options)

    def test_unknown_flag_with_the_nearest_one(self):
        self.refuse_train("--hiden", "16", words=["unknown flag '--hiden'; did you mean '--hidden'?"])
        self.refuse("generate", "--temprature", "1", words=["'--temprature'", "'--temperature'"])
        self.refuse("generate", "--data", "x", words=["unknown flag '--data'"])
        self.refuse("verify", "--micro-bathes=2", words=["'--micro-bathes'", "'--micro-batches'"])

    def test_unknown_subcommand_with_the_nearest_one(self):
        self.refuse("generat", words=["'generat'", "'generate'"])

    @needs_mpi
    def test_every_rank_met_it_and_one_says_so(self):
        self.refuse_train("--hiden", "16", words=["did you mean '--hidden'?"], ranks=4)

    def test_rank_0_alone_says_it_where_the_launcher_ends_nobody(self):
        self.refuse_train("--hiden", "16", words=["did you mean '--hidden'?"], ranks=4, launcher=on_two_hosts)

    def test_what_a_host_lacks_its_first_rank_says(self):
        def training(rank):
            return ["train", "--data", str(self.text), "--out", "run", *TRAINING, "--config", f"of-{rank // 2}.toml"]

        ended = self.run_program(training, ranks=4, launcher=on_two_hosts, seconds=refusal_seconds())
        self.assertEqual(ended.status, 2, ended.text)
        said = [line for line in ended.err.splitlines() if "gpt: " in line]
        self.assertEqual(len(said), 2, ended.text)
        for begin, file in (("gpt: ", "of-0.toml"), ("[rank 2] gpt: ", "of-1.toml")):
            self.assertTrue(any(line.startswith(begin) and file in line for line in said), ended.text)

    def test_texts_are_printed_once(self):
        for flag in ("--version", "--help-env"):
            ended = self.run_program(flag, ranks=2, launcher=on_two_hosts)
            alone = self.run_program(flag)
            self.assertEqual((ended.status, ended.out), (0, alone.out), ended.text)

    def test_unknown_names_of_values(self):
        self.refuse_train("--model", "gpt-tny", words=["gpt-tny", "'gpt-tiny'"])
        self.refuse_train("--dtype", "fp8", words=["--dtype", "bf16, fp16, fp32, fp64", "'fp8'"])
        self.refuse_train("--overlap", "all-gathr", words=["unknown overlap 'all-gathr'", "'all-gather'"])
        self.refuse_train("--kernels", "adamv", words=["unknown kernel 'adamv'", "'adamw'", "all, none, or a list of"])
        self.refuse_train("--gather-cache", "lots", words=["gathered weights", "'lots'"])
        self.refuse_train("--gradient-dtype", "bf16", words=["cannot be summed in"])
        self.refuse_train("--device", "gpu", words=["--device", "cpu, cuda", "'gpu'"])
        self.refuse_train("--tokenizer", "bpe", words=["--tokenizer", "bytes, chars", "'bpe'"])
        self.refuse_train("--optimizer", "adam", words=["--optimizer", "adamw", "'adam'"])
        self.refuse_train("--order", "xyz", words=["'xyz'"])
        self.refuse_train("--grid", "2x2x", words=["a grid is written", "'2x2x'"])

    def test_values_that_are_no_numbers(self):
        self.refuse_train("--steps", "many", words=["--steps must be a whole number, got 'many'"])
        self.refuse_train("--steps", "1.5", words=["--steps must be a whole number, got '1.5'"])
        self.refuse_train("--learning-rate", "fast", words=["--learning-rate must be a number, got 'fast'"])
        self.refuse_train("--learning-rate", "nan", words=["--learning-rate must be a finite number"])
        self.refuse_train("--steps", words=["--steps"])

    def test_values_that_mean_nothing(self):
        # train_config_test.cpp has the other flags.
        values = {"layers": 0, "hidden": 0, "heads": 0, "sequence": -1, "vocab": -1, "steps": 0, "batch": -8,
                  "micro-batch": -1, "seed": -1, "dropout": 1, "validation-fraction": 1, "learning-rate": -1,
                  "minutes": -1}
        for flag, value in values.items():
            with self.subTest(flag):
                self.refuse_train(f"--{flag}={value}", words=[flag.replace("-", "_"), str(value)])

    def test_values_beyond_any_machine(self):
        for flag in ("layers", "hidden", "sequence", "vocab", "batch", "micro-batch"):
            with self.subTest(flag):
                self.refuse_train(f"--{flag}", HUGE, words=[flag.replace("-", "_")])
        self.refuse_train("--batch", "1000G", words=["batch"])
        self.refuse_train("--steps", "99999999999999999999", words=["--steps"])
        self.refuse_train("--grid", "2000000000x2000000000x4x1", words=["2000000000x2000000000x4x1"])
        self.refuse_train("--model", "gpt80b",
                          words=["a rank needs", "this machine", "not even one row fits", "--dry-run"])

    def test_environment_variables(self):
        for name, value, need in (("AXONN_LOG", "inf", "unknown log level 'inf'; did you mean 'info'?"),
                                  ("AXONN_LOG_ALL_RANKS", "2", "0 or 1"), ("AXONN_PROGRESS", "none", "bar or lines"),
                                  ("OMP_NUM_THREADS", "many", "whole number"),
                                  ("AXONN_TIMEOUT_SECONDS", "0", "at least 1"), ("RANK", "1", "WORLD_SIZE")):
            with self.subTest(name):
                extra = {"RANK": "0", "WORLD_SIZE": "2"} if name == "AXONN_TIMEOUT_SECONDS" else {}
                ended = self.gpt("train", "--data", self.text, *TRAINING, "--out", name, seconds=10,
                                 environment={name: value, **extra})
                self.assertIn(need, ended.err)
                self.assertIn(ended.status, (1, 2))

    def test_generate_and_verify_check_their_own(self):
        self.refuse("generate", words=["--checkpoint"])
        self.refuse("generate", "--checkpoint", "nowhere", words=["nowhere", "no such directory"])
        for flag in ("tokens", "temperature", "top-k", "sampling-seed"):
            self.refuse("generate", "--checkpoint", "nowhere", f"--{flag}=-1", words=[f"--{flag}"])
        for flag in ("micro-batches", "batch", "steps"):
            self.refuse("verify", f"--{flag}=0", words=[flag])
        self.refuse("verify", "--batch", "5", "--micro-batches", "2", words=["--batch", "5"])
        self.refuse("verify", "--grid", "8x8x8x8", "--heads", "16", "--hidden", "64", "--batch", "64",
                    words=["4096 ranks", "mpirun"])
        self.refuse("verify", "--steps", HUGE, words=["--steps"])

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "this machine has a CUDA device")
    def test_a_gpu_that_is_not_there(self):
        for command in (["train", "--data", self.text, "--out", "run"], ["verify"]):
            self.refuse(*command, "--device", "cuda", words=["CUDA", "--device cpu"])


class ConfigurationFile(GptTest):
    def refuse_file(self, text, *words):
        path = self.directory / "my.toml"
        path.write_text(text)
        self.refuse("train", "--config", "my.toml", "--data", self.text, "--out", "run", words=words)

    def test_unknown_key_with_file_line_and_the_nearest_name(self):
        self.refuse_file("[model]\nlayers = 2\nhiden = 16\n",
                         "my.toml:3: unknown key 'hiden' in [model]; did you mean 'hidden'?")

    def test_unknown_section(self):
        self.refuse_file("\n[modell]\nlayers = 2\n", "my.toml:2: unknown section [modell]", "'model'")

    def test_key_in_another_section_than_its_own(self):
        self.refuse_file("[train]\nhidden = 16\n", "my.toml:2", "'hidden'", "[model]")
        self.refuse_file("hidden = 16\n", "my.toml:1", "'hidden'", "[model]")

    def test_wrong_type(self):
        self.refuse_file('[model]\nlayers = "two"\n', "my.toml:2: 'layers' in [model]", "a whole number")
        self.refuse_file("[model]\nlayers = 2.5\n", "my.toml:2", "a whole number")
        self.refuse_file("[model]\ntied = 1\n", "my.toml:2", "true or false")
        self.refuse_file("[run]\ndtype = 32\n", "my.toml:2", "a string")
        self.refuse_file("[train]\nlearning_rate = inf\n", "my.toml:2", "finite")

    def test_syntax(self):
        self.refuse_file("[model]\nlayers = = 2\n", "my.toml:2")

    def test_a_file_that_is_not_there(self):
        self.refuse("train", "--config", "none.toml", "--data", self.text,
                    words=["cannot read the configuration file none.toml"])
        self.refuse("train", "--config", self.directory, "--data", self.text,
                    words=["cannot read the configuration file"])


if __name__ == "__main__":
    unittest.main()
