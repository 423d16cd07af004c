#!/usr/bin/env python3
"""The networks of `gpt` and `unet` in PyTorch (eager, CPU, gloo), and their speed compared with
axonn's on the same cores.

    bench/peers.py single|ddp|fsdp|tp [--size S] [--ranks 2] [--threads 1] [--dtype bf16] ...
        one process, DistributedDataParallel, FSDP2 (fully_shard) or tensor parallelism; prints one
        JSON line
    bench/peers.py ddp --check --size tiny
        compares the losses with those of `single` (tolerance 1e-4) and the gradient norms (1e-3;
        bf16: 2e-2); exit status 1 if they differ
    bench/peers.py compare [--modes ddp tp] [--size S M] [--dtype fp32 bf16] [--pairs 5]
        PyTorch and axonn in turn with the same ranks and threads; prints a table of median tokens/s
        and the ratio. axonn's grids: single 1x1x1x1, ddp 1x1x1xN, fsdp 1x1xNx1, tp Nx1x1x1

Sizes tiny, S and M are GPT-2's architecture with an untied head, on bytes of the same text (--data
FILE; default: random). Sizes unet-tiny and unet are the UNet of bench/peers_unet.py on random
images; their tokens are images (no tp). Size smollm2 is transformers' Llama (bench/peers_llama.py; no
tp), which needs `scripts/setup --interop`. Both sides use AdamW and clipping, without dropout. --batch
is the batch of all ranks. A step is timed on rank 0, from reading its batch to the updated weights.
"""
import argparse, collections, gc, itertools, json, os, pathlib
import random, signal, statistics, string, subprocess, sys, tempfile, time, warnings

warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # not needed here
try:
    import torch
    from torch import distributed as dist, nn
    from torch.nn import functional as F
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    import peers_llama, peers_resnet, peers_unet
except ImportError as problem:
    sys.exit(f"peers.py: this Python cannot import PyTorch ({problem}); .deps/torch-2.11.0 lacks what Python's part of "
             "it needs. Either\n"
             "  python3 -m venv .deps/peers && .deps/peers/bin/pip install torch==2.11.0 && "
             ".deps/peers/bin/python bench/peers.py ...\n"
             "or, after `scripts/setup --cuda`, .deps/torch-2.11.0-cuda/bin/python bench/peers.py ...")

TOP = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"tiny": dict(layers=2, hidden=32, heads=4, sequence=32, batch=4),
         "S": dict(layers=6, hidden=384, heads=6, sequence=256, batch=12),
         "M": dict(layers=8, hidden=768, heads=12, sequence=512, batch=4),
         "smollm2": dict(layers=30, hidden=576, heads=9, sequence=512, batch=4),
         "unet-tiny": dict(image=32, base=32, multipliers=[1, 2], blocks=1, attention=16, heads=4, batch=4),
         "unet": dict(image=32, base=64, multipliers=[1, 2, 2], blocks=2, attention=16, heads=4, batch=16),
         "resnet": dict(image=32, base=64, multipliers=[1, 2, 4], blocks=2, batch=16)}
GRIDS = {"single": "1x1x1x1", "ddp": "1x1x1x{}", "fsdp": "1x1x{}x1", "tp": "{}x1x1x1"}
VOCABULARY, MAX_NORM, WEIGHT_DECAY, LEARNING_RATE = 256, 1.0, 0.1, 3e-4


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.head = hidden // heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(hidden), nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.norm2, self.up, self.down = (nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden),
                                          nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        # Features of qkv are (head, q|k|v, feature), so that a shard of its columns holds whole
        # heads.
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (-1, 3, self.head)).permute(3, 0, 2, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*qkv, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, sequence, vocabulary=VOCABULARY):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=(0.02 / (2 * layers) ** 0.5
                                                if name.endswith(("out.weight", "down.weight")) else 0.02))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.norm(self.blocks(self.tokens(ids) + self.positions.weight))
        return F.cross_entropy(self.head(x).float().flatten(0, 1), targets.flatten())


class GptCase:
    """One kind of network: sizes, model, units of fully_shard, inputs of the steps, and flags of
    axonn's program."""
    program = "gpt"

    @staticmethod
    def make(job):
        return Gpt(job.layers, job.hidden, job.heads, job.sequence)

    @staticmethod
    def parts(model):
        return model.blocks

    @staticmethod
    def batches(job, rank, ranks):
        text = torch.frombuffer(bytearray(pathlib.Path(job.data_path).read_bytes()), dtype=torch.uint8)
        generator = torch.Generator().manual_seed(job.seed)
        while True:
            first = torch.randint(len(text) - job.sequence, (job.batch,), generator=generator).chunk(ranks)[rank]
            windows = torch.stack([text[at:at + job.sequence + 1] for at in first]).long()
            yield windows[:, :-1], windows[:, 1:]

    @staticmethod
    def flags(job):
        return [*(word for key in SIZES["S"] for word in (f"--{key}", getattr(job, key))), "--vocab", VOCABULARY,
                "--validation-fraction", 0]


def case_of(job):
    others = {"resnet": peers_resnet, "smollm2": peers_llama}
    return others.get(job.size, peers_unet if job.size.startswith("unet") else GptCase)


def parallelize(model, job):
    if job.mode == "ddp":
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if job.mode == "single":
        return model
    mesh = dist.device_mesh.init_device_mesh("cpu", (job.ranks,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if job.fsdp_policy else MixedPrecisionPolicy()
    for buffer in model.buffers() if job.fsdp_policy else []:  # batch_norm's are of its weights' type on CPUs
        if buffer.is_floating_point():
            buffer.data = buffer.bfloat16()
    for part in [*case_of(job).parts(model), model] if job.mode == "fsdp" else []:
        fully_shard(part, mesh=mesh, mp_policy=policy)
    for block in model.blocks if job.mode == "tp" else []:
        parallelize_module(block, mesh, {"qkv": ColwiseParallel(), "out": RowwiseParallel(),
                                         "up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def adamw(model):
    groups = collections.defaultdict(list)
    # Neither the fused update nor a norm accepts sharded and plain tensors together (tp has both).
    for parameter in model.parameters():
        groups[isinstance(parameter, DTensor), parameter.dim() > 1].append(parameter)
    groups = [{"params": group, "weight_decay": WEIGHT_DECAY * matrices} for (_, matrices), group in groups.items()]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, fused=True)


def clip(optimizer):
    groups = [[parameter.grad for parameter in group["params"]] for group in optimizer.param_groups]
    norms = [nn.utils.get_total_norm(group) for group in groups]
    norm = torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm().item()
    for group in groups if norm > MAX_NORM else []:
        torch._foreach_mul_([g.to_local() if isinstance(g, DTensor) else g for g in group], MAX_NORM / norm)
    return norm


class Collectives(TorchDispatchMode):
    """Counts the collectives of torch.distributed by name."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        if operation.namespace == "c10d":
            self.counts[operation.name()] += 1
        return operation(*arguments, **(named or {}))


def resident(what):
    """Bytes of this process: VmRSS now, VmHWM at most."""
    line = next(line for line in open("/proc/self/status") if line.startswith(what + ":"))
    return int(line.split()[1]) * 1024


def held(model, optimizer):
    """Bytes of this rank's weights, gradients and optimizer state."""
    local = lambda tensor: tensor.to_local() if isinstance(tensor, DTensor) else tensor
    size = lambda tensors: sum(local(tensor).nbytes for tensor in tensors)
    weights = list(model.parameters())
    return {"weights": size(weights), "gradients": size(weight.grad for weight in weights if weight.grad is not None),
            "state": size(each for state in optimizer.state.values() for each in state.values() if each.dim() > 0)}


def worker():
    """One process of a PyTorch run. Writes its results to the job's folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent script ends it
    job = argparse.Namespace(**json.loads(os.environ["PEERS_JOB"]))
    rank = int(os.environ.get("PEERS_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    torch.set_num_threads(job.threads)
    if job.mode != "single":
        dist.init_process_group("gloo", init_method=f"file://{job.folder}/meet", rank=rank, world_size=job.ranks)
    torch.manual_seed(job.seed)
    case = case_of(job)
    model = case.make(job)
    step = parallelize(model, job)
    optimizer = adamw(model)
    inputs = case.batches(job, *((rank, job.ranks) if job.mode in ("ddp", "fsdp") else (0, 1)))
    report = []
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    for _ in range(job.warmup + job.steps):
        start = time.perf_counter()
        batch = next(inputs)
        with torch.autocast("cpu", torch.bfloat16, enabled=job.dtype == "bf16" and not job.fsdp_policy):
            loss = step(*batch)
        loss.backward()
        norm = clip(optimizer)
        optimizer.step()
        optimizer.zero_grad()
        report.append((time.perf_counter() - start, loss.item(), norm))
    growth = resident("VmHWM") - before
    pathlib.Path(job.folder, f"{rank}.json").write_text(json.dumps(report))
    if getattr(job, "count", False):
        with Collectives() as calls:
            step(*next(inputs)).backward()
        counted = {"collectives": calls.counts, "bytes": {**held(model, optimizer), "growth": growth}}
        pathlib.Path(job.folder, f"{rank}.counts.json").write_text(json.dumps(counted))
    if job.mode != "single":
        del step
        gc.collect()  # DDP is part of a cycle, and must be collected before its group
        dist.destroy_process_group()


def run_all(ranks, command, environment):
    """Runs the command in `ranks` processes at once. If one fails, or on Ctrl-C, the others are
    ended."""
    processes = [subprocess.Popen([str(word) for word in command],
                                  env={**os.environ, **environment, "PEERS_RANK": str(rank)},
                                  stdout=subprocess.DEVNULL) for rank in range(ranks)]
    try:
        while (states := [process.poll() for process in processes]).count(0) < ranks:
            if failed := [state for state in states if state]:
                sys.exit(f"peers.py: one of {ranks} x {command[0]} ended with status {failed[0]}")
            time.sleep(0.02)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def result(who, job, seconds, losses, norms):
    median = statistics.median(seconds[job.warmup:])
    return {"who": who, **{key: getattr(job, key) for key in ("mode", "size", "dtype", "ranks", "threads")},
            "tokens_per_second": round(job.batch * (job.sequence or 1) / median, 1), "step_seconds": round(median, 4),
            "losses": [round(loss, 7) for loss in losses], "gradient_norms": [round(norm, 7) for norm in norms]}


def torch_run(job, start=run_all):
    """`start` runs a command on all ranks, as run_all does."""
    with tempfile.TemporaryDirectory(prefix="axonn-peers-") as folder:
        environment = {"PEERS_JOB": json.dumps({**vars(job), "folder": folder}), "OMP_NUM_THREADS": str(job.threads),
                       "GLOO_SOCKET_IFNAME": "lo"}
        start(job.ranks, [sys.executable, __file__], environment)
        reports = [json.loads(pathlib.Path(folder, f"{rank}.json").read_text()) for rank in range(job.ranks)]
        counts = pathlib.Path(folder, "0.counts.json")
        job.counts = json.loads(counts.read_text()) if counts.exists() else None
    seconds, losses, norms = zip(*((steps[0][0], statistics.mean(loss for _, loss, _ in steps), steps[0][2])
                                   for steps in zip(*reports)))
    return result("torch", job, seconds, losses, norms)


def axonn_run(job):
    with tempfile.TemporaryDirectory(prefix="axonn-peers-") as folder:
        case = case_of(job)
        command = [TOP / "scripts/mpirun", "-n", job.ranks, pathlib.Path(job.bin) / case.program, "train",
                   "--grid", GRIDS[job.mode].format(job.ranks), *case.flags(job), "--dtype", job.dtype,
                   "--seed", job.seed, "--data", job.data_path, "--validate-every", 0, "--save-every", 0,
                   "--out", folder, "--steps", job.warmup + job.steps, "--clip", MAX_NORM,
                   "--weight-decay", WEIGHT_DECAY, "--beta2", 0.95, "--learning-rate", LEARNING_RATE,
                   "--learning-rate-end", LEARNING_RATE, "--warmup", 0, *job.flags.split()]
        run_all(1, command, {"OMP_NUM_THREADS": str(job.threads)})
        lines = [json.loads(line) for line in open(pathlib.Path(folder, "metrics.jsonl"))]
    return result("axonn", job,
                  *zip(*((line["seconds"]["step"], line["loss"], line["gradient_norm"]) for line in lines)))


def jobs(args, text, images):
    for size, dtype, mode in itertools.product(args.size, args.dtype,
                                               args.modes if args.what == "compare" else [args.what]):
        ranks = 1 if mode == "single" else args.ranks
        unet = size.startswith("unet")
        if mode == "tp" and (unet or size == "smollm2"):
            continue
        sizes = {key: getattr(args, key, None) or default for key, default in SIZES[size].items()}
        job = argparse.Namespace(**{**vars(args), **sizes, "mode": mode, "size": size, "dtype": dtype, "ranks": ranks,
                                    "data_path": images if unet else text,
                                    "threads": args.threads or max(1, len(os.sched_getaffinity(0)) // ranks),
                                    "fsdp_policy": args.fsdp_policy and (mode, dtype) == ("fsdp", "bf16")})
        if getattr(job, "heads" if mode == "tp" else "batch") % ranks:
            sys.exit("peers.py: tp needs --heads, ddp and fsdp --batch divisible by --ranks, "
                     f"got {job.heads}, {job.batch}, {ranks}")
        yield job


def check(job):
    """Clipping and AdamW would hide a sum in place of a mean, so it compares the norms too. torch
    computes norms in fp32, so they are less exact."""
    mode, single = torch_run(job), torch_run(
        argparse.Namespace(**{**vars(job), "mode": "single", "ranks": 1, "fsdp_policy": False}))
    loss, norm = (max(abs(a - b) for a, b in zip(mode[key], single[key])) for key in ("losses", "gradient_norms"))
    right = loss <= (1e-4 if job.dtype == "fp32" else 2e-2) and norm <= (1e-3 if job.dtype == "fp32" else 2e-2)
    print(f"{job.mode} {job.size} {job.dtype}: losses {mode['losses'][0]:.5f} .. {mode['losses'][-1]:.5f}, "
          f"farthest from single's {loss:.1e}, gradient norms {norm:.1e}: {'right' if right else 'WRONG'}", flush=True)
    return right


def compare(pairs, every_job):
    """Each round runs all cases, so that a slow period of the machine does not affect only one
    case. The order alternates."""
    speeds = collections.defaultdict(list)
    try:
        for pair, job in itertools.product(range(pairs), every_job):
            lines = [run(job) for run in ((torch_run, axonn_run), (axonn_run, torch_run))[pair % 2]]
            print(*map(json.dumps, lines), sep="\n", file=sys.stderr, flush=True)
            speed = {line["who"]: line["tokens_per_second"] for line in lines}
            speeds[f"{job.size} | {job.dtype} | {job.mode} | {job.ranks} x {job.threads}"].append(
                (speed["axonn"], speed["torch"]))
    finally:  # after Ctrl-C, with the results so far
        print("| size | precision | mode | ranks x threads | PyTorch tokens/s | axonn | ratio | of each pair |\n" +
              "| --- " * 8 + "|")
        for case, runs in speeds.items():
            (ours, theirs), ratios = map(statistics.median, zip(*runs)), [ours / theirs for ours, theirs in runs]
            print(f"| {case} | {theirs:.0f} | {ours:.0f} | **{ours / theirs:.2f}** | "
                  f"{min(ratios):.2f}-{max(ratios):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*GRIDS, "compare"])
    parser.add_argument("--modes", nargs="+", choices=list(GRIDS), default=list(GRIDS), help="modes for compare")
    parser.add_argument("--size", nargs="+", choices=list(SIZES), default=["S"])
    for key in SIZES["S"]:
        parser.add_argument(f"--{key}", type=int, help="overrides the value of --size")
    parser.add_argument("--dtype", nargs="+", choices=["fp32", "bf16"], default=["fp32"],
                        help="bf16: autocast over fp32 weights")
    parser.add_argument("--fsdp-policy", action="store_true",
                        help="fsdp in bf16 with its MixedPrecisionPolicy (gathers bf16) instead of autocast")
    for key, default, text in (("ranks", 2, "of ddp, fsdp, tp"), ("warmup", 3, "steps before the timed ones"),
                               ("steps", 6, "timed steps"), ("pairs", 5, "runs of each side"),
                               ("seed", 1, "of weights and samples")):
        parser.add_argument(f"--{key}", type=int, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--threads", type=int, help="threads per process (default: cores / ranks)")
    parser.add_argument("--data", help="text file (default: random bytes)")
    parser.add_argument("--check", action="store_true", help="compare the mode's losses with those of single")
    parser.add_argument("--channels-last", action="store_true", help="use the channels-last format in PyTorch's UNet")
    parser.add_argument("--bin", default=str(TOP / "build/release/bin"), help="folder of axonn's programs")
    parser.add_argument("--flags", default="", help="more flags of axonn's program, one string")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="axonn-peers-data-") as folder:
        text = pathlib.Path(folder, "text.txt")
        text.write_text("".join(random.Random(args.seed).choices(string.printable, k=200_000)))
        every_job = list(jobs(args, args.data or str(text), peers_unet.write_data(folder, args.seed)))
        if args.check:
            sys.exit(0 if all([check(job) for job in every_job]) else 1)
        if args.what == "compare":
            return compare(args.pairs, every_job)
        for job in every_job:
            print(json.dumps(torch_run(job)), flush=True)


if __name__ == "__main__":
    (worker if "PEERS_JOB" in os.environ else main)()
