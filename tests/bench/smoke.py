"""Runs a program of bench on its smallest setting, to see that it still ends well: smoke.py PROGRAM.
AXONN_BIN is the folder of the built programs. The status is 77, CTest's SKIP, with the reason, where this
machine lacks what the program needs."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing

TOP = pathlib.Path(__file__).resolve().parents[2]
PYTHONS = [TOP / ".deps/peers/bin/python", TOP / ".deps/torch-2.11.0-cuda/bin/python", sys.executable]
NETWORK = "--layers 1 --hidden 48 --heads 12 --sequence 16"
ADAMW = "--program {top}/configs/programs/adamw.program"
CIFAR_RECORD, CIFAR_IMAGES = 3073, 512


class Smallest(typing.NamedTuple):
    """A program without a row below runs without words, needs nothing and has one rank."""
    words: str = ""
    ranks: int = 1
    needs: tuple = ()


SETTINGS = {
    "collectives": Smallest("--min 64 --max 64 --repetitions 1 --overlap", ranks=2),
    "convolutions": Smallest("--repetitions 1 --images 1"),
    "gpu_switches": Smallest(f"losses gpt {NETWORK} --vocab 256 --batch 1 --steps 1 --device cpu"),
    "linear_schedules": Smallest(f"--turns 1 --bin {{bin}} -- --grid 2x1x1x1 {NETWORK} --vocab 256 --batch 2 "
                                 "--micro-batch 2", needs=("hosts",)),
    "loading": Smallest("{scratch}/model --grid 1x2x1x1 --repetitions 1", ranks=2),
    "loss_beside_pytorch": Smallest("--data {top}/docs --steps 2 --grids 1x1x1x1 1x1x2x1 --vocabulary 300 --bin {bin}",
                                    needs=("torch",)),
    "loss_curves": Smallest("grids --data {top}/docs --steps 2 --grids 1x1x1x1 2x1x1x1 --program {bin}/gpt "
                            "--out {scratch}", ranks=2),
    "memory": Smallest(f"--grids 1x1x2x1 --gpt {{bin}}/gpt -- {NETWORK} --vocab 256", ranks=2),
    "micro_batches": Smallest("--planner {bin}/axonn-config"),
    "one_rank": Smallest("--repetitions 1"),
    "optimizer_schedules": Smallest(f"--least 10 --most 10 --turns 1 --rounds 1 {ADAMW}", ranks=2),
    "overlap": Smallest(f"--grid 1x1x2x1 {NETWORK} --vocab 256 --batch 2 --repetitions 1 --few", ranks=2),
    "peers": Smallest("compare --modes ddp --size tiny --pairs 1 --warmup 1 --steps 1 --bin {bin}", ranks=2,
                      needs=("torch",)),
    "peers_cuda": Smallest("bounds --rehearse", needs=("torch", "gpu")),
    "pipeline_transfer": Smallest("--exponents 15 --repetitions 1", ranks=4),
    "plot_losses": Smallest("{scratch}/run --out {scratch}/losses.svg", needs=("matplotlib",)),
    "priorities": Smallest("--messages 3", ranks=2),
    "priorities.py": Smallest("--rates 1gbit --program {bin}/priorities", needs=("hosts",)),
    "product_epilogues": Smallest("--hidden 64 --rows 64", needs=("gpu",)),
    "published_scaling": Smallest("{bin}/axonn-config {scratch}/scaling.svg"),
    "ranking": Smallest(f"--rate 1gbit --repetitions 1 --bin {{bin}} --out {{scratch}} -- {NETWORK} --vocab 256 "
                        "--batch 8", needs=("hosts",)),
    "reduction_programs": Smallest("--machine perlmutter --bytes 4k --top 1 --repetitions 1", ranks=4),
    "resuming": Smallest("--storage 0 --repeats 1 --layers 1 --hidden 48 --gpt {bin}/gpt", ranks=4, needs=("hosts",)),
    "row_kernels": Smallest("--repetitions 1"),
    "row_linear": Smallest("--shapes 64x32x32 --repetitions 1", ranks=2),
    "same_samples": Smallest("--data {scratch}/cifar --size unet-tiny --steps 1 --bin {bin}", needs=("torch",)),
    "saving": Smallest("--repeats 1 --layers 4 --hidden 192 --sequence 16 --gpt {bin}/gpt", ranks=4),
    "scale": Smallest("--ranks 4 --files 64"),
    "scaling": Smallest(f"strong 1x1x1x1 1x1x2x1 --gpt {{bin}}/gpt -- {NETWORK} --batch 4", ranks=2),
    "scattered_update": Smallest(f"--turns 1 --divisor 1000 {ADAMW}", ranks=2),
    "stage_chains": Smallest("--from 10 --to 10 --repetitions 1"),
    "token_shards": Smallest("--tokens 100k --directory {scratch}"),
    "tokenizing": Smallest("bytes {top}/docs --repetitions 1 --directory {scratch}"),
    "tokenizing.py": Smallest("{top}/docs --megabytes 0.2 --vocabulary 600 --turns 1 --bin {bin}", needs=("peers",)),
    "wrapped": Smallest(f"{NETWORK} --batch 2 --steps 1 --warmup 1", ranks=2),
    "wrapped.py": Smallest("plain --network gpt --modes ddp --repeats 1 --steps 1 --warmup 1 --bin {bin}", ranks=2,
                           needs=("torch",)),
}


def python_with(module):
    for python in filter(shutil.which, PYTHONS):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


def lacking(need):
    """Says what this machine lacks of it; empty: nothing."""
    if need == "hosts":
        if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
            return "hosts with shaped links need root, ip and tc"
        made = subprocess.run("ip netns add axonn-try && ip netns del axonn-try", shell=True, capture_output=True)
        return "" if made.returncode == 0 else "this container does not let root make network namespaces"
    if need == "peers":
        here = all(list(TOP.glob(f".deps/{name}-*")) for name in ("transformers", "tiktoken"))
        return "" if here else "tokenizers and tiktoken are not here: scripts/setup --interop installs them"
    if need == "gpu":
        return "" if os.path.exists("/dev/nvidia0") else "there is no GPU"
    return "" if python_with(need) else f"no Python here has {need}"


def fill(scratch):
    """Input of programs: a run, and images in CIFAR-10's form."""
    (scratch / "run").mkdir()
    (scratch / "run/metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n')
    write_model(scratch / "model")
    (scratch / "cifar").mkdir()
    record = bytes([3, *(place * 7 % 251 for place in range(CIFAR_RECORD - 1))])
    for number in range(1, 6):
        (scratch / f"cifar/data_batch_{number}.bin").write_bytes(record * CIFAR_IMAGES)


def write_model(directory):
    """A Llama of one block, whose weights are 0."""
    hidden, words = 16, 32
    sizes = {"model.embed_tokens": (words, hidden), "lm_head": (words, hidden), "model.norm": (hidden,)}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                 "mlp.up_proj", "mlp.down_proj"):
        sizes[f"model.layers.0.{name}"] = (hidden, hidden)
    for name in ("input_layernorm", "post_attention_layernorm"):
        sizes[f"model.layers.0.{name}"] = (hidden,)
    header, end = {}, 0
    for name, shape in sizes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[f"{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    directory.mkdir()
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    (directory / "config.json").write_text(json.dumps({
        "model_type": "llama", "num_hidden_layers": 1, "hidden_size": hidden, "intermediate_size": hidden,
        "num_attention_heads": 2, "max_position_embeddings": 8, "vocab_size": words}))


def command_of(program, setting, scratch):
    words = setting.words.format(bin=os.environ["AXONN_BIN"], top=TOP, scratch=scratch).split()
    if program.suffix == ".py":
        python = python_with("torch") if "torch" in setting.needs else sys.executable
        return [python, program, *words]
    launcher = [TOP / "scripts/mpirun", "-n", setting.ranks] if setting.ranks > 1 else []
    return [*launcher, program, *words]


def main(path):
    program = pathlib.Path(path).resolve()
    setting = SETTINGS.get(program.name) or SETTINGS.get(program.stem, Smallest())
    reasons = [reason for reason in map(lacking, setting.needs) if reason]
    if setting.ranks > 1 and os.environ["AXONN_HAS_MPI"] == "0":
        reasons.append("this build has no MPI")
    if reasons:
        print(f"skipped: {'; '.join(reasons)}")
        return 77
    with tempfile.TemporaryDirectory(prefix="axonn-smoke-") as scratch:
        fill(pathlib.Path(scratch))
        command = [str(word) for word in command_of(program, setting, scratch)]
        print(" ".join(command), flush=True)
        ended = subprocess.run(command, cwd=scratch, stdout=subprocess.PIPE, text=True)
    print(ended.stdout)
    if ended.returncode == 0 and not (ended.stdout.strip() or program.stem == "plot_losses"):
        print("FAILED: it prints nothing")
        return 1
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
