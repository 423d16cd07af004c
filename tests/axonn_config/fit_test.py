"""fit finds constants that were planted, and says which it cannot tell; validate judges published runs."""
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
import unittest
import xml.etree.ElementTree

from planner_runs import PROGRAM, SOURCE, PlannerTest

PUBLISHED = SOURCE / "bench/published"
HEAD = "grid,batch,micro_batch,checkpointed,seconds\n"
SIZED = "grid,batch,micro_batch,checkpointed,layers,hidden,heads,sequence,vocabulary,seconds\n"
JOB = ("--model", "gpt5b")


class Fit(PlannerTest):
    def machine(self, **changes):
        text = self.run_program("machine", "dgx-a100").stdout
        for key, value in changes.items():
            text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.M)
        return self.write("planted.toml", text)

    def seconds(self, machine, grid, sequence, batch, micro_batch, checkpoint):
        x, y, z, data = grid.split("x")
        found = self.plan("--gpus", int(x) * int(y) * int(z) * int(data), "--layers", 24, "--hidden", 4096, "--heads",
                          32, "--sequence", sequence, "--vocab", 51200, "--tied", "--machine", machine, "--batch",
                          batch, "--fix", f"x={x},y={y},z={z},data={data}", "--micro-batch", micro_batch,
                          "--checkpoint", "on" if checkpoint else "off", "--memory-margin", "0", "--overlap",
                          "all-reduce,all-gather,reduce-scatter,buckets", "--what-if", "block-messages", "--top",
                          "1")
        return found["layouts"][0]["seconds"]

    def planted(self, machine, noise=0.0):
        """Twelve runs of a GPT of 5B whose seconds are those of the machine."""
        large = machine.replace("planted", "large")
        text = (self.directory / machine).read_text()
        self.write(large, re.sub(r"^memory_gib = .*$", "memory_gib = 400000", text, flags=re.M))
        noisy = random.Random(7)
        lines = []
        for grid, batch in (("1x1x8x1", 64), ("1x1x64x1", 512), ("8x1x4x2", 64), ("8x1x1x8", 64)):
            for sequence, micro_batch, checkpoint in ((2048, 1, 0), (2048, 8, 1), (32768, 1, 0)):
                seconds = self.seconds(large, grid, sequence, batch, micro_batch, checkpoint)
                seconds *= 1 + noisy.gauss(0, noise)
                lines.append(f"{grid},{batch},{micro_batch},{checkpoint},24,4096,32,{sequence},51200,{seconds}\n")
        return self.write("runs.csv", SIZED + "".join(lines))

    def fit(self, *arguments):
        return self.plan("fit", *arguments)

    def test_finds_what_was_planted(self):
        planted = {"gemm_efficiency": 0.55, "attention_efficiency": 0.3, "kernel_us": 90.0}
        runs = self.planted(self.machine(**planted), noise=0.005)
        found = self.fit(runs, "--machine", "dgx-a100", "--out", "mine.toml")
        for name, value in planted.items():
            self.assertAlmostEqual(found["constants"][name]["after"] / value, 1, delta=0.03, msg=name)
        self.assertLess(found["after"]["mean_error"], 0.01)
        mine = tomllib.loads((self.directory / "mine.toml").read_text())
        self.assertAlmostEqual(mine["gpu"]["kernel_us"], found["constants"]["kernel_us"]["after"], places=5)
        self.assertAlmostEqual(mine["gpu"]["error_band"], found["error_band"])
        self.assertLess(self.fit(runs, "--machine", "mine.toml")["before"]["mean_error"], 0.01)

    def test_says_which_constants_the_runs_cannot_tell(self):
        runs = self.planted(self.machine(gemm_efficiency=0.5))
        lines = (self.directory / runs).read_text().splitlines(keepends=True)
        self.write("node.csv", SIZED + "".join(line for line in lines if line.startswith("1x1x8x1") and
                                              ",2048," in line))
        constants = self.fit("node.csv", "--machine", "dgx-a100")["constants"]
        self.assertIn("gemm_efficiency", constants)
        kept = {name: one["kept"] for name, one in constants.items() if one["kept"]}
        self.assertIn("bandwidth_gbps of node", kept)
        self.assertIn("attention_efficiency", kept)
        for name in kept:
            self.assertEqual(constants[name]["before"], constants[name]["after"])
        text = self.run_program("fit", "node.csv", "--machine", "dgx-a100").stdout
        self.assertRegex(text, "attention_efficiency 0.[0-9]+, kept: ")

    def test_mistakes_name_line_and_column(self):
        good = "1x1x8x1,64,1,0,9.5\n"
        for text, words in ((HEAD, "runs.csv has no runs"),
                            (HEAD + good, "a fit needs at least two runs, got 1"),
                            (HEAD + good + "1x1x8x1,64,1,0,-3\n", "runs.csv:3: 'seconds' must be a number above 0, got "
                             "'-3'"),
                            (HEAD + good + "1x1x8x1,64,1,0,nan\n", "runs.csv:3: 'seconds' must be a number above 0"),
                            (HEAD + good + "1x1x8x1,64,1,0\n", "runs.csv:3: the line has 4 cells, need 5"),
                            (HEAD + good + "1x1xax1,64,1,0,3\n", "1x1xax1"),
                            (HEAD + good + "1x1x8x1,65,1,0,3\n", "runs.csv:3: a batch of 65 sequences must divide"),
                            (HEAD + good + "1x1x8x1,64,0,0,3\n", "runs.csv:3: 'micro_batch' must be a whole number"),
                            (HEAD + good + "5x1x8x1,64,1,0,3\n", "heads % x"),
                            (HEAD + good + "1x1x8x1,64,1,0,20\n", "runs.csv:2 and runs.csv:3 have the same layout and "
                             "take 9.5 and 20 s"),
                            (HEAD.replace("seconds", "secs") + good, "runs.csv:1: unknown column 'secs'"),
                            (HEAD.replace(",seconds", "") + "1x1x8x1,64,1,0\n", "column 'seconds' is missing"),
                            ("grid,grid\n", "runs.csv:1: column 'grid' stands twice")):
            self.refuse("fit", self.write("runs.csv", text), *JOB, "--machine", "dgx-a100", words=[words])
        self.refuse("fit", "none.csv", *JOB, words=["cannot read none.csv"])
        self.refuse("fit", self.write("runs.csv", HEAD + good), words=["runs.csv:2: which network? give --model"])
        self.refuse("fit", self.write("runs.csv", HEAD + good), *JOB, words=["runs.csv:2: which machine? give --mach"])
        two = "machine," + HEAD + f"dgx-a100,{good}dgx-h100,1x1x8x1,64,2,0,9\n"
        self.refuse("fit", self.write("runs.csv", two), *JOB, words=["give the runs of one kind of machine"])
        self.refuse("fit", self.write("runs.csv", HEAD + good.replace(",0,", ",often,")), *JOB, "--machine", "dgx-a100",
                    words=["'checkpointed' must be 0, 1, selective or stopped, got 'often'"])
        unlike = "order,reduction,overlap,messages," + HEAD + f"xyzd,ring,all,weights,{good}"
        for words in ("zyxd,ring,all,weights", "xyzd,levels,all,weights", "xyzd,ring,0,weights",
                      "xyzd,ring,all,blocks"):  # other layouts, so other seconds
            self.run_program("fit", self.write("runs.csv", unlike + f"{words},1x1x8x1,64,1,0,20\n"), *JOB, "--machine",
                             "dgx-a100")
        typed = lambda words: HEAD.replace("seconds", "precision,seconds") + good.replace(",0,", f",0,{words},")
        self.refuse("fit", self.write("runs.csv", typed("fp8")), *JOB, "--machine", "dgx-a100",
                    words=["runs.csv:2: precision must be one of bf16, fp16, fp32, fp64, got 'fp8'"])
        self.refuse("fit", self.write("runs.csv", "messages," + HEAD + "units," + good), *JOB, "--machine", "dgx-a100",
                    words=["runs.csv:2: 'messages' must be blocks or weights, got 'units'"])
        self.refuse("fit", words=["runs"])
        self.refuse("validate", self.write("runs.csv", HEAD + good + "1x1x8x1,128,1,0,19\n"), *JOB,
                    "--machine", "dgx-a100", words=["needs at least four, got 2"])


class Validate(PlannerTest):
    @classmethod
    def setUpClass(cls):
        files = ("mpt_fsdp_a100", "mpt_fsdp_h100", "mpt_fsdp_h100_large", "axonn_sc24", "axonn_table3", "zero3_table3",
                 "megatron_2022")
        ended = subprocess.run([PROGRAM, "validate", *(PUBLISHED / f"{file}.csv" for file in files), "--json"],
                               capture_output=True, text=True, check=True)
        cls.groups = {}
        for group in json.loads(ended.stdout)["groups"]:
            cls.groups[pathlib.Path(group["file"]).stem, group["gpu"]] = group

    def ratios(self, file, gpu, key):
        return [run[key] for run in self.groups[file, gpu]["runs"]]

    def test_a_file_whose_name_is_not_utf8(self):
        """JSON is."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, os.fsdecode(b"caf\xe9.csv"))
            shutil.copy(PUBLISHED / "megatron_2022.csv", file)
            ended = subprocess.run([PROGRAM, "validate", file, "--json"], capture_output=True, check=True)
            self.assertEqual(len(json.loads(ended.stdout.decode())["groups"]), 1)

    def test_runs_that_the_fit_did_not_see(self):
        """Asked: 6% and 5%."""
        a100, h100 = self.groups["mpt_fsdp_a100", "A100"], self.groups["mpt_fsdp_h100", "H100"]
        self.assertEqual((a100["held_out"]["runs"], h100["held_out"]["runs"]), (139, 52))
        self.assertLess(a100["held_out"]["mean_error"], 0.045)
        self.assertLess(h100["held_out"]["mean_error"], 0.04)

    def test_no_class_of_ten_runs_is_off_in_the_median(self):
        for file, gpu in (("mpt_fsdp_a100", "A100"), ("mpt_fsdp_h100", "H100")):
            for key in ("hidden", "sequence", "checkpointed", "gpus"):
                classes = {}
                for run in self.groups[file, gpu]["runs"]:
                    classes.setdefault(run[key], []).append(run["held_out_ratio"])
                for value, ratios in classes.items():
                    if len(ratios) >= 10:
                        self.assertLess(abs(statistics.median(ratios) - 1), 0.08, (gpu, key, value, len(ratios)))

    def test_bands_of_the_presets_hold_most_runs(self):
        """80 to 95% of the runs, and a median band of at most 12%."""
        for file, gpu, machine in (("mpt_fsdp_a100", "A100", "dgx-a100"), ("mpt_fsdp_h100", "H100", "dgx-h100")):
            band = tomllib.loads(self.run_program("machine", machine).stdout)["gpu"]["error_band"]
            self.assertLessEqual(band, 0.12)
            for key in ("preset_ratio", "held_out_ratio"):
                ratios = self.ratios(file, gpu, key)
                inside = sum(abs(ratio - 1) <= band for ratio in ratios) / len(ratios)
                self.assertTrue(0.8 <= inside <= 0.95, (machine, key, inside))

    def test_the_worst_rows_are_those_of_the_documents(self):
        text = (SOURCE / "docs/planner.md").read_text()
        worst = [f"{100 * self.groups[f'mpt_fsdp_{gpu.lower()}', gpu]['preset']['worst']:.1f}% on {gpu}"
                 for gpu in ("A100", "H100")]
        self.assertIn(f"up to {worst[0]} and {worst[1]}", " ".join(text.split()))

    def test_bands_of_other_presets_are_those_of_their_rows(self):
        """Every published row of the machine beside the preset's constants: nine of ten are within the band."""
        off = {}
        for group in self.groups.values():
            for run in group["runs"]:
                off.setdefault(run["machine"], []).append(abs(run["preset_ratio"] - 1))
        bands = {name: tomllib.loads(self.run_program("machine", name).stdout)["gpu"]["error_band"]
                 for name in ("perlmutter", "frontier", "alps", "dgx-a100", "dgx-a100-40", "dgx-h100", "dgx-h200",
                              "workstation")}
        for name in ("perlmutter", "frontier", "alps"):
            rows = sorted(off[name])
            self.assertAlmostEqual(bands[name], rows[math.ceil(0.9 * len(rows)) - 1], delta=0.005, msg=name)
        for name in ("dgx-h200", "workstation"):  # no rows: the widest
            self.assertNotIn(name, off)
            self.assertEqual(bands[name], 0)
            found = self.plan("--gpus", "8", "--model", "gpt-124m", "--machine", name, "--batch", "8")
            self.assertEqual(found["error_band"], max(bands.values()))

    def test_fitted_to_small_runs_it_tells_large_ones(self):
        """Fitted up to 3B (hidden 2560) and 16 GPUs, judged on what is larger. Asked: 9%."""
        for file, machine, most in (("mpt_fsdp_a100", "dgx-a100", 0.09), ("mpt_fsdp_a100", "dgx-a100-40", 0.09),
                                    ("mpt_fsdp_h100", "dgx-h100", 0.09)):
            lines = [line for line in (PUBLISHED / f"{file}.csv").read_text().splitlines() if line[0] != "#"]
            rows = [line for line in lines[1:] if line.startswith(machine + ",")]
            small = [line for line in rows if int(line.split(",")[1]) <= 16 and int(line.split(",")[3]) <= 2560]
            large = [line for line in rows if line not in small]
            self.plan("fit", self.write("small.csv", "\n".join([lines[0], *small])), "--out", "fitted.toml")
            group = self.plan("validate", self.write("large.csv", "\n".join([lines[0], *large])), "--machine",
                              "fitted.toml")["groups"][0]
            self.assertEqual(group["preset"]["runs"], len(large))
            self.assertLess(group["preset"]["mean_error"], most, machine)

    def test_runs_on_128_to_512_gpus_that_no_constant_was_fitted_to(self):
        """1B to 70B. With weights gathered every time and each a message: 9.4% off in the mean, up to 36%."""
        self.check_large(self.groups["mpt_fsdp_h100_large", "H100"]["runs"])
        lines = [line for line in (PUBLISHED / "mpt_fsdp_h100_large.csv").read_text().splitlines() if line[0] != "#"]
        cells = [line.split(",") for line in lines]
        plain = [",".join(cell[:11] + cell[13:]) for cell in cells]  # without overlap and messages: FSDP of blocks
        self.assertEqual(plain[0].count("overlap") + plain[0].count("messages"), 0)
        self.check_large(self.judged(plain))
        weights = self.judged(plain[:1] + [line + ",weights" for line in plain[1:]], more=",messages")
        self.assertGreater(statistics.mean(abs(run["preset_ratio"] - 1) for run in weights), 0.09)

    def judged(self, lines, more=""):
        file = self.write("large.csv", "\n".join([lines[0] + more, *lines[1:]]))
        return self.plan("validate", file)["groups"][0]["runs"]

    def check_large(self, runs):
        self.assertEqual(len(runs), 18)
        self.assertLess(statistics.mean(abs(run["preset_ratio"] - 1) for run in runs), 0.025)
        classes = {}
        for run in runs:
            self.assertLess(abs(run["preset_ratio"] - 1), 0.07, run["run"])
            for key in ("gpus", "hidden"):
                classes.setdefault((key, run[key]), []).append(run["preset_ratio"])
        for key, ratios in classes.items():
            self.assertLess(abs(statistics.median(ratios) - 1), 0.04, key)

    def test_what_scale_costs_fsdp(self):
        """Llama 3.1 8B on 8 and on 128 H100, 2 sequences of 8192 each: 5762 and 5605 tokens per second and GPU
        (torchtitan, benchmarks/llama3_h100_202412_torchtitan.md), 1.028; 4.5% more seconds if weights were messages."""
        seconds = []
        for gpus in (8, 128):
            layout = self.plan("explain", f"1x1x{gpus}x1", "--layers", "32", "--hidden", "4096", "--heads", "32",
                               "--kv-heads", "8", "--mlp-hidden", "14336", "--gated", "--positions", "0", "--sequence",
                               "8192", "--vocab", "128256", "--machine", "dgx-h200", "--batch", 2 * gpus,
                               "--micro-batch", "2", "--checkpoint", "selective", "--memory-margin", "0", "--overlap",
                               "all-reduce,reduce-scatter,all-gather,buckets", "--what-if", "block-messages")["layout"]
            seconds.append(layout["seconds"])
        self.assertAlmostEqual(seconds[1] / seconds[0], 1.028, delta=0.012)

    def test_scaling_is_drawn(self):
        """1B and 3B on 64, and 1B, 3B and 7B on 128 to 512 GPUs; two lines each."""
        ended = subprocess.run([sys.executable, SOURCE / "bench/papers/published_scaling.py", PROGRAM,
                                self.directory / "out.svg"], capture_output=True, text=True, check=True)
        self.assertEqual(len(ended.stdout.splitlines()), 1 + 12)
        svg = xml.etree.ElementTree.parse(self.directory / "out.svg").getroot()
        self.assertEqual(sum(one.tag.endswith("circle") for one in svg), 11)
        committed = (SOURCE / "docs/pictures/scaling_h100.svg").read_text()
        self.assertEqual((self.directory / "out.svg").read_text(), committed)

    def test_axonn_by_one_factor_per_machine(self):
        """Weak scaling of SC 2024, the 15 rows that the factor did not see. Asked: 8%."""
        for gpu, most in (("A100", 0.08), ("MI250X GCD", 0.08), ("GH200", 0.30)):
            self.assertLess(self.groups["axonn_sc24", gpu]["by_factor"]["mean_error"], most, gpu)
        off = [abs(ratio - 1) for gpu in ("A100", "MI250X GCD", "GH200")
               for ratio in self.ratios("axonn_sc24", gpu, "factor_ratio")]
        self.assertEqual(len(off), 15)
        self.assertLess(statistics.mean(off), 0.085)

    def test_table_3_in_points_of_the_peak(self):
        """AxoNN within 5 points; ZeRO-3 within 8 but on 1024 GPUs, where it fell to 27 and we say more."""
        for file, key, measured, points in (("axonn_table3", "preset_ratio", (67, 63, 67, 64, 57), 5),
                                            ("zero3_table3", "factor_ratio", (55, 57, 57, 55), 8)):
            for ratio, share in zip(self.ratios(file, "A100", key), measured):
                self.assertLess(abs(share / ratio - share), points, (file, share))
        self.assertLess(self.ratios("zero3_table3", "A100", "factor_ratio")[4], 0.7)

    def test_megatron_with_full_and_selective_recomputation(self):
        """22B to 1T. Asked: 15%."""
        group = self.groups["megatron_2022", "A100"]
        self.assertEqual(len(group["runs"]), 8)
        for run in group["runs"]:
            self.assertLess(abs(run["preset_ratio"] - 1), 0.1, run["run"])

    def test_is_printed_and_drawn(self):
        text = self.run_program("validate", PUBLISHED / "mpt_fsdp_h100.csv", "--plot", "out.svg").stdout
        self.assertIn("mpt_fsdp_h100, H100: 52 runs\n", text)
        self.assertIn("constants fitted on every second run, judged on the others: mean error", text)
        svg = xml.etree.ElementTree.parse(self.directory / "out.svg").getroot()
        self.assertEqual(sum(one.tag.endswith("circle") for one in svg), 52 + 1)
        self.assertIn("mpt_fsdp_h100.csv:7", self.run_program("validate", PUBLISHED / "mpt_fsdp_h100.csv",
                                                             "--verbose").stdout)


if __name__ == "__main__":
    unittest.main()
