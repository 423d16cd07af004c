#!/usr/bin/env python3
"""In the place of every program of a pack, under its name: prints and writes what the real one would, in no time.
PACK/faults.json plants faults: [a part of the command line, what happens]."""
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(sys.argv[0]).absolute()  # not where a link leads
PACK = next(folder for folder in HERE.parents if (folder / "faults.json").exists())
NAME, WORDS = HERE.name, sys.argv[1:]
LOSS, OFF = 4.0, 4.1
GPT = ["cross-entropy", "embedding", "layer-norm", "adamw", "epilogues", "cublaslt", "flash"]
UNET = ["group-norm", "adamw", "tail", "device-noise", "epilogues", "cudnn-benchmark"]


def after(flag, count=1):
    at = WORDS.index(flag) + 1
    return WORDS[at:at + count]


def names_after(flag):
    found = []
    for word in WORDS[WORDS.index(flag) + 1:]:
        if word.startswith("--"):
            break
        found.append(word)
    return found


def fault(text):
    """The fault where this part of the work is done."""
    for part, what in json.loads((PACK / "faults.json").read_text()):
        if part in text:
            return what
    return ""


def suffer(what):
    if what == "hang":
        time.sleep(1000)
    if what == "gone":
        (PACK / "device").unlink()
        sys.exit("CUDA error: the device is lost")
    if what == "crash":
        sys.exit("CUDA error: an illegal memory access was encountered")


def metrics(steps, loss):
    return "".join(json.dumps({"loss": loss, "seconds": {"step": 0.1}, "tokens_per_second": 1e5,
                               "model_flops_per_second": 3e14, "utilisation": 0.5, "peak_memory_bytes": 2e9}) + "\n"
                   for _ in range(steps))


def train():
    resumes = "--resume" in WORDS
    out = pathlib.Path(after("--resume" if resumes else "--out")[0], "metrics.jsonl")
    before = out.read_text() if resumes else ""
    out.write_text(before + metrics(int(after("--steps")[0]) - before.count("\n"), LOSS))
    if "--trace" in WORDS:
        lane = {"ph": "M", "tid": 1, "name": "thread_name", "args": {"name": "GPU stream 7"}}
        spans = [{"ph": "X", "tid": 0, "name": "step 3", "ts": 0, "dur": 9000},
                 {"ph": "X", "tid": 1, "name": "axonn::a kernel", "ts": 0, "dur": 3000},
                 {"ph": "X", "tid": 1, "name": "axonn::a kernel", "ts": 6000, "dur": 2000}]
        pathlib.Path(after("--trace")[0]).write_text(json.dumps({"traceEvents": [lane, *spans]}))


def losses():
    for dtype in after("--dtype")[0].split(","):
        for kernels in names_after("--kernels"):
            row = {"network": WORDS[1], "dtype": dtype, "kernels": kernels}
            what = fault(f"losses {' '.join(row.values())}")
            suffer(what)
            print(json.dumps(row | {"losses": [OFF if what == "wrong" else LOSS] * 10}), flush=True)


def times():
    names = names_after("--only") if "--only" in WORDS else GPT if WORDS[1] == "gpt" else UNET
    for name in names:
        suffer(fault(f"time {WORDS[1]} {name}"))
        print(json.dumps({"switch": name, "off_ms": 110.0, "on_ms": 100.0, "ratio": 1.1, "off_GB": 3.0, "on_GB": 2.0,
                          "per_second": 1e5, "product_tflops": 700.0, "share": 0.5}), flush=True)


def peers():
    rows = ([{"kind": "copy", "GB/s": 3000.0}, {"kind": "8192^3", "TFLOP/s": 790.0},
             {"library": "nccl", "side": "PyTorch", "version": 22809, "path": "/there/libnccl.so.2"}]
            if WORDS[0] == "bounds" else
            [{"kind": kind, "ms": 90.0, "per_second": 5e4, "losses": [LOSS]} for kind in ("eager", "compiled")])
    for row in rows:
        print(json.dumps(row), flush=True)


def main():
    suffer(fault(" ".join([NAME, *WORDS])))
    if NAME == "cuda_probe":
        return 0 if (PACK / "device").exists() else 77
    if NAME == "nvidia-smi":
        print((PACK / "device").read_text())  # fails where it is gone
    elif NAME == "cuda_kernels_test":
        compared = fault("kernels compared") != "wrong"
        print(json.dumps({"test": NAME, "compared": compared, "cases": 300, "launches": 900, "failed": 0}))
    elif NAME == "nccl_collectives_test" and os.environ["WORLD_SIZE"] != "2":
        return 1
    elif NAME == "versions.py":
        print(json.dumps({"library": "nccl", "side": "axonn", "version": 22809, "path": "/here/libnccl.so.2"}))
    elif NAME == "product_epilogues":
        print(json.dumps({"kind": "bias", "width": 768, "there": True, "error": 0.001, "ms": 0.1, "plain_ms": 0.2}))
    elif NAME == "peers_cuda.py":
        peers()
    elif WORDS[:1] == ["losses"]:
        losses()
    elif WORDS[:1] == ["time"]:
        times()
    elif WORDS[:1] == ["train"]:
        train()
    return 0


if __name__ == "__main__":
    sys.exit(main())
