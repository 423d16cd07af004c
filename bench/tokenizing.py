#!/usr/bin/env python3
"""How fast texts become tokens, and a tokenizer is learned: axonn beside tiktoken and Hugging Face's
tokenizers, in turns.

    bench/tokenizing.py TEXTS [--megabytes 12] [--vocabulary 16000] [--turns 3]

TEXTS are files and folders of text, of which the first megabytes are taken, each file a document.
First axonn and tokenizers learn as many tokens of them, on one thread; seconds of the processor and
memory are those of whole processes, and axonn's also writes the texts as tokens. The memory before
any text, of the libraries, stands beside: that of gpt is LibTorch's. Then all encode the
texts with the learned tokenizer on one thread; axonn's time is with files read and written
(`tokenizing`), those of the others are of texts in memory. All must find the same tokens. Needs what
`scripts/setup --interop` installs.
"""
import argparse
import array
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
DEPS = TOP / ".deps"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ONE_THREAD = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

LEARN = """
import sys, tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers
learner = tokenizers.Tokenizer(models.BPE())
learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
learner.decoder = decoders.ByteLevel()
texts = (open(path, encoding="utf-8", errors="replace", newline="").read() for path in sys.argv[3:])
learner.train_from_iterator(texts, trainers.BpeTrainer(
    vocab_size=int(sys.argv[2]), special_tokens=["<|endoftext|>"], show_progress=False,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
learner.save(sys.argv[1])
"""

ENCODE = """
import array, json, sys, time
what, file, pattern, out, *paths = sys.argv[1:]
texts = [open(path, encoding="utf-8", errors="replace", newline="").read() for path in paths]
if what == "tiktoken":
    import tiktoken
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
    vocabulary = json.load(open(file))["model"]["vocab"]
    ranks = {bytes(map(letters.get, token)): id for token, id in vocabulary.items() if token != "<|endoftext|>"}
    encoding = tiktoken.Encoding("learned", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    encode = lambda: [encoding.encode_ordinary(text) for text in texts]
else:
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.encode_special_tokens = True  # as text
    encode = lambda: [some.ids for some in tokenizer.encode_batch_fast(texts)]
begin = time.perf_counter()
all = encode()
seconds = time.perf_counter() - begin
with open(out, "wb") as ids:
    for some in all:
        array.array("H", some).tofile(ids)
print(seconds)
"""


def ended(command, **environment):
    """The output of the command, its processor seconds, and its greatest memory in MB."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT,
                                   env={**os.environ, **ONE_THREAD, **environment})
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        text = output.read()
    if status != 0:
        sys.exit(f"tokenizing.py: {command[0]} failed: {text[-2000:]}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def library(name):
    found = sorted(DEPS.glob(f"{name}-*/lib/python3*/site-packages"))
    if not found:
        sys.exit(f"tokenizing.py: there is no {name}; run scripts/setup --interop first")
    return str(found[-1])


def take_texts(inputs, megabytes, folder):
    """Copies so much text into the folder, each file whole but the last; the copies' paths in order."""
    files = [path for given in map(pathlib.Path, inputs)
             for path in (sorted(given.rglob("*")) if given.is_dir() else [given]) if path.is_file()]
    left, copies = int(megabytes * 1e6), []
    for file in files:
        text = file.read_bytes()[:left]
        if text:
            copies.append(folder / f"{len(copies):06}.txt")
            copies[-1].write_text(text.decode("utf-8", "replace"), encoding="utf-8", newline="")
            left -= len(text)
    return copies


class Sides:
    def __init__(self, args, scratch, paths):
        self.args, self.scratch, self.paths = args, scratch, paths
        self.megabytes = sum(path.stat().st_size for path in paths) / 1e6
        self.file = scratch / "ours.tokenizer" / "tokenizer.json"

    def learn_ours(self):
        return ended([self.args.bin / "gpt", "tokenize", self.scratch / "texts", "--train-bpe", self.args.vocabulary,
                      "--workers", 1, "--no-eos", "--out", self.scratch / "ours", "--overwrite"])[1:]

    def learn_theirs(self):
        return ended([sys.executable, "-c", LEARN, self.scratch / "theirs.json", self.args.vocabulary, *self.paths],
                     PYTHONPATH=library("transformers"))[1:]

    def libraries(self):
        """The memory of both before any text."""
        return {"axonn": ended([self.args.bin / "gpt", "--version"])[2],
                "tokenizers": ended([sys.executable, "-c", "import tokenizers"], PYTHONPATH=library("transformers"))[2]}

    def encode_ours(self):
        text = ended([self.args.bin / "tokenizing", self.file.parent, self.scratch / "texts", "--threads", 1,
                      "--repetitions", 1, "--directory", self.scratch])[0]
        return float(re.search(r"([\d.]+) MB/s", text).group(1))

    def encode_theirs(self, name):
        folder = library({"tokenizers": "transformers"}.get(name, name))
        text = ended([sys.executable, "-c", ENCODE, name, self.file, GPT2, self.scratch / f"{name}.bin", *self.paths],
                     PYTHONPATH=folder)[0]
        return self.megabytes / float(text.split()[-1])

    def same_merges(self):
        ours, theirs = (json.loads(file.read_text())["model"] for file in (self.file, self.scratch / "theirs.json"))
        pairs = [[" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
                 for model in (ours, theirs)]
        return pairs[0] == pairs[1]

    def different_ids(self):
        """The peers whose tokens of all texts are not ours."""
        ids = array.array("H", (self.scratch / "ours.bin").read_bytes())
        return [name for name in ("tiktoken", "tokenizers")
                if array.array("H", (self.scratch / f"{name}.bin").read_bytes()) != ids]


def line(name, some, base, unit):
    middle = statistics.median(some)
    print(f"| {name} | {middle:.3g} {unit} | {min(some):.3g} to {max(some):.3g} | {middle / base:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", metavar="TEXTS")
    parser.add_argument("--megabytes", type=float, default=12)
    parser.add_argument("--vocabulary", type=int, default=16000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=TOP / "build/release/bin")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="axonn-tokenizing-") as folder:
        scratch = pathlib.Path(folder)
        (scratch / "texts").mkdir()
        sides = Sides(args, scratch, take_texts(args.texts, args.megabytes, scratch / "texts"))
        learned = {"axonn": [], "tokenizers": []}
        rates = {"axonn": [], "tiktoken": [], "tokenizers": []}
        for _ in range(args.turns):
            learned["axonn"].append(sides.learn_ours())
            learned["tokenizers"].append(sides.learn_theirs())
            rates["axonn"].append(sides.encode_ours())
            for name in ("tiktoken", "tokenizers"):
                rates[name].append(sides.encode_theirs(name))
        merges, different, libraries = sides.same_merges(), sides.different_ids(), sides.libraries()
    print(f"{sides.megabytes:.1f} MB, {len(sides.paths)} documents; a tokenizer of {args.vocabulary} tokens, merges "
          f"{'equal' if merges else 'DIFFERENT'}; tokens {'equal' if not different else f'DIFFERENT in {different}'}\n")
    print("| | median | least to greatest | of axonn |\n| --- | --- | --- | --- |")
    rows = {"s": {name: [turn[0] for turn in turns] for name, turns in learned.items()},
            "MB": {name: [turn[1] for turn in turns] for name, turns in learned.items()},
            "MB beside libraries": {name: [turn[1] - libraries[name] for turn in turns]
                                    for name, turns in learned.items()}}
    for unit, sides_of in rows.items():
        for name, some in sides_of.items():
            line(f"{name}, learning", some, statistics.median(sides_of["axonn"]), unit)
    for name, some in rates.items():
        line(f"{name}, encoding", some, statistics.median(rates["axonn"]), "MB/s")
    sys.exit(0 if merges and not different else 1)


if __name__ == "__main__":
    main()
