"""Hugging Face's config.json: the network is planned as it is, or refused by name."""
import json
import unittest

from planner_runs import PlannerTest
from public_models import MODELS, longest

JOB = ("--gpus", "4096", "--machine", "dgx-h200", "--batch", "4096", "--top", "1")
LLAMA = next(model["config"] for model in MODELS if model["name"] == "llama-3-8b")


class Networks(PlannerTest):
    def config(self, config, **changes):
        changed = {**config, **changes}
        return self.write("config.json", json.dumps({key: value for key, value in changed.items() if value != "none"}))

    def network(self, config, *flags, **changes):
        sequence = min(longest(config), 4096)
        return self.plan(*JOB, "--model", self.config(config, **changes), "--sequence", sequence, *flags)

    def test_of_forty_public_files_have_the_parameters_that_transformers_counts(self):
        self.assertGreaterEqual(len(MODELS), 25)
        for model in MODELS:
            found = self.network(model["config"])
            self.assertEqual(found["parameters"], model["parameters"], model["name"])
            self.assertEqual(len(found["layouts"]), 1, model["name"])

    def test_of_experts_have_the_parameters_that_a_token_meets(self):
        active = {"mixtral-8x7b": 12.88, "qwen3-30b-a3b": 3.35, "qwen3-235b-a22b": 22.19, "qwen1.5-moe-a2.7b": 2.69,
                  "qwen2-57b-a14b": 14.25}
        for model in MODELS:
            if model["name"] in active:
                found = self.network(model["config"])
                self.assertAlmostEqual(found["active_parameters"] / 1e9, active[model["name"]], delta=0.005)

    def test_with_keys_left_out_have_the_librarys_values(self):
        for model in MODELS:
            usual = {"mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
                     "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
                     "gemma": {"head_dim": 256, "tie_word_embeddings": True}}.get(model["config"]["model_type"], {})
            config = model["config"]
            short = {key: "none" for key, value in usual.items() if config.get(key) == value}
            if short:
                whole, left = self.network(config), self.network(config, **short)
                self.assertEqual(left["sizes"], whole["sizes"], model["name"])

    def test_are_printed_with_their_sizes(self):
        text = self.run_program(*JOB, "--model", self.config(LLAMA)).stdout
        self.assertTrue(text.startswith(
            "config.json: layers 32, hidden 4096, heads 32, sequence 8192, vocab 128256, mlp_hidden 14336, kv_heads 8, "
            "head_dim 128, gated, norm_epsilon 1e-06, block_norms 2, 8030261248 parameters\n"), text[:300])
        self.assertEqual(self.network(LLAMA)["sizes"]["kv_heads"], 8)
        mixtral = next(model["config"] for model in MODELS if model["name"] == "mixtral-8x7b")
        text = self.run_program(*JOB, "--model", self.config(mixtral), "--sequence", "4k").stdout
        self.assertIn("experts 8, token_experts 2", text)
        self.assertIn("46702792704 parameters, of which a token meets 12879925248\n", text)
        self.assertTrue(self.run_program("--gpus", "64", "--model", "gpt5b").stdout.startswith(
            "gpt5b: layers 24, hidden 4096, heads 32, sequence 2048, vocab 51200, mlp_hidden 16384, "))

    def test_say_how_long_sequences_are_only_up_to_8192(self):
        long = self.config(LLAMA, max_position_embeddings=131072)
        self.refuse(*JOB, "--model", long, words=["config.json allows sequences of 131072 tokens", "--sequence 8192"])
        self.refuse("explain", "1x1x8x8", "--model", long, words=["allows sequences of 131072 tokens"])
        for sequence in (4096, 131072):
            found = self.plan(*JOB, "--model", long, "--sequence", sequence)
            self.assertEqual((found["sizes"]["sequence"], found["parameters"]), (sequence, 8030261248))
        opt = next(model["config"] for model in MODELS if model["name"] == "opt-6.7b")
        self.refuse(*JOB, "--model", self.config(opt), "--sequence", "4096",
                    words=["has 2050 learned positions, got sequence = 4096"])

    def test_of_other_types_are_refused_by_name(self):
        for kind in ("bert", "bloom", "falcon", "mpt", "phi", "phi3", "gemma3", "deepseek_v3", "t5", "gptj",
                     "starcoder2", "cohere", "mamba", "dbrx", "llama4", "olmo2", "nemotron", "stablelm"):
            self.refuse(*JOB, "--model", self.config(LLAMA, model_type=kind),
                        words=[f'describes a network of model_type "{kind}"', "this planner knows gpt2, opt, gpt_neox, "
                               "llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text, mixtral, qwen2_moe, "
                               "qwen3_moe"])
        self.refuse(*JOB, "--model", self.config(LLAMA, model_type="none"),
                    words=["config.json: 'model_type' is missing", "the planner knows gpt2, opt"])
        opt = next(model["config"] for model in MODELS if model["name"] == "opt-6.7b")
        for key, value, words in (("word_embed_proj_dim", 512, "whose embedding is projected"),
                                  ("do_layer_norm_before", False, "with norms after its layers"),
                                  ("enable_bias", False, "without biases")):
            self.refuse(*JOB, "--model", self.config(opt, **{key: value}), words=[words])
        gpt2 = next(model["config"] for model in MODELS if model["name"] == "gpt2")
        self.refuse(*JOB, "--model", self.config(gpt2, add_cross_attention=True), words=["with cross attention"])
        sparse = next(model["config"] for model in MODELS if model["name"] == "qwen3-30b-a3b")
        self.refuse(*JOB, "--model", self.config(sparse, decoder_sparse_step=2, mlp_only_layers=[1]),
                    words=["with both mlp_only_layers and decoder_sparse_step"])

    def test_with_sizes_that_do_not_fit_are_one_sentence(self):
        for changes, words in (({"num_key_value_heads": 5}, "heads must divide by kv_heads"),
                               ({"num_attention_heads": 33}, "hidden must divide by heads"),
                               ({"hidden_size": "none"}, "config.json: 'hidden_size' is missing"),
                               ({"hidden_size": 4096.5}, "'hidden_size' must be a whole number from 1 to 2147483647, "
                                "got 4096.5"),
                               ({"vocab_size": 9999999999}, "to 2147483647, got 9999999999"),
                               ({"tie_word_embeddings": 1}, "'tie_word_embeddings' must be true or false, got 1"),
                               ({"intermediate_size": []}, "'intermediate_size' must be a whole number")):
            self.refuse(*JOB, "--model", self.config(LLAMA, **changes), words=[words])
        mixtral = next(model["config"] for model in MODELS if model["name"] == "mixtral-8x7b")
        self.refuse(*JOB, "--model", self.config(mixtral, num_experts_per_tok=9), "--sequence", "4k",
                    words=["token_experts must be from 1 to experts = 8, got 9"])
        gemma = next(model["config"] for model in MODELS if model["name"] == "gemma-2-2b")
        self.refuse(*JOB, "--model", self.config(gemma, layer_types="full"), "--sequence", "4k",
                    words=["'layer_types' must be a list"])

    def test_see_fewer_scores_through_a_window(self):
        mistral = next(model["config"] for model in MODELS if model["name"] == "mistral-7b-v0.1")
        whole = self.network(mistral, "--sequence", "32k", sliding_window=None)["layouts"][0]
        part = self.network(mistral, "--sequence", "32k")["layouts"][0]
        self.assertLess(part["compute_seconds"], 0.8 * whole["compute_seconds"])

    def test_that_no_program_trains_are_not_launched(self):
        configs = {model["name"]: model["config"] for model in MODELS}
        for name, part in (("mixtral-8x7b", "8 experts"), ("gemma-2-2b", "4 norms per block")):
            self.refuse("launch", "1x1x64x64", "--machine", "dgx-h200", "--model", self.config(configs[name]),
                        "--sequence", "4096", words=[f"no program of ours trains config.json yet: it has {part}"])
        self.assertIn("layers = 12",
                      self.run_program("launch", "1x1x4x2", "--model", self.config(configs["gpt2"])).stdout)
        text = self.run_program("launch", "1x1x64x64", "--machine", "dgx-h200", "--batch", "4096", "--model",
                                self.config(LLAMA, rope_theta=500000.0)).stdout
        for line in ("kv_heads = 8", "mlp_hidden = 14336", "gated = true", "rope_theta = 5e+05"):
            self.assertIn(line, text)
        for changes in ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, {"hidden_act": "gelu"}):
            self.refuse("launch", "1x1x64x64", "--machine", "dgx-h200", "--batch", "4096", "--model",
                        self.config(LLAMA, **changes), words=["it has a rotation, an activation or a norm that is"])

    def test_may_be_given_by_flags(self):
        sizes = ("--layers", 32, "--hidden", 4096, "--heads", 32, "--kv-heads", 8, "--mlp-hidden", 14336, "--sequence",
                 8192, "--vocab", 128256, "--gated")
        self.assertEqual(self.plan(*JOB, *sizes)["parameters"], 8030261248)
        self.write("llama.toml", "[model]\nlayers = 32\nhidden = 4096\nheads = 32\nkv_heads = 8\nmlp_hidden = 14336\n"
                   "sequence = 8192\nvocab = 128256\ngated = true\n")
        self.assertEqual(self.plan(*JOB, "--model", "llama.toml")["parameters"], 8030261248)

    def test_of_a_preset_may_have_what_gpt2_does_not(self):
        few_keys = ("--model", "gpt5b", "--kv-heads", "8")
        found = self.plan(*JOB, *few_keys)
        # In each of 24 blocks 24 heads of keys and 24 of values less, of 128 features, with biases.
        self.assertEqual(found["parameters"], 5260943360 - 24 * 2 * 24 * 128 * (4096 + 1))
        self.assertEqual((found["sizes"]["kv_heads"], found["sizes"]["positions"]), (8, 2048))
        text = self.run_program("launch", "1x1x64x64", "--machine", "dgx-h200", "--batch", "4096", *few_keys).stdout
        self.assertIn("kv_heads = 8", text)


if __name__ == "__main__":
    unittest.main()
