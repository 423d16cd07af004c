"""Rankings: the published ones, the JSON form, and the effects of the other flags."""
import csv
import io
import subprocess
import unittest
import xml.etree.ElementTree

from planner_runs import PROGRAM, PlannerTest

GPT20B = ("--gpus", "32", "--model", "gpt20b", "--batch-tokens", "64k", "--min-tensor", "16")
GPT80B = ("--gpus", "1024", "--model", "gpt80b", "--machine", "perlmutter", "--batch-tokens", "4M",
          "--min-tensor", "64")


class Ranking(PlannerTest):
    def expect(self, found, golden):
        for layout, (grid, seconds) in zip(found["layouts"], golden):
            self.assertEqual(tuple(layout["grid"]), grid)
            self.assertAlmostEqual(layout["communication_seconds"], seconds, delta=5e-5)

    def test_of_gpt20b_on_32_gpus_is_the_papers(self):
        found = self.plan(*GPT20B, "--mode", "aware", "--coefficients", "paper")
        self.assertEqual(found["considered"], 36)
        self.expect(found, [((1, 1, 32, 1), .7645), ((2, 1, 16, 1), .7775), ((4, 1, 4, 2), .8033),
                            ((4, 1, 8, 1), .8033), ((8, 1, 2, 2), .8221), ((8, 1, 4, 1), .8221),
                            ((2, 1, 8, 2), .8268), ((1, 1, 16, 2), .8385)])
        self.assertEqual([layout["ties_with_previous"] for layout in found["layouts"][:8]],
                         [False, False, False, True, False, True, False, False])

    def test_of_gpt80b_on_1024_gpus_is_the_papers(self):
        for flags in (("--mode", "aware", "--coefficients", "paper"), ("--mode", "aware"), ("--coefficients", "paper")):
            found = self.plan(*GPT80B, *flags, "--top", "20")
            self.assertEqual(found["considered"], 230)
            self.assertEqual(len(found["layouts"]), 20)
            self.expect(found, [((1, 1, 1024, 1), 3.0411), ((1, 1, 512, 2), 3.0500), ((1, 1, 256, 4), 3.0678),
                                ((1, 1, 128, 8), 3.1035), ((1, 1, 64, 16), 3.1749), ((2, 1, 512, 1), 3.2072)])

    def test_of_placements_is_better_than_any_with_x_innermost(self):
        flags = ("--mode", "exact", "--coefficients", "paper", "--top", "1")
        self.expect(self.plan(*GPT20B, *flags), [((2, 1, 16, 1), .6706)])
        self.expect(self.plan(*GPT80B, *flags), [((2, 1, 512, 1), 2.8720)])

    def test_agnostic_ties_z_with_data(self):
        found = self.plan(*GPT20B, "--mode", "agnostic", "--top", "100")
        seconds = {tuple(layout["grid"]): layout["communication_seconds"] for layout in found["layouts"]}
        self.assertAlmostEqual(seconds[(4, 1, 4, 2)], seconds[(4, 1, 8, 1)], places=12)
        self.assertAlmostEqual(seconds[(1, 1, 16, 2)], seconds[(1, 1, 32, 1)], places=12)

    def test_of_every_mode_is_deterministic(self):
        for mode in ("agnostic", "aware", "measured", "exact"):
            first, second = (self.plan(*GPT20B, "--mode", mode) for _ in range(2))
            for found in (first, second):
                del found["search_milliseconds"]
            self.assertEqual(first, second)

    def test_is_by_seconds_of_a_step_unless_asked_otherwise(self):
        flags = ("--gpus", "64", "--model", "gpt5b", "--top", "50")
        key = {"time": "seconds", "communication": "communication_seconds", "cost": "dollars_per_step",
               "memory": "memory_bytes"}
        self.assertEqual(self.plan(*flags)["objective"], "time")
        for objective, value in key.items():
            values = [layout[value] for layout in self.plan(*flags, "--objective", objective)["layouts"]]
            self.assertEqual(values, sorted(values), objective)

    def test_adds_up(self):
        for layout in self.plan("--gpus", "64", "--model", "gpt5b")["layouts"]:
            exposed = sum(layout["exposed_seconds"].values())
            self.assertAlmostEqual(layout["seconds"], layout["compute_seconds"] + exposed)
            self.assertAlmostEqual(layout["communication_seconds"], sum(layout["collectives"].values()))
            self.assertAlmostEqual(layout["tokens_per_second"] * layout["seconds"], 2**22, delta=1)
            memory = layout["memory"]
            logits, block = memory.pop("logits"), memory.pop("block")
            self.assertEqual(layout["memory_bytes"], sum(memory.values()) + max(logits, block))

    def test_says_why_every_other_grid_lost(self):
        found = self.plan("--gpus", "1024", "--model", "gpt80b", "--top", "1000")
        self.assertEqual(len(found["layouts"]) + len(found["rejected"]), found["considered"])
        impossible = next(one for one in found["rejected"] if one["grid"] == [1, 1, 1, 1024])
        self.assertEqual(impossible["reason"], "memory")
        self.assertGreater(impossible["bytes_over"], 10**12)

    def test_gives_layouts_within_the_band_one_rank(self):
        for gpus, flags, band in ((64, ("--machine", "dgx-a100"), None), (8, ("--machine", "workstation"), 0.53),
                                  (64, ("--objective", "memory"), 0)):
            found = self.plan("--gpus", gpus, "--model", "gpt-124m", "--top", "60", *flags)
            band = found["error_band"] if band is None else band
            value = "memory_bytes" if "memory" in flags else "seconds"
            first, ranks = None, []
            for place, layout in enumerate(found["layouts"], 1):
                if first is None or layout[value] > first * (1 + band) * (1 + 1e-12):
                    first = layout[value]
                    ranks.append(place)
                self.assertEqual(layout["rank"], ranks[-1])
            self.assertGreater(len(ranks), 1)
        self.assertLess(self.plan("--gpus", "64", "--model", "gpt5b", "--machine", "dgx-a100")["error_band"], 0.2)
        self.assertIn("no measured run was compared with this machine",
                      self.run_program("--gpus", "8", "--model", "gpt-124m", "--machine", "workstation").stdout)

    def test_sensitivity_says_how_often_the_best_stays(self):
        job = ("--gpus", "64", "--model", "gpt5b", "--machine", "dgx-a100")
        found = self.plan(*job, "--sensitivity")["sensitivity"]
        self.assertEqual(sum(found["best"].values()), found["draws"])
        self.assertTrue(0 <= found["median_regret"] <= found["worst_regret"])
        self.assertEqual(found, self.plan(*job, "--sensitivity")["sensitivity"])
        best = "x".join(map(str, self.plan(*job)["layouts"][0]["grid"]))
        text = self.run_program(*job, "--sensitivity").stdout
        self.assertIn(f"{best} is the best {found['best'][best]} times", text)
        one = self.plan("--gpus", "8", "--model", "gpt-tiny", "--fix", "x=1,y=1,z=1", "--sensitivity")["sensitivity"]
        self.assertEqual((one["best"], one["worst_regret"]), ({"1x1x1x8": 60}, 0))
        self.refuse("--gpus", "8,16", *job[2:], "--sensitivity", words=["--sensitivity is for one number of GPUs"])

    def test_what_if_is_marked_and_changes_what_it_says(self):
        job = ("--gpus", "64", "--model", "gpt20b", "--machine", "dgx-a100", "--fix", "x=8,z=1,y=1", "--batch", "512",
               "--micro-batch", "1")
        plain = self.plan(*job)["layouts"][0]
        for word in ("zero2", "pipeline=4", "pipeline=4,chunks=2"):
            found = self.plan(*job, "--what-if", word)
            self.assertIn("not with our trainer", found["what_if"])
            self.assertLess(found["layouts"][0]["memory"]["gradients"], plain["memory"]["gradients"])
        bubbles = [self.plan(*job, "--what-if", f"pipeline=4{more}")["layouts"][0]["pipeline_seconds"]
                   for more in ("", ",chunks=2")]
        self.assertAlmostEqual(bubbles[0] / bubbles[1], 2)
        for word, what, divisor in (("moments=bf16", "optimizer", 2), ("moments=int8", "optimizer", 4),
                                    ("logits-chunks=8", "logits", 8)):
            found = self.plan(*job, "--what-if", word)
            self.assertIn("not with our trainer", found["what_if"])
            layout = found["layouts"][0]
            self.assertEqual(layout["memory"][what] * divisor, plain["memory"][what], word)
            compare = self.assertLess if what == "optimizer" else self.assertEqual
            compare(layout["compute_seconds"], plain["compute_seconds"])
        blocks = self.plan("--gpus", "64", *job[2:6], "--fix", "z=64", "--what-if", "block-messages")
        self.assertIn("a block move over z in one message", blocks["what_if"])
        weights = self.plan("--gpus", "64", *job[2:6], "--fix", "z=64")
        self.assertLess(blocks["layouts"][0]["seconds"], weights["layouts"][0]["seconds"])
        selective = self.plan(*job, "--checkpoint", "selective")
        self.assertIn("only attention runs again", selective["what_if"])
        on, off = (self.plan(*job, "--checkpoint", word, "--memory-margin", "0")["layouts"][0]["compute_seconds"]
                   for word in ("on", "selective"))
        self.assertLess(off, 0.9 * on)
        self.assertEqual(self.plan(*job)["what_if"], "")
        for words, message in (("pipeline=3", "must divide the layers"), ("chunks=2", "give pipeline=8 too"),
                               ("zero", "--what-if takes pipeline=8"), ("pipeline=0", "from 1 to 1024"),
                               ("moments=fp32", "takes bf16 or int8, got 'fp32'"),
                               ("logits-chunks=0", "from 1 to 1024")):
            self.refuse(*job, "--what-if", words, words=[message])
        self.refuse("--gpus", "72", *job[2:6], "--what-if", "pipeline=16", words=["--gpus 72 must divide by the 16"])
        self.refuse("--gpus", "8", "--model", "unet-tiny", "--what-if", "pipeline=2", words=["are for transformers"])
        self.refuse(*job, "--what-if", "moments=bf16", "--optimizer", "sgd", words=["sgd has none: remove it"])
        self.refuse("--gpus", "8", "--model", "unet-tiny", "--what-if", "logits-chunks=2",
                    words=["are for transformers"])
        for word in ("zero2", "block-messages"):
            self.refuse("launch", "8x1x1x8", *job[2:6], "--what-if", word, words=["--what-if is for the ranking"])
        self.refuse("launch", "8x1x1x8", *job[2:6], "--checkpoint", "selective", words=["give on, off or auto"])

    def test_rows_of_queries_are_divided_over_y(self):
        job = ("--model", "gpt5b", "--machine", "dgx-h100", "--sequence", "65536", "--batch", "16",
               "--micro-batch", "1")
        explained = [self.plan("explain", "2x4x2x1", *job, "--attention-rows", rows) for rows in ("off", "on", "auto")]
        self.assertEqual([one["layout"]["attention_rows"] for one in explained], [False, True, True])
        off, on = ({layer["name"]: layer for layer in one["one_pass"]} for one in explained[:2])
        self.assertLess(on["attention"]["forward_seconds"], off["attention"]["forward_seconds"] / 3)
        self.assertEqual([name for name, layer in on.items() if layer["rows_forward"] > 0], ["attention"])
        self.assertEqual(sum(layer["rows_backward"] for layer in off.values()), 0)
        self.assertLess(explained[1]["layout"]["seconds"], explained[0]["layout"]["seconds"])
        self.assertIn("rows of queries divided over y: forward",
                      self.run_program("explain", "2x4x2x1", *job, "--attention-rows", "on").stdout)

    def test_rows_of_norms_are_divided_over_x(self):
        job = ("--model", "gpt20b", "--machine", "dgx-a100", "--batch", "512", "--micro-batch", "1")
        off, on = (self.plan("explain", "8x1x1x8", *job, "--norm-rows", rows) for rows in ("off", "on"))
        self.assertEqual([one["layout"]["norm_rows"] for one in (off, on)], [False, True])
        self.assertEqual(on["what_if"], "")
        self.assertLess(on["layout"]["memory"]["activations"], off["layout"]["memory"]["activations"])
        gathers = [layer["name"] for layer in on["one_pass"] if layer["stream_backward"] > 0]
        self.assertEqual(gathers, ["qkv", "up", "head"])
        self.assertEqual(sum(layer["stream_backward"] for layer in off["one_pass"]), 0)
        text = self.run_program("explain", "8x1x1x8", *job, "--norm-rows", "on").stdout
        self.assertIn("rows of the stream divided over x: backward gathers the input in", text)
        self.refuse("--gpus", "8", "--model", "unet-tiny", "--norm-rows", "on",
                    words=["the norms of unet-tiny need all rows of a sample: give norm rows auto or off"])

    def test_a_context_divides_sequences(self):
        job = ("--model", "gpt20b", "--machine", "dgx-h100", "--sequence", "131072", "--batch", "8")
        one = ("--gpus", "64", *job, "--fix", "x=1,y=1,z=64", "--checkpoint", "on", "--micro-batch", "1")
        self.run_program(*one, status=1)  # 8 sequences for 64 ranks
        layouts = {}
        for words in (("8",), ("8", "--what-if", "gather-keys"), ("16",)):
            found = self.plan(*one, "--context", *words)
            self.assertEqual(found["context"], int(words[0]))
            self.assertEqual("not with our trainer" in found["what_if"], len(words) > 1)
            layouts[words] = found["layouts"][0]
            self.assertGreater(layouts[words]["collectives"]["context"], 0)
        passed, gathered, more = layouts.values()
        self.assertLess(passed["exposed_seconds"]["context"], gathered["exposed_seconds"]["context"])
        self.assertLess(passed["memory"]["block"], gathered["memory"]["block"])
        self.assertAlmostEqual(more["memory"]["activations"] / passed["memory"]["activations"], 0.5, places=3)
        self.assertGreater(more["collectives"]["context"], passed["collectives"]["context"])
        explained = self.plan("explain", "1x1x64x1", *job, "--checkpoint", "on", "--context", "8")
        terms = {one["name"]: one["context_forward"] + one["context_backward"] for one in explained["one_pass"]}
        self.assertEqual([name for name, seconds in terms.items() if seconds > 0], ["attention"])
        text = self.run_program("explain", "1x1x64x1", *job, "--context", "8").stdout
        self.assertIn(", each sequence over 8 ranks of z, ", text)
        self.assertIn("  context: 8 ranks at 450.00 GB/s", text)
        self.assertIn("keys and values of the context: forward", text)
        for words, message in (("--what-if gather-keys", "give --context 8 too"),
                               ("--what-if context-over-data", "give --context 8 too"),
                               ("--context 3", "needs a --sequence that divides by 6, got 131072"),
                               ("--context x", "must be a whole number, got 'x'"), ("--context -1", "0 to 1024")):
            self.refuse(*one, *words.split(), words=[message])
        self.assertGreater(self.plan(*one, "--context", "8", "--order", "zxyd")["layouts"][0]["collectives"]["context"],
                           0)
        for more in (("--mode", "aware", "--coefficients", "trainer"), ("--coefficients", "paper", "--mode", "exact")):
            self.refuse(*one, "--context", "8", *more, words=["remove --mode and --coefficients"])
        self.refuse("explain", "8x1x1x8", *job, "--context", "8", words=["z % context"])
        self.refuse("--gpus", "8", "--model", "unet-tiny", "--context", "2", words=["are for transformers"])

    def test_the_best_context_is_found(self):
        job = ("--model", "gpt20b", "--machine", "dgx-h100", "--sequence", "131072", "--batch", "8")
        one = ("--gpus", "64", *job)
        best = self.plan(*one, "--context", "0")["layouts"][0]
        self.assertGreater(best["context"], 1)
        for context in ("1", "2", "4", "8", "16", "32", "64"):
            layouts = self.plan(*one, "--context", context)["layouts"]
            self.assertGreaterEqual(layouts[0]["seconds"], best["seconds"] * (1 - 1e-9))
        text = self.run_program(*one, "--context", "0").stdout
        self.assertIn(f" context {best['context']} ", text)
        self.assertIn("context N: each sequence over N ranks of z", text)
        grid = "x".join(map(str, best["grid"]))
        text = self.run_program("explain", grid, *job, "--context", "0").stdout
        self.assertIn(f", each sequence over {best['context']} ranks of z, ", text)
        text = self.run_program("launch", grid, *job, "--context", "0").stdout
        self.assertIn(f"\ncontext = {best['context']}\n", text)

    def test_keeps_to_what_is_fixed(self):
        for layout in self.plan("--gpus", "64", "--model", "gpt5b", "--fix", "x=4", "--max-tensor", "8",
                                "--micro-batch", "2", "--checkpoint", "on")["layouts"]:
            x, y, z, _ = layout["grid"]
            self.assertEqual((x, layout["micro_batch"], layout["checkpoint"]), (4, 2, True))
            self.assertLessEqual(x * y * z, 8)

    def test_without_overlap_is_slower(self):
        flags = ("--gpus", "64", "--model", "gpt5b", "--top", "1")
        self.assertLess(self.plan(*flags)["layouts"][0]["seconds"],
                        self.plan(*flags, "--overlap", "none")["layouts"][0]["seconds"])


class Network(PlannerTest):
    def test_may_be_a_preset_flags_or_a_file(self):
        flags = ("--gpus", "8", "--batch-tokens", "64k")
        ours = self.plan(*flags, "--model", "gpt-124m")["layouts"]
        self.write("mine.toml", '[model]\nmodel = "gpt-124m"\n\n[train]\nbatch = 512\n')
        self.write("config.json", '{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, '
                   '"n_positions": 1024, "vocab_size": 50257}')
        sizes = ("--layers", 12, "--hidden", 768, "--heads", 12, "--sequence", 1024, "--vocab", 50257, "--tied")
        for network in (("--model", "mine.toml"), ("--model", "config.json"), sizes):
            self.assertEqual(self.plan(*flags, *network)["layouts"], ours, network)


class Unet(PlannerTest):
    FLAGS = ("--gpus", "256", "--model", "unet2b")

    def test_is_ranked_by_images(self):
        found = self.plan(*self.FLAGS)
        self.assertEqual((found["batch_tokens"], found["tokens_are"]), (2048, "images"))  # the AxoNN paper's batch
        best = found["layouts"][0]
        self.assertAlmostEqual(best["tokens_per_second"] * best["seconds"], 2048, delta=1e-6)
        self.assertEqual(found["layouts"], self.plan(*self.FLAGS, "--batch", "2048")["layouts"])
        self.assertEqual({one["reason"] for one in found["rejected"]}, {"heads % x", "heads % y"})
        self.assertIn("images/s", self.run_program(*self.FLAGS).stdout)

    def test_every_preset_has_a_grid(self):
        for model in ("unet-tiny", "unet-cifar", "unet250m", "unet500m", "unet1b", "unet2b", "unet4b"):
            self.assertTrue(self.plan("--gpus", "64", "--model", model, "--top", "1")["layouts"], model)

    def test_may_be_flags_or_a_file(self):
        ours = self.plan(*self.FLAGS)["layouts"]
        self.write("mine.toml", '[model]\nmodel = "unet2b"\n\n[train]\nbatch = 512\n')
        self.write("keys.toml", "[model]\nbase = 768\nmultipliers = [1, 2, 2, 2]\nblocks = 3\nattention = [16, 8]\n"
                   "scale_shift = true\n")
        sizes = ("--base", 768, "--multipliers", "1,2,2,2", "--blocks", 3, "--attention", "16,8", "--scale-shift")
        for network in (("--model", "mine.toml"), ("--model", "keys.toml"), sizes):
            self.assertEqual(self.plan("--gpus", "256", *network)["layouts"], ours, network)

    def test_is_explained_layer_by_layer(self):
        best = self.plan(*self.FLAGS)["layouts"][0]
        text = self.run_program("explain", "x".join(map(str, best["grid"])), "--model", "unet2b").stdout
        self.assertIn(f"= {best['seconds']:.6f} s", text)
        self.assertIn("residual.in 16x16, 2 times: 9 x 1536 x 1536, transposed", text)
        self.assertIn("brought to the other axis", text)

    def test_is_launched_with_its_own_program(self):
        text = self.run_program("launch", "1x2x16x8", "--model", "unet2b").stdout
        self.assertIn("program=${UNET:-build/release/bin/unet}", text)
        self.assertIn("multipliers = [1, 2, 2, 2]\n", text)
        self.assertRegex(text, r"\nactivation_checkpoint = [01]\n")

    def test_mistakes_are_one_sentence(self):
        self.refuse(*self.FLAGS, "--batch-tokens", "4M", words=["a batch of unet2b is counted in images: --batch 2048"])
        self.refuse(*self.FLAGS, "--hidden", "64",
                    words=["--hidden is a size of transformers, and unet2b is a UNet"])
        self.refuse("--gpus", "8", "--model", "gpt5b", "--base", "64",
                    words=["--base is a size of UNets, and gpt5b is a transformer"])
        self.refuse("--gpus", "8", "--model", "unet2", words=["unknown model 'unet2'; did you mean"])
        self.refuse("--gpus", "8", "--base", "48", words=["groups must divide the channels of every norm"])
        self.refuse("--gpus", "56", "--model", "unet2b", status=1,
                    words=["channels % ", "heads % ", "the nearest counts"])


class Machine(PlannerTest):
    def test_may_be_a_file_made_from_a_preset(self):
        flags = ("--gpus", "64", "--model", "gpt5b")
        for name in ("perlmutter", "frontier", "alps", "dgx-a100", "dgx-h100", "dgx-h200", "workstation"):
            self.write("mine.toml", self.run_program("machine", name).stdout)
            ours, preset = (self.plan("--gpus", "8", "--model", "gpt-124m", "--machine", one)["layouts"]
                            for one in ("mine.toml", name))
            self.assertEqual([layout["grid"] for layout in ours], [layout["grid"] for layout in preset])
            self.assertAlmostEqual(ours[0]["seconds"], preset[0]["seconds"], places=6)
        self.assertNotEqual(self.plan(*flags, "--machine", "dgx-h100")["layouts"][0]["seconds"],
                            self.plan(*flags)["layouts"][0]["seconds"])


class Output(PlannerTest):
    FLAGS = ("--gpus", "64", "--model", "gpt5b", "--top", "7")

    def test_for_people_names_what_comes_next(self):
        text = self.run_program(*self.FLAGS).stdout
        best = "x".join(map(str, self.plan(*self.FLAGS)["layouts"][0]["grid"]))
        for words in ("16 nodes x 4 A100", "rank  grid x.y.z.data", "not possible:", "lost by",
                      f"axonn-config explain {best} --model gpt5b"):
            self.assertIn(words, text)

    def test_as_csv_is_the_json(self):
        rows = list(csv.DictReader(io.StringIO(self.run_program(*self.FLAGS, "--csv").stdout)))
        layouts = self.plan(*self.FLAGS)["layouts"]
        self.assertEqual(len(rows), 7)
        for row, layout in zip(rows, layouts):
            self.assertEqual([int(row[axis]) for axis in ("x", "y", "z", "data")], layout["grid"])
            self.assertAlmostEqual(float(row["seconds"]), layout["seconds"], places=6)

    def test_as_plot_is_svg_with_what_was_measured(self):
        best = "x".join(map(str, self.plan(*self.FLAGS)["layouts"][0]["grid"]))
        self.write("measured.csv", f"# grid,seconds\n{best},20.5\n")
        self.run_program(*self.FLAGS, "--plot", "out.svg", "--measurements", "measured.csv")
        svg = xml.etree.ElementTree.parse(self.directory / "out.svg").getroot()
        self.assertTrue(svg.tag.endswith("svg"))
        self.assertEqual(sum(one.get("fill") == "#222222" for one in svg), 1)

    def test_links_no_library_of_training(self):
        libraries = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stdout
        for name in ("torch", "mpi", "nccl", "cuda"):
            self.assertNotIn(name, libraries)


if __name__ == "__main__":
    unittest.main()
