"""The steps of fifteen minutes on a GPU, most informative first: a table without any doing.

A step is a list of commands. A word may hold {bin}, {tests}, {scripts}, {gpu_day}, {bench} (folders), {python},
{data} (a folder with text), {out} (a new folder of this command, deleted after it). A word {check} stands for
compute-sanitizer and its words."""
import dataclasses
import itertools
import re

from . import estimates
from .estimates import Cost


@dataclasses.dataclass(frozen=True)
class Command:
    words: list
    label: str = ""  # commands of one label are runs of the same thing, in turn with those of the others
    variables: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Step:
    name: str  # "GROUP: WHAT"
    call: int  # the first call that takes it
    cost: Cost
    commands: list
    expected: str = ""  # the network of expected.json whose losses each row must have
    same: bool = False  # the losses of all labels are equal
    flops: float = 0    # per token, for the share of the best product
    small: tuple = ()   # commands of the repeat, if it fails
    least: float = 20   # seconds that it may take in any case, because a start is an assumption

    @property
    def limit(self):
        """Seconds after which it hangs."""
        return max(1.5 * self.seconds, self.least)

    @property
    def group(self):
        return self.name.split(":")[0]

    @property
    def seconds(self):
        return self.cost.seconds


@dataclasses.dataclass(frozen=True)
class Switch:
    """Off by default until a report shows that it is right and faster."""
    name: str  # in --kernels, or LibTorch's own in gpu_switches
    prediction: str
    networks: tuple = ("gpt",)
    ours: bool = True


# In the order of gpu_switches.
SWITCHES = [
    Switch("cross-entropy", "29% at 124M, 5% at 774M"),
    Switch("embedding", "0 to 1%"),
    Switch("layer-norm", "1 to 2%"),
    Switch("group-norm", "40 to 60%", ("unet",)),
    Switch("adamw", "1% at 124M, 3% at 774M", ("gpt", "unet")),
    Switch("tail", "1 to 2%", ("unet",)),
    Switch("device-noise", "0; frees a thread", ("unet",)),
    Switch("epilogues", "7% at 124M, 6% at 774M", ("gpt", "unet")),
    Switch("cublaslt", "0 to 3%", ours=False),
    Switch("flash", "-3% to 0", ours=False),
    Switch("cudnn-benchmark", "unknown", ("unet",), ours=False),
]

DTYPES = {"fp64": 1, "fp32": 4, "bf16": 2}  # times the distance of the CPU's losses from its fp64
STEPS, WARM_UP = 15, 5        # a run of gpt, unet or PyTorch
SWITCH_STEPS, SWITCH_WARM_UP, SWITCH_ROWS = 8, 2, 32  # one switch or a table of seven: at most so many rows
LOSSES = 10                   # steps whose losses are compared
UNET_IMAGES = 128
REHEARSAL_SECONDS = 6         # per step
AGAIN_SECONDS, AGAIN_MOST = 13, 40  # a repeat, and all
OUR_KERNELS = ["--kernel-name", "kns=axonn"]  # compute-sanitizer looks at no others
CHECKED = {"memcheck": ["--exact-memory"], "racecheck": ["--gtest_filter=-*Large*"]}  # options of cuda_kernels_test
CHECK = ["compute-sanitizer", "--tool", "memcheck", *OUR_KERNELS, "--error-exitcode", "9"]
TRAINING = ["--no-save-last", "--save-every", 0, "--validate-every", 0, "--out", "{out}"]
# The small networks, as gpu_switches, gpt and unet take their sizes.
SMALL = {"gpt": ["--layers", 4, "--hidden", 256, "--heads", 4, "--sequence", 256, "--vocab", 1000, "--tied",
                 "--batch", 8],
         "unet": ["--base", 64, "--multipliers", "1,2", "--blocks", 1, "--batch", 8]}
SMALLEST = ["--layers", 2, "--hidden", 64, "--heads", 4, "--sequence", 64, "--vocab", 1000, "--tied", "--batch", 4]
# A text whose characters are the words: all of the vocabulary, by a Zipf law.
TEXT = ["--tokenizer", "chars", "--validation-fraction", 0]


def losses(network, dtypes, kernels, device, count=LOSSES):
    """Of some steps of the small network: a row for each type and each choice of kernels."""
    return ["{bin}/gpu_switches", "losses", network, *SMALL[network], "--dtype", ",".join(dtypes),
            "--kernels", *kernels, "--steps", count, "--device", device]


def train(network, sizes, kernels, steps=STEPS, dtype="bf16", text="text.txt"):
    data = ["--data", f"{{data}}/{text}", *TEXT] if network == "gpt" else ["--synthetic-images", 256]
    return [f"{{bin}}/{network}", "train", "--device", "cuda", "--dtype", dtype, *sizes, "--kernels", kernels,
            "--steps", steps, *data, *TRAINING]


class Plan:
    """Of a device. `ended`: the last line of each step, by its name. `rehearsal`: seconds expected per step, with
    networks of one to four layers, for the dry GPU."""

    def __init__(self, device, ended=None, rehearsal=None):
        self.device, self.ended, self.rehearsal = device, ended or {}, rehearsal

    def best(self, network):
        """All of our kernels, where they are right."""
        state = self.ended.get(f"right: {network}", {}).get("state", "right")
        return "all" if state == "right" else "none"

    def rows(self, size, sequence=1024, most=estimates.MOST_ROWS):
        return 2 if self.rehearsal else max(1, min(most, estimates.rows(size, self.device.gib)) * 1024 // sequence)

    def shape(self, size):
        """Layers, width and heads."""
        if self.rehearsal:
            return 1 + list(estimates.SIZES).index(size), 64, 4
        return dataclasses.astuple(estimates.SIZES[size])[:3]

    def sizes(self, network, sequence=1024, most=estimates.MOST_ROWS):
        if network == "unet":
            small = ["--base", 32, "--multipliers", "1,2", "--blocks", 1, "--heads", 4, "--batch", 2]
            return small if self.rehearsal else ["--base", 128, "--multipliers", "1,2,2,2", "--blocks", 3, "--heads", 4,
                                                 "--batch", UNET_IMAGES]
        layers, hidden, heads = self.shape(network)
        return ["--layers", layers, "--hidden", hidden, "--heads", heads, "--sequence",
                sequence // 16 if self.rehearsal else sequence, "--vocab", estimates.VOCABULARY, "--tied", "--batch",
                self.rows(network, sequence, most)]

    def steps(self, network, count, sequence=1024, most=estimates.MOST_ROWS, slower=1.0):
        per_step = UNET_IMAGES if network == "unet" else self.rows(network, sequence, most)
        return estimates.steps(self.device, network, count, per_step, sequence, slower)

    def train(self, network, sequence=1024, kernels=None):
        program = "unet" if network == "unet" else "gpt"
        return train(program, self.sizes(network, sequence), kernels or self.best(program),
                     4 if self.rehearsal else STEPS)

    def small(self, network, *more):
        """A run of the small network with the same kernels, launch by launch, under memcheck."""
        words = ["{check}", *train(network, SMALL[network], self.best(network), 2, text="small.txt"), *more]
        return (Command(words, variables={"CUDA_LAUNCH_BLOCKING": "1"}),)

    def trained(self, name, call, network, *more, sequence=1024):
        """One run of a program."""
        program = "unet" if network == "unet" else "gpt"
        flops = 0 if network == "unet" or "--trace" in more else estimates.SIZES[network].flops(sequence)
        flags = [flag for flag in more if flag == "--cuda-graph"]
        return Step(name, call, estimates.start(network) + self.steps(network, STEPS, sequence),
                    [Command([*self.train(network, sequence), *more])], flops=flops, small=self.small(program, *flags))

    def timed(self, group, network, names, *only):
        """Switches in one process, `names` of them, each off, on and off."""
        program = "unet" if network == "unet" else "gpt"
        count = 3 * names * (SWITCH_STEPS + SWITCH_WARM_UP)
        few = ["--steps", 1, "--warmup", 1] if self.rehearsal else ["--steps", SWITCH_STEPS, "--warmup", SWITCH_WARM_UP]
        words = ["{bin}/gpu_switches", "time", program, *self.sizes(network, most=SWITCH_ROWS), *few, *only]
        cost = estimates.start(network) + self.steps(network, count, most=SWITCH_ROWS, slower=1.1)
        small = () if group == "switches" else self.small(program)
        return Step(f"{group}: {network}", 1, cost, [Command(words)], small=small)

    def beside(self, network):
        """PyTorch, in turn with ours."""
        program = "unet" if network == "unet" else "gpt"
        sizes = []
        if program == "gpt":
            layers, hidden, heads = self.shape(network)
            sizes = ["--layers", layers, "--hidden", hidden, "--heads", heads, "--rows", self.rows(network)]
        ours = Command(self.train(network), "axonn")
        theirs = Command(self.torch(program, *sizes), "PyTorch")
        cost = (estimates.start(network) + self.steps(network, STEPS) + estimates.python_start() +
                estimates.fixed(estimates.COMPILE_SECONDS[network], "compile") +
                self.steps(network, 2 * STEPS, slower=1.5) + estimates.start(network) + self.steps(network, STEPS))
        return Step(f"PyTorch: {network}", 2, cost, [ours, theirs, ours])

    def torch(self, what, *more):
        return ["{python}", "{bench}/peers_cuda.py", what, *more, *(["--rehearse"] if self.rehearsal else [])]

    def sanitizer(self, tool):
        words = ["compute-sanitizer", "--tool", tool, *OUR_KERNELS, "--error-exitcode", 9, "{tests}/cuda_kernels_test",
                 *CHECKED[tool]]
        checked = estimates.fixed(estimates.SLOWER[tool] * estimates.KERNELS_SECONDS, "kernels, checked")
        return Step(f"sanitizers: {tool}", 2, estimates.start("") + checked, [Command(words)])

    def two_ranks(self, what, collectives, *words):
        cost = (estimates.start("") + estimates.fixed(estimates.COMMUNICATORS_SECONDS, "communicators") +
                estimates.fixed(estimates.COLLECTIVE_SECONDS * collectives, f"{collectives} collectives"))
        return Step(f"NCCL: {what}", 2, cost,
                    [Command(["{scripts}/on_one_gpu", "{tests}/cuda_probe", 2, *words])])

    def checkpoint(self):
        """Ten steps on the CPU, and with those from the second to the ninth on the GPU."""
        small = [word for word in map(str, train("gpt", SMALLEST, "none", LOSSES, "fp64", "small.txt"))
                 if word != "--no-save-last"]
        small[small.index("cuda")] = "cpu"
        first = [*small]
        first[first.index("--steps") + 1] = "1"
        resume = "{bin}/gpt train --resume {out}"
        script = "; ".join(["set -e", " ".join(first), f"{resume} --device cuda --steps {LOSSES - 1}",
                            f"{resume} --device cpu --steps {LOSSES}"])
        cost = estimates.start("") + estimates.fixed(10, "3 starts, 12 small steps of the CPU")
        return Step("checkpoint: CPU, GPU, CPU", 2, cost,
                    [Command(small, "CPU"), Command(["bash", "-c", script], "moved")], same=True)

    def table(self):
        fixed = estimates.fixed
        yield Step("versions: axonn", 1, fixed(3, "four libraries are loaded"),
                   [Command(["{python}", "{gpu_day}/versions.py", "{bin}/gpt"])])
        yield Step("bounds: PyTorch", 1, estimates.python_start() + fixed(estimates.FROM_DISK_SECONDS, "from disk") +
                   fixed(3, "15 products, a copy"), [Command(self.torch("bounds"))])
        yield Step("kernels: test", 1, estimates.start("") + fixed(estimates.KERNELS_SECONDS, "kernels"),
                   [Command(["{tests}/cuda_kernels_test"])])
        yield Step("epilogues: products", 1, estimates.start("") + fixed(estimates.EPILOGUES_SECONDS, "products"),
                   [Command(["{bin}/product_epilogues", "--hidden", "768,1280,1600", "--rows",
                             512 if self.rehearsal else 32768])])
        for network in SMALL:
            kinds = [network, ["fp64", "fp32", "bf16"], ["none", "all"]]
            yield Step(f"right: {network}", 1, estimates.start("") + fixed(3, "60 small steps"),
                       [Command(losses(*kinds, "cuda"))], expected=network)
        for network in ("124M", "774M", "unet"):
            yield self.timed("headline", network, 1, "--only", "all")
        for network, program in (("124M", "gpt"), ("unet", "unet")):
            yield self.timed("switches", network, sum(program in switch.networks for switch in SWITCHES))
        for network in ("124M", "774M", "unet"):
            yield self.trained(f"traces: {network}", 1, network, "--trace", "{out}/trace.json")

        yield self.beside("124M")
        yield self.beside("774M")
        yield self.trained("sizes: 350M", 2, "350M")
        yield self.trained("sizes: 1558M", 2, "1558M")
        yield self.sanitizer("memcheck")
        yield self.sanitizer("racecheck")
        yield self.two_ranks("collectives", 400, "{tests}/nccl_collectives_test")
        verify = ["{bin}/gpt", "verify", "--device", "cuda", "--grid"]
        for grid, collectives in (("2x1x1x1", 65), ("1x1x2x1", 145)):
            yield self.two_ranks(f"verify {grid}", collectives, *verify, grid)
        yield self.two_ranks("verify 2x1x1x1, all kernels", 65, *verify, "2x1x1x1", "--kernels", "all")
        yield self.checkpoint()
        yield self.beside("unet")
        for network in ("124M", "unet"):
            yield self.trained(f"graph: {network}", 2, network, "--cuda-graph")
        yield self.trained("sizes: 124M, 2048 tokens", 2, "124M", sequence=2048)

    def again(self, step):
        """More commands after it failed, or nothing."""
        line = self.ended[step.name]
        rows = line.get("figures", {})
        if step.expected:
            wrong = [label.split() for label, row in rows.items() if not row.get("right", True)]
            dtypes = sorted({dtype for _, dtype, kernels in wrong if kernels == "all"}, key=list(DTYPES).index)
            names = [switch.name for switch in SWITCHES if switch.ours and step.expected in switch.networks]
            if dtypes and all(kernels == "all" for *_, kernels in wrong):  # find the wrong ones
                return [Command(losses(step.expected, dtypes, names, "cuda"))]
            return self.small(step.expected)
        if step.group == "switches":  # those after the one that ended the process
            program = "unet" if "unet" in step.name else "gpt"
            names = [switch.name for switch in SWITCHES if program in switch.networks]
            rest = [name for name in names if name not in rows][1:]
            words = step.commands[0].words
            return [Command([*words, "--only", *rest])] if rest else []
        return step.small

    def all_steps(self):
        """In order. A step that failed comes once more at the end, small."""
        table = list(self.table())
        steps = [*table]
        for step in table:
            if self.ended.get(step.name, {}).get("state") in ("wrong", "failed", "hung"):
                if commands := list(self.again(step)):
                    steps.append(Step(f"again: {step.name}", 2, Cost(AGAIN_SECONDS, "its limit"), commands,
                                      expected=step.expected, least=0))
        if self.rehearsal:
            steps = [dataclasses.replace(step, cost=Cost(self.rehearsal, "rehearsal"), least=0) for step in steps]
        return steps


def programs():
    """Files of all commands, such as bin/gpt."""
    words = itertools.chain(*(command.words for step in Plan(estimates.DEVICES["h100"]).table()
                              for command in step.commands))
    found = {match for word in words for match in re.findall(r"\{(bin|tests)\}/([\w-]+)", str(word))}
    return sorted(f"{folder}/{name}" for folder, name in found)
