"""Output of the program: the plan of a large run, metrics, progress, help."""
import json
import math
import pathlib
import re
import unittest

from gpt_runs import GptTest, NETWORK, TRAINING
from program_runs import HAS_MPI, metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]


OF_FP16 = {"loss_scale", "skipped_steps"}
OF_GUARD = {"spikes"}
OF_SPLIT_FEATURES = {"linear_products.SCHEDULE"}
OF_SEVERAL_RANKS = {"hidden_share"}
MEASURED = {"optimizer_settings", "straggler"}  # there if other settings, or a rank, were measured as such


def documented_keys():
    rows = [line.split("|") for line in (ROOT / "docs" / "metrics.md").read_text().splitlines()
            if line.startswith("| `")]
    return {row[1].strip().strip("`") for row in rows}


def flat_keys(record):
    keys = set()
    for key, value in record.items():
        if key == "communication":
            keys |= {f"communication.KIND.{part}" for kind in value.values() for part in kind}
        elif key == "linear_products":
            keys.add("linear_products.SCHEDULE")
        else:
            keys |= {f"{key}.{part}" for part in value} if isinstance(value, dict) else {key}
    return keys - MEASURED


class Outputs(GptTest):
    def test_a_dry_run_plans_the_paper_s_largest_network_on_1024_ranks(self):
        ended = self.gpt("train", "--dry-run", "--model", "gpt80b", "--grid", "8x4x4x8", "--batch", "1024",
                         "--micro-batch", "1")
        self.assertEqual(ended.status, 0, ended.text)
        for words in ("on 8x4x4x8 (1024 ranks)", "h.0.attn.qkv.weight", "arena, cut over z",
                      "predicted memory per rank", "gathered weights", "total"):
            self.assertIn(words, ended.out)
        self.assertTrue(ended.out.startswith("77.4 G parameters "), ended.out[:80])
        self.assertIn("h.1 .. h.41", ended.out)
        self.assertEqual(self.files(), {self.text: self.text.read_bytes()})

    def test_a_dry_run_says_whether_a_rank_fits_and_which_flag_helps(self):
        def said(*flags):
            ended = self.gpt("train", "--dry-run", "--model", "gpt80b", "--batch", "1024", *flags)
            self.assertEqual(ended.status, 0, ended.text)
            return ended.out

        def needs(*flags):
            unit, number = {"MiB": 1 / 1024, "GiB": 1, "TiB": 1024}, re.search(r"total +([\d.]+) (\w+)", said(*flags))
            return float(number[1]) * unit[number[2]]

        grid = ("--grid", "8x4x32x1")
        room = 40 * 0.92
        large = (*grid, "--machine", "perlmutter")
        text = said(*large)
        self.assertGreater(needs(*large), room)
        self.assertIn("does not fit in 36.80 GiB: the 40.00 GiB of perlmutter's A100 without 8%", text)
        rows = int(re.search(r"\nchoose --micro-batch (\d+), the largest micro-batch that fits, or a grid", text)[1])
        self.assertLess(needs(*large, "--micro-batch", str(rows)), room)
        self.assertGreater(needs(*large, "--micro-batch", str(2 * rows)), room)
        fitting = said(*large, "--micro-batch", str(rows))
        self.assertIn("\nfits in 36.80 GiB: the 40.00 GiB", fitting)
        self.assertNotIn("choose", fitting)

        deep = ("--machine", "workstation", "--dtype", "bf16", "--grid")
        helps = "\nchoose --activation-checkpoint 1"
        self.assertIn(helps + ", with which it fits, or a grid with more ranks\n", said(*deep, "2x1x128x4"))
        self.assertIn("\nfits in ", said(*deep, "2x1x128x4", "--activation-checkpoint", "1"))
        rows = re.search(helps + r" with --micro-batch (\d+), the largest", said(*deep, "2x1x128x1"))[1]
        self.assertIn("\nfits in ", said(*deep, "2x1x128x1", "--activation-checkpoint", "1", "--micro-batch", rows))
        self.assertIn("not even one row fits: choose a grid with more ranks",
                      said("--grid", "2x1x2x1", "--machine", "dgx-h200"))
        self.assertIn("all that this machine has, for all of its ranks (--machine compares", said(*grid))
        self.assertIn("--machine compares with the memory of a GPU", said(*grid, "--device", "cuda"))
        self.refuse("train", "--dry-run", "--model", "gpt80b", *grid, "--batch", "1024", "--machine", "perlmuter",
                    words=["did you mean 'perlmutter'?"])

    def test_a_dry_run_counts_the_mask_of_documents(self):
        def activations(*flags):
            ended = self.gpt("train", "--dry-run", *NETWORK, "--sequence", "2048", "--batch", "2", *flags)
            self.assertEqual(ended.status, 0, ended.text)
            return float(re.search(r"\n  activations +([\d.]+) MiB\n", ended.out)[1])

        mask = 2 * 2048 * 2048 * 4 / 2**20  # fp32
        self.assertAlmostEqual(activations("--document-mask") - activations(), mask, delta=0.02)

    def test_metrics_have_the_documented_keys(self):
        run = self.train("run", "--steps", "4", "--validate-every", "2")
        lines = metrics(run)
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4])
        others = OF_FP16 | OF_GUARD | OF_SPLIT_FEATURES | OF_SEVERAL_RANKS | MEASURED
        alone = {key for key in documented_keys() - others if not key.startswith("communication.")}
        self.assertEqual(flat_keys(lines[-1]), alone)
        self.assertEqual(alone - flat_keys(lines[0]), {"validation_loss", "validation_bits_per_byte"})

    def test_why_there_is_no_validation_is_said_once(self):
        for fraction, why in (("0", "--validation-fraction is 0, so no text is held out"),
                              ("0.001", "tokens, and one sequence needs 17; a larger --validation-fraction")):
            ended = self.gpt("train", "--data", self.text.name, "--out", fraction, *TRAINING, "--steps", "3",
                             "--validation-fraction", fraction, "--validate-every", "1")
            self.assertEqual(ended.status, 0, ended.text)
            self.assertEqual(ended.err.count("no validation: "), 1, ended.err)
            self.assertIn(why, ended.err)

    def test_a_chosen_warm_up_that_is_longer_than_the_run_is_named(self):
        for flags, warned in ((["--warmup", "7"], 1), (["--warmup", "3"], 0), ([], 0)):
            ended = self.gpt("train", "--data", self.text.name, "--out", f"run{len(flags)}{warned}", *TRAINING, *flags,
                             "--steps", "3")
            self.assertEqual(ended.status, 0, ended.text)
            self.assertEqual(ended.err.count("the warm-up takes 7 steps and the run 3"), warned, ended.err)
            self.assertEqual(ended.err.count("the warm-up takes"), warned, ended.err)

    def first_lines(self, *arguments):
        ended = self.gpt("train", "--data", self.text.name, *TRAINING, *arguments)
        self.assertEqual(ended.status, 0, ended.text)
        return ended.out.splitlines()[:5]

    def test_the_first_lines_say_what_runs_and_where_its_output_goes(self):
        network, batch, rate, files, after = self.first_lines("--out", "run", "--steps", "4", "--micro-batch", "2")
        self.assertRegex(network, r"^gpt [\d.]+ k parameters on 1x1x1x1 \(1 rank, self\), text.txt: .*tokens, 4 steps$")
        self.assertEqual(batch, "batch 8 = 4 micro-batches x 2 sequences per rank x z 1 x data 1")
        self.assertEqual(rate, "adamw, learning rate 0.01 after 2 steps of warm-up, then a cosine to 0.0001")
        self.assertEqual(files, "metrics.jsonl, status.json and a checkpoint at the end in run")
        self.assertRegex(after, r"^step +4/4 ")
        resumed = self.first_lines("--resume", "run", "--steps", "6", "--minutes", "1")
        self.assertTrue(resumed[0].endswith(", 6 steps or 1 minute, from step 4 (run/step-000004)"), resumed[0])

    def test_the_first_lines_know_every_cadence_of_checkpoints(self):
        for flags, saved in ((["--save-every", "2"], "checkpoints every 2 steps and at the end"),
                             (["--save-every", "4"], "a checkpoint at the end"),
                             (["--save-every", "4", "--no-save-last"], "checkpoints every 4 steps"),
                             (["--save-every", "5", "--no-save-last"], "no checkpoint"),
                             (["--no-save-last"], "no checkpoint")):
            run = "".join(["run", *flags])
            lines = self.first_lines("--out", run, "--steps", "4", *flags)
            self.assertEqual(lines[3], f"metrics.jsonl, status.json and {saved} in {run}")
            self.assertEqual(any((self.directory / run).glob("step-*")), saved != "no checkpoint")

    def test_how_products_and_updates_run_is_in_the_starts_and_for_verbose_in_the_first_lines(self):
        measured = [word for word in TRAINING if word not in ("--gemm", "mm")]
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", *measured, "--steps", "1", "--verbose")
        self.assertEqual(ended.status, 0, ended.text)
        choices = json.loads((self.directory / "run/starts.jsonl").read_text())["choices"]
        manifest = json.loads((self.directory / "run/step-000001/manifest.json").read_text())
        self.assertEqual(choices, manifest["choices"])
        self.assertRegex(ended.out.splitlines()[4], f"^best matrix product .*, gemm {re.escape(choices['gemm'])}[,;]")

    def test_a_resumed_run_keeps_what_was_measured_of_attention(self):
        measured = [word for word in TRAINING if word not in ("--gemm", "mm")]

        def choices_of(*flags):
            ended = self.gpt("train", *flags, ranks=2)
            self.assertEqual(ended.status, 0, ended.text)
            starts = (self.directory / "run/starts.jsonl").read_text().splitlines()
            return {name: value for name, value in json.loads(starts[-1])["choices"].items() if "balance" in name}

        data = ("--data", self.text.name)
        first = choices_of(*data, "--out", "run", *measured, "--grid", "1x2x1x1", "--attention-rows", "auto",
                           "--steps", "1")
        self.assertEqual(list(first), ["attention balance of 1x2x1x1 by xyzd"])
        again = ("--resume", "run", *data, "--grid")
        self.assertEqual(choices_of(*again, "1x2x1x1", "--steps", "2"), first)
        self.assertEqual(list(choices_of(*again, "2x1x1x1", "--steps", "3")), ["attention balance of 2x1x1x1 by xyzd"])

    def test_generating_without_a_prompt_needs_no_line_break_in_the_vocabulary(self):
        self.text.write_text("abc" * 300)
        run = self.train("run", "--steps", "1", "--tokenizer", "chars")
        ended = self.gpt("generate", "--checkpoint", run, "--tokens", "5")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertRegex(ended.out, "^a[abc]{5}\n$")

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_metrics_of_a_grid_tell_its_communication(self):
        line = metrics(self.train("run", "--steps", "2", "--grid", "1x1x2x1", ranks=2))[-1]
        self.assertEqual(flat_keys(line), documented_keys() - OF_FP16 - OF_GUARD - OF_SPLIT_FEATURES - MEASURED)
        self.assertEqual(set(line["communication"]), {"all_reduce", "all_gather", "reduce_scatter", "data"})

    def test_metrics_count_tokens_epochs_and_bits(self):
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "6",
                         "--validate-every", "3", "--log-every", "1")
        self.assertEqual(ended.status, 0, ended.text)
        lines = metrics(self.directory / "run")
        windows = (int(self.text.stat().st_size * 0.9) - 1) // 16
        for line in lines:
            self.assertEqual(line["tokens"], line["step"] * 8 * 16)
            self.assertAlmostEqual(line["epoch"], line["step"] * 8 / windows)
        for line in (lines[2], lines[5]):  # a byte per token
            self.assertAlmostEqual(line["validation_bits_per_byte"], line["validation_loss"] / math.log(2))
        seconds = [line["seconds"]["run"] for line in lines]
        self.assertEqual(seconds, sorted(seconds))
        self.assertGreaterEqual(seconds[-1], sum(line["seconds"]["step"] for line in lines))
        self.assertRegex(ended.out, rf"step 6/6 .* bpb [\d.]+ .* 768 tok  epoch {48 / windows:.2f} ")
        self.assertRegex(ended.out, r"validation loss [\d.]+ \([\d.]+ bits per byte\)")

    def test_bits_per_byte_are_those_of_eval(self):
        self.assertEqual(self.gpt("tokenize", "text.txt", "--train-bpe", "300", "--out", "a").status, 0)
        run = self.train("run", "--tokenizer", "a.tokenizer", "--val-data", "text.txt", "--steps", "20")
        ended = self.gpt("eval", "run", "--data", "text.txt", "--json")
        self.assertEqual(ended.status, 0, ended.text)
        expected = json.loads(ended.out)["bits_per_byte"]  # with the last tokens, which fill no window
        self.assertAlmostEqual(metrics(run)[-1]["validation_bits_per_byte"] / expected, 1, delta=0.02)

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_metrics_of_split_features_tell_the_schedule_of_their_products(self):
        for schedule in ("mm-ar-c", "overlap", "auto"):
            line = metrics(self.train(schedule, "--steps", "1", "--grid", "2x1x1x1", "--linear-schedule", schedule,
                                      ranks=2))[-1]
            self.assertLessEqual(OF_SPLIT_FEATURES, flat_keys(line))
            self.assertEqual(set(line["linear_products"]), {"mm-ar-c" if schedule == "auto" else schedule})
            self.assertGreater(min(line["linear_products"].values()), 0)

    def test_fp16_skips_steps_that_overflow_and_counts_them(self):
        lines = metrics(self.train("run", "--dtype", "fp16", "--loss-scale", "1e9", "--steps", "20"))
        self.assertLessEqual(OF_FP16, flat_keys(lines[-1]))
        skipped = lines[-1]["skipped_steps"]
        self.assertTrue(0 < skipped < 20, skipped)
        self.assertEqual([line["skipped_steps"] for line in lines[:3]], [1, 2, 3])
        self.assertEqual([line["loss_scale"] for line in lines], [1e9 / 2**line["skipped_steps"] for line in lines])
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])

    def test_a_run_that_only_measures_leaves_its_metrics_alone(self):
        run = self.train("run", "--steps", "2", "--no-save-last")
        self.assertEqual(sorted(path.name for path in run.iterdir()),
                         ["config.toml", "environment.json", "metrics.jsonl", "starts.jsonl", "status.json", "tb",
                          "tokens"])

    def test_progress_in_a_file_is_a_line_every_log_every_steps(self):
        ended = self.gpt("train", "--data", self.text, "--out", "run", "--layers", "1", "--hidden", "16",
                         "--heads", "2", "--sequence", "16", "--steps", "7", "--log-every", "3")
        self.assertEqual(re.findall(r"^step +(\d)/7 ", ended.out, re.M), ["3", "6", "7"])
        self.assertNotIn("\r", ended.out)

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_progress_of_mpirun_into_a_file_is_lines_too(self):
        ended = self.gpt("train", "--data", self.text, "--out", "run", "--layers", "1", "--hidden", "16",
                         "--heads", "2", "--sequence", "16", "--steps", "7", "--log-every", "3", "--grid", "2x1x1x1",
                         ranks=2)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(re.findall(r"^step +(\d)/7 ", ended.out, re.M), ["3", "6", "7"])

    def test_the_bar_can_be_asked_for(self):
        ended = self.gpt("train", "--data", self.text, "--out", "run", "--layers", "1", "--hidden", "16",
                         "--heads", "2", "--sequence", "16", "--steps", "3", environment={"AXONN_PROGRESS": "bar"})
        self.assertIn("\rstep 3/3 ", ended.out)

    def test_help_names_every_flag_of_the_configuration_files(self):
        keys = set()
        for file in (ROOT / "configs").glob("gpt-*.toml"):
            keys |= set(re.findall(r"^([a-z0-9_]+) *=", file.read_text(), re.M))
        self.assertTrue(keys)
        for command in ([], ["train"]):
            ended = self.gpt(*command, "--help")
            self.assertEqual(ended.status, 0)
            for key in keys:
                self.assertIn("--" + key.replace("_", "-"), ended.out)
        for command, flag in (("generate", "--temperature"), ("verify", "--micro-batches")):
            self.assertIn(flag, self.gpt(command, "--help").out)

    def test_flags_for_experts_are_in_the_whole_help_only(self):
        for command in ([], ["train"]):
            first, whole = (self.gpt(*command, flag).out for flag in ("--help", "--help-all"))
            for flag in ("--prefetch", "--trace-steps", "--beta2", "--gemm"):
                self.assertNotIn(f"\n  {flag} ", first)
                self.assertIn(f"\n  {flag} ", whole)
            self.assertIn("\n  --batch ", first)

    def test_help_of_the_environment_names_what_the_guide_names(self):
        ended = self.gpt("--help-env")
        self.assertEqual(ended.status, 0)
        printed = set(re.findall(r"^([A-Z][A-Z_0-9]+) ", ended.out, re.M))
        guide = set(re.findall(r"^\| `([A-Z_0-9]+)` \|", (ROOT / "docs" / "running.md").read_text(), re.M))
        self.assertEqual(printed, guide)


if __name__ == "__main__":
    unittest.main()
