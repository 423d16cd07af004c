"""Megatron-core, which scripts/setup --interop installs, reads what `gpt tokenize` writes, and writes the same."""
import json
import os
import pathlib
import subprocess
import unittest

from gpt_runs import GptTest
from tokenize_test import read_pair
from transformers_export_test import LIBRARY, PYTHON, TORCH

MEGATRON = next((pathlib.Path(__file__).resolve().parents[2] / ".deps").glob(
    "megatron-core-*/lib/python3*/site-packages"), None)

# The documents and the type of a pair, and the same documents by their writer.
READ_AND_WRITE = """
import json, sys
import torch
from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder
prefix, again, vocabulary = sys.argv[1], sys.argv[2], int(sys.argv[3])
dataset = IndexedDataset(prefix)
starts = dataset.document_indices.tolist()
documents = [sum((dataset[i].tolist() for i in range(begin, end)), []) for begin, end in zip(starts, starts[1:])]
builder = IndexedDatasetBuilder(again + ".bin", dtype=DType.optimal_dtype(vocabulary))
for document in documents:
    builder.add_document(torch.tensor(document), [len(document)])
builder.finalize(again + ".idx")
print(json.dumps({"documents": documents, "type": dataset.index.dtype.__name__}))
"""


@unittest.skipUnless(MEGATRON and PYTHON and LIBRARY, "no megatron-core and PyTorch in .deps (scripts/setup --interop)")
class Megatron(GptTest):
    def test_its_reader_and_writer_agree_with_ours(self):
        (self.directory / "lines.jsonl").write_text("".join(
            json.dumps({"text": f"line {i}, {i * i % 97}" * (i % 7 + 1)}) + "\n" for i in range(200)))
        ended = self.gpt("tokenize", "lines.jsonl", "--train-bpe", "300", "--out", "ours")
        self.assertEqual(ended.status, 0, ended.text)
        paths = os.pathsep.join(map(str, (TORCH, LIBRARY, MEGATRON)))
        theirs = subprocess.run([PYTHON, "-c", READ_AND_WRITE, "ours", "theirs", "300"], cwd=self.directory,
                                capture_output=True, text=True, timeout=200, check=False,
                                env={**os.environ, "PYTHONPATH": paths})
        self.assertEqual(theirs.returncode, 0, theirs.stderr[-2000:])
        found = json.loads(theirs.stdout.splitlines()[-1])
        self.assertEqual(found, {"documents": read_pair(self.directory / "ours"), "type": "uint16"})
        self.assertEqual(len(found["documents"]), 200)
        for suffix in (".bin", ".idx"):
            self.assertEqual((self.directory / f"theirs{suffix}").read_bytes(),
                             (self.directory / f"ours{suffix}").read_bytes(), suffix)


if __name__ == "__main__":
    unittest.main()
