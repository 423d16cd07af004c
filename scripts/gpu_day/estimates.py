"""The cost of a step before a device has shown it: starts measured on a CPU, bytes counted on the dry GPU, and
rooflines. `scripts/gpu-day plan` prints these sources beside the seconds."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Device:
    gib: float
    tflops: float  # a product of 8192^3 in bf16 by PyTorch, seen on one device of this kind


DEVICES = {"h100": Device(79, 790), "h200": Device(139, 790)}


def device_of(gib):
    """One with so much memory, as fast as the kind that is nearest."""
    nearest = min(DEVICES.values(), key=lambda device: abs(device.gib - gib))
    return dataclasses.replace(nearest, gib=gib)


@dataclasses.dataclass(frozen=True)
class Cost:
    seconds: float
    source: str

    def __add__(self, other):
        return Cost(self.seconds + other.seconds, f"{self.source} + {other.source}")


@dataclasses.dataclass(frozen=True)
class Size:
    """Of a GPT with 1024 tokens per row."""
    layers: int
    hidden: int
    heads: int
    gb_per_row: float  # counted on the dry GPU, `--kernels none`: the peak of 8 rows (1558M: 16) less FIXED_BYTES

    @property
    def parameters(self):
        return 12 * self.layers * self.hidden**2 + VOCABULARY * self.hidden

    def flops(self, sequence):
        """Per token, attention counted as computed."""
        return 6 * (self.parameters + self.layers * self.hidden * sequence)


VOCABULARY = 50257
FIXED_BYTES = 18.6  # per parameter: the peak of 124M at 4 to 32 rows on the dry GPU, without its slope
SIZES = {"124M": Size(12, 768, 12, 0.92), "350M": Size(24, 1024, 16, 1.41), "774M": Size(36, 1280, 20, 2.09),
         "1558M": Size(48, 1600, 25, 3.09)}
SHARE_OF_MEMORY = 0.65  # the rest: gaps of the allocator, workspaces of cuDNN and cuBLAS, PyTorch's larger logits
MOST_ROWS = 64


def rows(size, gib):
    """The most rows of a step, a power of two, that a device of so much memory holds."""
    room = SHARE_OF_MEMORY * gib * 2**30 - FIXED_BYTES * SIZES[size].parameters
    found = MOST_ROWS
    while found > 1 and found * SIZES[size].gb_per_row * 1e9 > room:
        found //= 2
    return found


CORES = 16
WEIGHT_SECONDS = 42e-9  # per drawn weight and core: measured, one core
START_SECONDS = 5   # 0.4 s of a core measured on the dry GPU; the rest, for CUDA's libraries and context, is assumed
PYTHON_SECONDS = 6   # import of torch and a context: assumed
FROM_DISK_SECONDS = 10  # the first time that a machine reads LibTorch and CUDA's libraries, 3 GB: assumed
SHARE_OF_PRODUCT = 0.4  # the part of the device's product that a step reaches: assumed, below what is hoped for
COMPILE_SECONDS = {"124M": 40, "774M": 80, "unet": 60}  # torch.compile, forward and backward: assumed
UNET = {"parameters": 53e6, "gflop": 49.5, "share": 0.15}  # GFLOP per image, forward and backward, by gpu_switches
SLOWER = {"memcheck": 6, "racecheck": 10}  # times of the kernels' test under a sanitizer: assumed
COLLECTIVE_SECONDS = 0.01  # for ranks that share a GPU, over sockets: docs/gpu.md; numbers are the dry GPU's
COMMUNICATORS_SECONDS = 8  # a few of them, over sockets: assumed
KERNELS_SECONDS = 3  # cuda_kernels_test on a device: it was made for that
EPILOGUES_SECONDS = 3  # 15 products with eight algorithms each: assumed
# Unlike products of a step with `epilogues`, counted on the dry GPU, times eight algorithms. One
# takes medians_in_turn() 0.02 s, or 51 turns if it is short: the UNet's rooflines are 0.1 ms.
ALGORITHM_SECONDS = {"gpt": 12 * 8 * 0.02, "unet": 23 * 8 * 51 * 0.1e-3}


def start(network):
    """Of a process; with a network, also of its first step, which chooses algorithms."""
    weights = UNET["parameters"] if network == "unet" else SIZES[network].parameters if network in SIZES else 0
    seconds = fixed(START_SECONDS + 2 * WEIGHT_SECONDS * weights / CORES, "start")
    if not network:
        return seconds
    return seconds + fixed(ALGORITHM_SECONDS["unet" if network == "unet" else "gpt"], "algorithms")


def python_start():
    return fixed(PYTHON_SECONDS, "import of torch")


def steps(device, network, count, rows_of_step, sequence=1024, slower=1.0):
    """`count` training steps, by the roofline of their products."""
    if network == "unet":
        one = rows_of_step * UNET["gflop"] * 1e9 / (UNET["share"] * device.tflops * 1e12)
    else:
        one = rows_of_step * sequence * SIZES[network].flops(sequence) / (SHARE_OF_PRODUCT * device.tflops * 1e12)
    return Cost(slower * count * one, f"{count} x {1e3 * slower * one:.0f} ms")


def fixed(seconds, source):
    return Cost(seconds, f"{source} {seconds:.0f}")
