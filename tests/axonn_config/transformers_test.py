"""The stored counts of parameters are those of transformers, which builds each network without memory
(PyTorch's meta device). scripts/setup --interop installs both."""
import json
import os
import pathlib
import subprocess
import unittest

from public_models import MODELS

DEPS = pathlib.Path(__file__).parents[2] / ".deps"
PYTHON = next(DEPS.glob("torch-*-cuda/bin/python"), None)
LIBRARY = next(DEPS.glob("transformers-*/lib/python3*/site-packages"), None)
COUNT = """
import json, sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
counts = []
for config in json.load(sys.stdin):
    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    counts.append(sum(parameter.numel() for parameter in network.parameters()))
print(json.dumps(counts))
"""


@unittest.skipUnless(PYTHON and LIBRARY, "no transformers in .deps (scripts/setup --interop)")
class Transformers(unittest.TestCase):
    def test_counts_what_is_stored(self):
        # Keys that a file may leave out, because the library has a value for them.
        usual = {"mistral": {"num_key_value_heads": 8}, "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
                 "gemma": {"head_dim": 256, "tie_word_embeddings": True}}
        configs = [(model["parameters"], model["config"]) for model in MODELS]
        for count, config in list(configs):
            short = {key: value for key, value in config.items()
                     if usual.get(config["model_type"], {}).get(key) != value}
            if short != config:
                configs.append((count, short))
        ended = subprocess.run([PYTHON, "-c", COUNT], input=json.dumps([config for _, config in configs]),
                               capture_output=True, text=True, timeout=200,
                               env={**os.environ, "PYTHONPATH": str(LIBRARY)})
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for counted, (stored, config) in zip(json.loads(ended.stdout), configs, strict=True):
            self.assertEqual(counted, stored, config)


if __name__ == "__main__":
    unittest.main()
