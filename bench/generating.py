#!/usr/bin/env python3
"""How fast a directory of Hugging Face's writes text: axonn beside transformers and llama.cpp, in turn.

    bench/generating.py [MODEL] [--turns 3] [--prompt 16] [--tokens 128] [--threads 1] [--no-peers]
    bench/generating.py [MODEL] --prompt 1000 --tokens 16 --uncached
        axonn with its cache beside axonn that computes all earlier tokens again

MODEL is SmolLM2-135M of `scripts/setup --interop`, if none is named, and the peers are what that
command installs. All continue the same ids with the most likely token, one text at a time. The
first token is left out: it has the prompt's time. The table has tokens per second: the median,
the least and the greatest, and the median's ratio to axonn in fp32.
"""
import argparse
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
GPT = TOP / "build/release/bin/gpt"

TRANSFORMERS = """
import json, sys, time, torch, transformers
directory, dtype, tokens, threads, ids = sys.argv[1], sys.argv[2], *json.loads(sys.argv[3])
torch.set_num_threads(threads)
model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()
begins = torch.tensor([ids])
def seconds(count):
    begin = time.perf_counter()
    with torch.inference_mode():
        made = model.generate(begins, attention_mask=torch.ones_like(begins), do_sample=False, max_new_tokens=count,
                              min_new_tokens=count, pad_token_id=0)
    assert made.shape[1] == len(ids) + count
    return time.perf_counter() - begin
seconds(4)
print((tokens - 1) / (seconds(tokens) - seconds(1)))
"""

LLAMA_CPP = """
import json, sys, xllamacpp
tokens, threads, ids = json.loads(sys.argv[3])
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.warmup, params.verbosity = len(ids) + tokens + 8, 1, True, -1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
for count in (4, tokens):
    answer = server.handle_completions({"prompt": ids, "n_predict": count, "temperature": 0, "top_k": 1,
                                        "ignore_eos": True, "cache_prompt": False})
    answer = answer if isinstance(answer, dict) else json.loads(answer)
times = answer["timings"]
assert times["predicted_n"] == tokens, times
print(times["predicted_per_second"])
"""


def call(command, **environment):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                           env={**os.environ, **environment})
    if ended.returncode != 0:
        sys.exit(f"generating.py: {command[0]} ended with status {ended.returncode}: {ended.stderr[-2000:]}")
    return ended


def only(pattern, what):
    found = sorted(DEPS.glob(pattern))
    return found[-1] if found else sys.exit(f"generating.py: there is no {what}; run scripts/setup --interop first")


class Sides:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        self.ids = [(7919 * n) % 4096 + 100 for n in range(args.prompt)]
        self.threads = {"OMP_NUM_THREADS": str(args.threads), "MKL_NUM_THREADS": str(args.threads)}

    def axonn(self, dtype, *flags):
        ended = call([GPT, "generate", self.args.model, "--ids", ",".join(map(str, self.ids)), "--tokens",
                      self.args.tokens, "--temperature", 0, "--ignore-eos", "--dtype", dtype, "--verbose", *flags],
                     **self.threads)
        return float(re.search(r"([\d.e+]+) per s", ended.stderr).group(1))

    def words(self):
        return json.dumps([self.args.tokens, self.args.threads, self.ids])

    def transformers(self, dtype):
        torch = only("torch-*-cuda/lib/python3*/site-packages", "PyTorch of Python")
        paths = [torch, only("transformers-*/lib/python3*/site-packages", "transformers")]
        ended = call([torch.parents[2] / "bin/python", "-W", "ignore", "-c", TRANSFORMERS, self.args.model, dtype,
                      self.words()], PYTHONPATH=os.pathsep.join(map(str, paths)), **self.threads)
        return float(ended.stdout.split()[-1])

    def llama_cpp(self, dtype):
        file = self.scratch / f"{dtype}.gguf"
        if not file.exists():
            call([GPT, "export", self.args.model, "--format", "gguf", "--dtype", dtype, "--out", file])
        ended = call([only("llama-cpp-*/bin/python", "llama.cpp"), "-c", LLAMA_CPP, file, dtype, self.words()],
                     PYTHONPATH="", **self.threads)
        return float(ended.stdout.split()[-1])

    def all(self):
        if self.args.uncached:
            return {f"axonn, {dtype}{text}": lambda dtype=dtype, flags=flags: self.axonn(dtype, *flags)
                    for dtype in ("fp32", "bf16") for text, flags in (("", []), (", --no-cache", ["--no-cache"]))}
        sides = {f"axonn, {dtype}": lambda dtype=dtype: self.axonn(dtype) for dtype in ("fp32", "bf16")}
        if self.args.peers:
            sides |= {"transformers, fp32": lambda: self.transformers("float32"),
                      "transformers, bf16": lambda: self.transformers("bfloat16"),
                      "llama.cpp, F32": lambda: self.llama_cpp("fp32"),
                      "llama.cpp, BF16": lambda: self.llama_cpp("bf16")}
        return sides


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=str(DEPS / "smollm2-135m"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=16, help="ids of the prompt")
    parser.add_argument("--tokens", type=int, default=128, help="ids to add")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--uncached", action="store_true", help="axonn with and without its cache")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    if not (pathlib.Path(args.model) / "config.json").exists():
        parser.error(f"there is no {args.model}/config.json; run scripts/setup --interop, or name a directory")
    with tempfile.TemporaryDirectory(prefix="axonn-generation-") as scratch:
        sides = Sides(args, pathlib.Path(scratch)).all()
        rates = {name: [] for name in sides}
        for _ in range(args.turns):
            for name, measure in sides.items():
                rates[name].append(measure())
    base = statistics.median(rates["axonn, fp32"])
    print("| program | tokens/s | least to greatest | of axonn in fp32 |\n| --- | --- | --- | --- |")
    for name, some in rates.items():
        median = statistics.median(some)
        print(f"| {name} | {median:.3g} | {min(some):.3g} to {max(some):.3g} | {median / base:.2f} |")


if __name__ == "__main__":
    main()
