"""The steps of a first day on a GPU, most informative first: a table without any doing.

A step is a list of commands. A word may hold {bin}, {tests}, {scripts}, {bench} (folders), {python}, {data}
(a folder with text and images), {out} (a new folder of this command, deleted after it) and {check}: where
compute-sanitizer goes when the step runs again."""
import dataclasses
import itertools


@dataclasses.dataclass(frozen=True)
class Command:
    words: list
    label: str = ""  # commands of one label are runs of the same thing, in turn with those of the others
    variables: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Step:
    name: str       # "GROUP: WHAT"
    seconds: float  # expected on an H100; after three times as many it hangs
    commands: list
    expected: str = ""  # the losses of expected.json that these losses must equal ...
    tolerance: float = 0  # ... up to so many times the distance of the CPU's losses from its fp64
    flops: float = 0  # per token, attention counted as computed: for the share of the best product

    @property
    def group(self):
        return self.name.split(":")[0]


@dataclasses.dataclass(frozen=True)
class Switch:
    """Off by default until a report shows that it is right and faster."""
    name: str
    kernel: bool = False  # a name of --kernels
    flags: tuple = ()  # of gpt and unet
    variables: dict = dataclasses.field(default_factory=dict)
    prediction: str = ""
    networks: tuple = ("124M", "774M")  # sizes of GPT, or "unet": what it is timed with


SWITCHES = [
    Switch("cublaslt", variables={"TORCH_BLAS_PREFER_CUBLASLT": "1"}, prediction="0 to 3%", networks=("774M",)),
    Switch("heuristic-b", variables={"TORCH_CUDNN_USE_HEURISTIC_MODE_B": "1"}, prediction="0; UNet unknown",
           networks=("124M", "unet")),
    Switch("flash", variables={"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}, prediction="-3% to 0", networks=("124M",)),
    Switch("cross-entropy", kernel=True, prediction="29% at 124M, 5% at 774M"),
    Switch("embedding", kernel=True, prediction="0 to 1%", networks=("124M",)),
    Switch("layer-norm", kernel=True, prediction="1 to 2%"),
    Switch("group-norm", kernel=True, prediction="40 to 60%", networks=("unet",)),
    Switch("adamw", kernel=True, prediction="1% at 124M, 3% at 774M"),
    Switch("epilogues", kernel=True, prediction="7% at 124M, 6% at 774M"),
    Switch("cudnn-benchmark", flags=("--cudnn-benchmark",), prediction="unknown", networks=("unet",)),
    Switch("tail", kernel=True, prediction="1 to 2%", networks=("unet",)),
    Switch("device-noise", kernel=True, prediction="0; frees a thread", networks=("unet",)),
    Switch("cuda-graph", flags=("--cuda-graph",), prediction="0 to 2%; UNet 10 to 50%", networks=("124M", "unet")),
]

# layers, hidden, heads, rows of 1024 tokens
SIZES = {"124M": (12, 768, 12, 64), "350M": (24, 1024, 16, 32), "774M": (36, 1280, 20, 16), "1558M": (48, 1600, 25, 16)}
UNET = {"base": 128, "multipliers": "1,2,2,2", "blocks": 3, "heads": 4, "batch": 128}
VOCABULARY, STEPS = 50257, 25
TORCH_SECONDS = {"eager": 45, "compiled": 90}  # of a step beside it
SWITCH_SECONDS = {"124M": 20, "774M": 36, "unet": 25}  # of three runs
REHEARSAL_SECONDS = 5  # per step
TRAINING = ["--no-save-last", "--save-every", 0, "--validate-every", 0, "--out", "{out}"]
SMALL_GPT = ["{check}", "{bin}/gpt", "train", "--layers", 4, "--hidden", 256, "--heads", 4, "--sequence", 256,
             "--batch", 8, "--steps", 10, "--learning-rate", 1e-4, "--warmup", 0, "--data", "{data}/text.txt",
             "--validation-fraction", 0, *TRAINING]
SMALL_UNET = ["{check}", "{bin}/unet", "train", "--base", 64, "--multipliers", "1,2", "--blocks", 1, "--batch", 8,
              "--steps", 10, "--learning-rate", 1e-4, "--warmup", 0, "--synthetic-images", 64, *TRAINING]
SMALL = {"gpt": SMALL_GPT, "unet": SMALL_UNET}
TOLERANCES = {"fp64": 1, "fp32": 4, "bf16": 2}


def flags_of(switches):
    """All of them on."""
    kernels = [switch.name for switch in switches if switch.kernel]
    flags = [flag for switch in switches for flag in switch.flags]
    return [*(["--kernels", ",".join(kernels)] if kernels else []), *flags]


class Plan:
    """`rehearsal`: the same steps with networks of one to four layers, for the dry GPU."""

    def __init__(self, rehearsal=False):
        self.rehearsal = rehearsal

    def size(self, name):
        return (1 + list(SIZES).index(name), 64, 4, 2) if self.rehearsal else SIZES[name]

    def gpt(self, name, sequence=1024, rows=None, dtype="bf16"):
        layers, hidden, heads, most = self.size(name)
        rows = rows or max(1, most * 1024 // sequence)
        if self.rehearsal:
            sequence, rows = sequence // 16, 2
        return ["{check}", "{bin}/gpt", "train", "--device", "cuda", "--dtype", dtype, "--layers", layers, "--hidden",
                hidden, "--heads", heads, "--sequence", sequence, "--vocab", VOCABULARY, "--tied", "--batch", rows,
                "--steps", 4 if self.rehearsal else STEPS, "--data", "{data}/text.txt", "--validation-fraction", 0,
                *TRAINING]

    def gpt_flops(self, name, sequence):
        layers, hidden, _, _ = self.size(name)
        return 6 * (12 * layers * hidden**2 + VOCABULARY * hidden + layers * hidden * sequence)

    def unet(self):
        sizes = UNET | ({"base": 32, "multipliers": "1,2", "blocks": 1, "batch": 2} if self.rehearsal else {})
        return ["{check}", "{bin}/unet", "train", "--device", "cuda", "--dtype", "bf16",
                *itertools.chain(*((f"--{key}", value) for key, value in sizes.items())),
                "--steps", 4 if self.rehearsal else STEPS, "--synthetic-images", 256, *TRAINING]

    def sizes(self, sequence):
        for size in SIZES:
            yield Step(f"sizes: {size}, {sequence} tokens", 30, [Command(self.gpt(size, sequence))],
                       flops=self.gpt_flops(size, sequence))

    def torch(self, what, *more):
        return ["{python}", "{bench}/peers_cuda.py", what, *more, *(["--rehearse"] if self.rehearsal else [])]

    def tests(self, name, seconds, ranks, *words):
        return Step(name, seconds, [Command(["{scripts}/on_one_gpu", "{tests}/cuda_probe", ranks, "{check}", *words])])

    def checkpoint(self):
        """The first step and the last one on the CPU, those between on the GPU."""
        train = [word for word in map(str, SMALL_GPT) if word not in ("{check}", "--no-save-last")]
        train[train.index("--steps") + 1] = "1"
        resume = "{bin}/gpt train --resume {out}"
        return "; ".join(["set -e", " ".join([*train, "--dtype fp64"]), f"{resume} --device cuda --steps 9",
                          f"{resume} --device cpu --steps 10"])

    def right(self, switches, states):
        """All of them on, where the defaults are right. If that is wrong, then each half of them."""
        if not switches:
            return
        names, flags = [], flags_of(switches)
        variables = {key: value for switch in switches for key, value in switch.variables.items()}
        for network, dtype in itertools.product(SMALL, ("fp32", "bf16")):
            by_default = f"right: {network} {dtype}"
            if states.get(by_default, "right") != "right":
                continue
            names.append(f"{by_default} with {' + '.join(switch.name for switch in switches)}")
            words = [*SMALL[network], "--device", "cuda", "--dtype", dtype, *flags]
            yield Step(names[-1], 12, [Command(words, variables=variables)], f"{network} {dtype}", TOLERANCES[dtype])
        if len(switches) > 1 and any(states.get(name, "right") != "right" for name in names):
            half = len(switches) // 2
            yield from self.right(switches[:half], states)
            yield from self.right(switches[half:], states)

    def table(self, states):
        """`states`: how steps ended, by name. Halves follow from what was wrong."""
        yield Step("starts: libraries", 20, [
            Command(["bash", "-c", "nvidia-smi; ! ldd {bin}/gpt {bin}/unet | grep 'not found' && {tests}/cuda_probe"])])
        yield Step("starts: ceilings", 40, [Command(self.torch("ceilings"))])
        yield Step("trains: gpt 124M", 25, [Command(self.gpt("124M", rows=8))])
        yield Step("trains: unet 53M", 25, [Command(self.unet())])

        yield self.tests("right: training test", 20, 1, "{tests}/cuda_training_test")
        for network, dtype in itertools.product(SMALL, TOLERANCES):
            yield Step(f"right: {network} {dtype}", 12,
                       [Command([*SMALL[network], "--device", "cuda", "--dtype", dtype])], f"{network} {dtype}",
                       TOLERANCES[dtype])
        yield Step("right: checkpoint from CPU to GPU and back", 15, [Command(["bash", "-c", self.checkpoint()])],
                   "gpt fp64", TOLERANCES["fp64"])
        yield from self.right(SWITCHES, states)

        yield from self.sizes(1024)

        for switch in SWITCHES:
            for network in switch.networks:
                words = self.unet() if network == "unet" else self.gpt(network)
                off, on = Command(words, "off"), Command([*words, *flags_of([switch])], "on", switch.variables)
                yield Step(f"switches: {switch.name}, {network}", SWITCH_SECONDS[network], [off, on, off])

        for mode, sizes in (("eager", ("124M", "774M")), ("compiled", ("124M", "774M", "1558M", "350M"))):
            for size in sizes:
                layers, hidden, heads, rows = self.size(size)
                ours = Command(self.gpt(size), "axonn")
                theirs = Command(self.torch("gpt", "--mode", mode, "--layers", layers, "--hidden", hidden, "--heads",
                                            heads, "--rows", rows), mode)
                yield Step(f"beside PyTorch: {mode}, {size}", TORCH_SECONDS[mode], [ours, theirs, ours])

        for mode in TORCH_SECONDS:
            ours, theirs = Command(self.unet(), "axonn"), Command(self.torch("unet", "--mode", mode), mode)
            yield Step(f"UNet beside PyTorch: {mode}", TORCH_SECONDS[mode] + 10, [ours, theirs, ours])

        for ranks in (2, 4):
            yield self.tests(f"NCCL: collectives, {ranks} ranks", 60, ranks, "{tests}/nccl_collectives_test")
        for program in ("gpt", "unet"):
            yield self.tests(f"NCCL: {program} verify on 2x1x2x1", 80, 4, f"{{bin}}/{program}", "verify", "--device",
                             "cuda", "--grid", "2x1x2x1")
        for ranks in (1, 2, 4):
            yield self.tests(f"NCCL: equality, {ranks} ranks", 120, ranks, "{tests}/cuda_equality_test")

        for network in ("124M", "774M", "unet"):
            words = [*(self.unet() if network == "unet" else self.gpt(network)), "--trace", "{out}/trace.json"]
            yield Step(f"kernels: {network}", 15, [Command(words)])
            yield Step(f"kernels: {network}, our own", 15, [Command([*words, "--kernels", "all"])])

        for tool in ("memcheck", "racecheck", "initcheck"):
            yield Step(f"sanitizers: {tool}", 120, [
                Command(["compute-sanitizer", "--tool", tool, "--error-exitcode", 9, "{tests}/cuda_training_test",
                         "--gtest_filter=*ForwardBackward*"])])

        yield from self.sizes(2048)
        for rows in (4, 16, 32, 96):
            yield Step(f"sweeps: 124M, {rows} rows", 25, [Command(self.gpt("124M", rows=rows))],
                       flops=self.gpt_flops("124M", 1024))
        for dtype, flag in (("fp32", []), ("fp32", ["--tf32"]), ("bf16", ["--deterministic"])):
            yield Step(f"sweeps: 124M, 16 rows, {' '.join([dtype, *flag])}", 40,
                       [Command([*self.gpt("124M", rows=16, dtype=dtype), *flag])])


def commands_again(step):
    """With launches blocking, under memcheck, and of two steps: to find where it fails."""
    for command in step.commands:
        words = list(command.words)
        for at in [at for at, word in enumerate(words[:-1]) if word == "--steps"]:
            words[at + 1] = 2
        yield Command(words, command.label, command.variables | {"CUDA_LAUNCH_BLOCKING": "1"})


def again(step):
    return Step(f"{step.name}, again", min(4 * step.seconds, 160), list(commands_again(step)))


def all_steps(states, rehearsal=False, groups=None):
    """In order: after a step that was not right comes the same step again."""
    for step in Plan(rehearsal).table(states):
        if groups and step.group not in groups:
            continue
        steps = [step] + ([again(step)] if states.get(step.name) in ("wrong", "failed", "hung") else [])
        yield from (dataclasses.replace(step, seconds=REHEARSAL_SECONDS) for step in steps) if rehearsal else steps
