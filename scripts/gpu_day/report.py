"""The lines of one or more machines as tables."""
import json

from . import lines, runner, steps

FASTER = 1.01  # a switch is to be turned on from here


def text_of(value):
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(group, found):
    """One row per step, or per label of a step; lists are left out."""
    cells = []
    for line in found:
        step = line["step"].split(": ", 1)[1]
        for label, figures in (line.get("figures") or {"": {}}).items():
            shown = {key: text_of(value) for key, value in figures.items() if not isinstance(value, (list, dict))}
            cells.append((" ".join(filter(None, [step, label])), line["state"], shown))
    columns = list(dict.fromkeys(key for *_, figures in cells for key in figures))
    print(f"\n## {group}\n")
    print(row(["step", "state", *columns]))
    print(row(["---"] * (2 + len(columns))))
    for step, state, figures in cells:
        print(row([step, state, *(figures.get(column, "") for column in columns)]))


def ratios(found):
    """By step: how many times as fast the last label is as the first."""
    for line in found:
        labels = list(line.get("figures", {}).items())
        if len(labels) == 2 and all("per_second" in figures for _, figures in labels):
            yield line["step"], labels[1][1]["per_second"] / labels[0][1]["per_second"]


def sets_of_switches(ended):
    """The states of the steps with a set of switches on, by that set."""
    found = {}
    for name, line in ended.items():
        if name.startswith("right: ") and " with " in name and not name.endswith(", again"):
            found.setdefault(tuple(name.partition(" with ")[2].split(" + ")), []).append(line["state"])
    return found


def switches(ended):
    print("\n## Switches to turn on\n")
    speeds, sets = dict(ratios(ended.values())), sets_of_switches(ended)
    for switch in steps.SWITCHES:
        gains = [speeds[name] for name in speeds if name.startswith(f"switches: {switch.name},")]
        right = any(switch.name in names and set(states) == {"right"} for names, states in sets.items())
        measured = ", ".join(f"x {gain:.3f}" for gain in gains) or "never measured"
        verdict = "turn on" if right and gains and min(gains) >= FASTER else "leave off"
        print(f"- `{switch.name}`: {verdict}: {measured} (predicted {switch.prediction}); "
              f"{'right' if right else 'not shown to be right'}")


MOST_KERNELS = 12  # of a table


def kernels(ended, expected):
    """The kernels that took the most time, and those of ours and LibTorch's that the dry GPU launches
    another number of times. Libraries' calls launch kernels that it does not see."""
    for name, line in ended.items():
        found = line.get("figures", {}).get("", {}).get("kernels")
        if not found:
            continue
        print(f"\n## Time by {name}\n\n" + row(["kernel", "ms", "launches"]) + "\n" + row(["---"] * 3))
        for kernel, (milliseconds, launches) in list(found.items())[:MOST_KERNELS]:
            print(row([kernel[:100].replace("|", " "), text_of(milliseconds), text_of(launches)]))
        print(row(["all", text_of(sum(took for took, _ in found.values())),
                   text_of(float(sum(times for _, times in found.values())))]))
        for kernel, times in expected.get(name, {}).items():
            here = found.get(kernel, (0, 0))[1]
            if abs(here - times) > 0.01:
                print(f"- `{kernel[:100]}`: {text_of(float(here))} launches, {times} on the dry GPU")


def report(options):
    every = [line for path in options.results for line in lines.read(path) if line["state"] != "begun"]
    ended = {line["step"]: line for line in every}
    print("# A day on a GPU\n\nDevices: " + "; ".join(sorted({line["device"] for line in every})))
    groups = {}
    for line in ended.values():
        groups.setdefault(line["step"].split(":")[0], []).append(line)
    for group, found in groups.items():
        table(group, found)
    beside = [(name, ratio) for name, ratio in ratios(ended.values()) if "beside" in name]
    if beside:
        print("\n## axonn beside PyTorch\n")
        for name, ratio in beside:
            print(f"- {name}: axonn is {1 / ratio:.2f} times as fast")
    switches(ended)
    file = runner.folders()["pack"] / "expected.json"
    expected = json.loads(file.read_text()) if file.exists() else {}
    kernels(ended, expected.get("kernels", {}))
    if dry := expected.get("dry"):
        print("\n## What the dry GPU expects of a step\n")
        columns = list(next(iter(dry.values()), {}))
        print(row(["one rank", *columns]) + "\n" + row(["---"] * (1 + len(columns))))
        for name, counts in dry.items():
            print(row([name, *counts.values()]))
    print("\n## Not right\n")
    for line in ended.values():
        if line["state"] != "right":
            print(f"- **{line['step']}**: {line['state']}: {line['why']}")
            for last in line.get("last", [])[-5:]:
                print(f"      {last}")
    print("\n## Never run\n")
    states = {name: line["state"] for name, line in ended.items()}
    for step in steps.all_steps(states):
        if states.get(step.name) in (None, "missing"):
            print(f"- {step.name}")
    return 0
