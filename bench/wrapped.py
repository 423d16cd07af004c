#!/usr/bin/env python3
"""A plain torch::nn module under axonn::shard() (bench/wrapped.cpp), beside the plain module and
beside the same network in PyTorch. Its Python is that of bench/peers.py.

    bench/wrapped.py plain [--network gpt resnet] [--dtype fp32] [--repeats 5]
        one and two ranks, step for step in turn with the plain module on the same rows, in as many
        processes at once: ratio of time per step, median over the pairs of steps, and its quartiles
    bench/wrapped.py peers [--modes ddp fsdp] [--dtype fp32 bf16] [--ranks 2] [--repeats 5]
        PyTorch's DDP and FSDP2 (gloo) and axonn in turn: ratio of speeds. Both have a fused AdamW.
        bf16: FSDP2 has its MixedPrecisionPolicy, DDP autocast
    bench/wrapped.py peers --rate 200mbit --ranks 4
        the same on hosts with shaped links (root); the transfer of each step beside its computation
    bench/wrapped.py counts [--ranks 2]
        collectives and bytes of a step, and what a rank holds, beside FSDP2

The tables of peers have medians of the repeats, with the least and greatest. Nothing else may run
meanwhile.
"""
import argparse, contextlib, itertools, json, pathlib, statistics, subprocess, sys, tempfile

import peers
import shaped_hosts

GRIDS = {"ddp": "1x1x1x{}", "fsdp": "1x1x{}x1"}
PLAIN_CASES = [("fsdp", 1), ("fsdp", 2), ("ddp", 2)]  # grid and ranks
NETWORKS = {"gpt": "S", "resnet": "resnet"}
CLUSTER = [peers.TOP / "scripts/cluster", "run"]


def job_of(args, network, dtype, mode, ranks, text):
    size = NETWORKS[network]
    return argparse.Namespace(**{**vars(args), **peers.SIZES[size], "sequence": peers.SIZES[size].get("sequence"),
                                 "size": size, "network": network, "dtype": dtype, "mode": mode, "ranks": ranks,
                                 "data_path": text, "channels_last": False,
                                 "fsdp_policy": (mode, dtype) == ("fsdp", "bf16")})


def wrapped_run(job, *flags):
    """The program's line: {"wrapped": ..., "plain": ..., "counts": ...}."""
    case = peers.case_of(job)
    sizes = (case.flags(job) if job.network == "resnet" else
             [word for key in peers.SIZES["S"] for word in (f"--{key}", getattr(job, key))] + ["--data", job.data_path])
    launcher = [*CLUSTER, "-n", job.ranks, "--"] if job.rate else [peers.TOP / "scripts/mpirun", "-n", job.ranks]
    command = [*launcher, pathlib.Path(job.bin) / "wrapped",
               "--network", job.network, *sizes, "--grid", GRIDS[job.mode].format(job.ranks), "--dtype", job.dtype,
               "--steps", job.steps, "--warmup", job.warmup, "--threads", job.threads, "--seed", job.seed, *flags]
    ended = subprocess.run(["env", f"OMP_NUM_THREADS={job.threads}", *map(str, command)], stdout=subprocess.PIPE,
                           text=True)
    if ended.returncode != 0:
        sys.exit(f"wrapped.py: {' '.join(map(str, command))} ended with status {ended.returncode}")
    return json.loads(ended.stdout)


def start_on_hosts(ranks, command, environment):
    words = [f"{name}={value}" for name, value in {**environment, "GLOO_SOCKET_IFNAME": "eth0"}.items()]
    shaped_hosts.call(*CLUSTER, "-n", ranks, "--", "env", *words, *command, stdout=subprocess.DEVNULL)


def median(job, seconds):
    return statistics.median(seconds[job.warmup:])


def summary(values):
    return f"{statistics.median(values):.2f} | {min(values):.2f}-{max(values):.2f}"


def table(*columns):
    print("| " + " | ".join(columns) + " |\n" + "| --- " * len(columns) + "|", flush=True)


def plain(args, text):
    table("network", "precision", "grid", "pairs", "plain, ms", "wrapped, ms", "ratio", "quartiles")
    cases = [case for case in PLAIN_CASES if case[0] in args.modes]
    for network, dtype, (mode, ranks) in itertools.product(args.network, args.dtype, cases):
        job = job_of(args, network, dtype, mode, ranks, text)
        pairs = []
        for _ in range(args.repeats):
            line = wrapped_run(job)
            pairs += list(zip(line["plain"]["seconds"], line["wrapped"]["seconds"]))[job.warmup:]
        both = [statistics.median(each) * 1e3 for each in zip(*pairs)]
        low, middle, high = statistics.quantiles([wrapped / alone for alone, wrapped in pairs], n=4)
        print(f"| {network} | {dtype} | {GRIDS[mode].format(ranks)} | {len(pairs)} | {both[0]:.0f} | {both[1]:.0f} | "
              f"{middle:.3f} | {low:.3f}-{high:.3f} |", flush=True)


def beside_peers(args, text):
    table("network", "precision", "mode", "ranks", "PyTorch, ms", "axonn, ms", "speed over PyTorch's", "of each pair",
          "transfer waited for, ms")
    start = start_on_hosts if args.rate else peers.run_all
    for network, dtype, mode in itertools.product(args.network, args.dtype, args.modes):
        job = job_of(args, network, dtype, mode, args.ranks, text)
        pairs, waited = [], []
        for repeat in range(args.repeats):
            pair = {}
            for who in (("torch", "axonn"), ("axonn", "torch"))[repeat % 2]:
                if who == "torch":
                    line = peers.torch_run(job, start)
                    pair[who], theirs = line["step_seconds"], line["losses"]
                else:
                    line = wrapped_run(job, "--no-plain", "--optimizer", "axonn")
                    pair[who], ours = median(job, line["wrapped"]["seconds"]), line["wrapped"]["losses"]
                    waited.append(1e3 * sum(each["waited"] for each in line["counts"]["collectives"].values()))
            print(json.dumps({"pair": pair, "losses": [ours, theirs]}), file=sys.stderr, flush=True)
            pairs.append(pair)
        both = [statistics.median(pair[who] for pair in pairs) * 1e3 for who in ("torch", "axonn")]
        print(f"| {network} | {dtype} | {mode} | {args.ranks} | {both[0]:.0f} | {both[1]:.0f} | "
              f"{summary([pair['torch'] / pair['axonn'] for pair in pairs])} | {statistics.median(waited):.0f} |",
              flush=True)


def counts(args, text):
    table("network", "who", "gathers", "reduce-scatters", "other sums", "weights, MB", "gradients", "state",
          "resident growth, MB")
    for network in args.network:
        job = job_of(args, network, "fp32", "fsdp", args.ranks, text)
        job.count = True
        peers.torch_run(job)
        ours = wrapped_run(job, "--no-plain")["counts"]
        calls = {name: sum(count for key, count in job.counts["collectives"].items() if name in key)
                 for name in ("allgather", "reduce_scatter", "allreduce")}
        of = lambda name: ours["collectives"][name]["calls"]
        for who, numbers, held in (("FSDP2", list(calls.values()), job.counts["bytes"]),
                                   ("axonn", [of("all_gather"), of("reduce_scatter"), of("data") + of("all_reduce")],
                                    ours["bytes"])):
            megabytes = [held[key] / 1e6 for key in ("weights", "gradients", "state", "growth")]
            print(f"| {network} | {who} | " + " | ".join(map(str, numbers)) + " | " +
                  " | ".join(f"{each:.2f}" for each in megabytes) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plain", "peers", "counts"])
    parser.add_argument("--network", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--modes", nargs="+", choices=list(GRIDS), default=list(GRIDS),
                        help="over Z (fsdp), over data (ddp), or both (default: both)")
    parser.add_argument("--dtype", nargs="+", choices=["fp32", "bf16"], default=["fp32"])
    parser.add_argument("--rate", help="of each host's link, such as 200mbit; as many hosts as ranks (default: none)")
    for key, default, text in (("ranks", 2, "of peers and counts"), ("warmup", 3, "steps before the timed ones"),
                               ("steps", 6, "timed steps"), ("repeats", 5, "runs of each"),
                               ("seed", 1, "of weights and samples"), ("threads", 1, "of each rank")):
        parser.add_argument(f"--{key}", type=int, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--bin", default=str(peers.TOP / "build/release/bin"), help="folder of axonn's programs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="axonn-wrapped-") as folder, contextlib.ExitStack() as stack:
        if args.rate:
            stack.enter_context(shaped_hosts.hosts(args.ranks, args.rate))
        text = pathlib.Path(folder, "text.txt")
        shaped_hosts.write_text(text)
        {"plain": plain, "peers": beside_peers, "counts": counts}[args.what](args, str(text))


if __name__ == "__main__":
    main()
