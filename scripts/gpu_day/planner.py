"""The plan before a device is there: seconds of each step with their source, and the command lines of two calls."""
from . import estimates, steps

BUDGETS = {1: 200, 2: 560}  # seconds of a call; a call on the device may last 600
MOST_CHARACTERS = 2000      # in a command line
LINES = ".gpu-day/day.jsonl"  # those of call 1, for call 2


def command(call):
    """In the repository's root, on a copy of the working tree with the ignored folder .gpu-day; results go to $OUT."""
    earlier = f" --from {LINES}" if call > 1 else ""
    return f"python3 -u scripts/gpu-day run --call {call} --budget {BUDGETS[call]}{earlier} --out $OUT/day.jsonl"


def seconds_of_calls(device):
    found = {}
    for step in steps.Plan(device).table():
        found[step.call] = found.get(step.call, 0) + step.seconds
    return found


def plan(options):
    device = estimates.DEVICES[options.device]
    table = list(steps.Plan(device).table())
    rows = ", ".join(f"{size} {estimates.rows(size, device.gib)}" for size in estimates.SIZES)
    print(f"{options.device}: {device.gib} GiB; rows of 1024 tokens per step: {rows}; UNet {steps.UNET_IMAGES} images")
    for call, seconds in seconds_of_calls(device).items():
        print(f"\ncall {call}: {seconds:.0f} s")
        for step in table:
            if step.call == call:
                print(f"{step.seconds:5.0f} s  {step.name:28} {step.cost.source}")
    print(f"then what failed, once more, small: at most {steps.AGAIN_MOST} s in all")
    for call, budget in BUDGETS.items():
        print(f"\nCommand line of call {call} (limit {budget + 30} s; carry .gpu-day):\n{command(call)}")
        if call == 1:
            print(f"After it: put its day.jsonl, or what it printed, into {LINES}.")
