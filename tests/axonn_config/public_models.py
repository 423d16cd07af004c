"""Public configurations in Hugging Face's form, with the parameters that transformers counts."""
import json
import pathlib

MODELS = json.loads(pathlib.Path(__file__).with_name("public_models.json").read_text())


def longest(config):
    """The longest sequence that the configuration allows."""
    return config.get("max_position_embeddings") or config["n_positions"]
