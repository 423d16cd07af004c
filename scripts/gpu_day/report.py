"""The lines of one or more machines as tables."""
import json

from . import estimates, lines, machine, steps

FASTER = 1.01  # a switch is to be turned on from here
HIDDEN = ("busiest",)  # labels that the table of kernels has in full
MOST_KERNELS = 12


def text_of(value):
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value).replace("|", " ")


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(group, found):
    """One row per step, or per label of a step; lists are left out."""
    cells = []
    for line in found:
        step = line["step"].split(": ", 1)[1]
        for label, figures in (line.get("figures") or {"": {}}).items():
            if label not in HIDDEN:
                shown = {key: text_of(value) for key, value in figures.items() if not isinstance(value, (list, dict))}
                name = label if label.startswith(step) else " ".join(filter(None, [step, label]))
                cells.append((name, line["state"], shown))
    columns = list(dict.fromkeys(key for *_, figures in cells for key in figures))
    print(f"\n## {group}\n")
    print(row(["step", "state", *columns]))
    print(row(["---"] * (2 + len(columns))))
    for step, state, figures in cells:
        print(row([step, state, *(figures.get(column, "") for column in columns)]))


def figures_of(ended, name):
    return ended.get(name, {}).get("figures", {})


def is_right(ended, switch, network):
    """By the losses with all switches, or by those with this one only."""
    if ended.get(f"right: {network}", {}).get("state") == "right":
        return True
    of_it = [line for label, line in figures_of(ended, f"again: right: {network}").items()
             if label.split()[-1:] == [switch.name]]
    return bool(of_it) and all(line.get("right") for line in of_it)


def gains(ended, switch):
    """By network: how many times as fast a step is with the switch on."""
    for step in ("switches: 124M", "switches: unet"):
        figures = figures_of(ended, step) | figures_of(ended, f"again: {step}")
        if figures.get(switch.name, {}).get("on_ms"):
            yield step.split()[1], figures[switch.name]["off_ms"] / figures[switch.name]["on_ms"]


def in_short(ended):
    """A line for each question that the day was to answer."""
    for network in steps.SMALL:
        if line := ended.get(f"right: {network}"):
            yield f"losses of {network}: {line['state']}"
    for row in figures_of(ended, "kernels: test").values():
        yield f"kernels: {row.get('failed')} of {row.get('cases')} cases are wrong"
    products = figures_of(ended, "epilogues: products")
    if products:
        gone = [label for label, row in products.items() if not row.get("there")]
        yield f"epilogues: cuBLASLt has {len(products) - len(gone)} of {len(products)}" + "".join(
            f"; not {label}" for label in gone)
    for network in ("124M", "774M", "unet"):
        if row := figures_of(ended, f"headline: {network}").get("all"):
            yield (f"{network}: {text_of(row['off_ms'])} ms by default, {text_of(row['on_ms'])} with all kernels, "
                   f"{text_of(row['per_second'])} per second, {row['share']:.0%} of the product")
        if "idle" in figures_of(ended, f"traces: {network}").get("", {}):
            yield f"{network}: without work for {figures_of(ended, f'traces: {network}')['']['idle']:.1%} of the time"
    for name in ended:
        figures = figures_of(ended, name)
        for kind in ("eager", "compiled"):
            theirs = figures.get(f"PyTorch {kind}", {}).get("per_second")
            if theirs and "axonn" in figures:
                ratio = figures["axonn"]["per_second"] / theirs
                yield f"{name.split(': ')[1]}: axonn is {ratio:.2f} times as fast as {kind} PyTorch"
        if name.startswith("graph: ") and "" in figures:
            network = name.split(": ")[1]
            if one_by_one := figures_of(ended, f"headline: {network}").get("all", {}).get("on_ms"):
                yield f"{network}: a step as a graph is {one_by_one / figures['']['ms']:.2f} times as fast"
    yield from copies(ended)


def copies(ended):
    """Libraries of which axonn has another copy than PyTorch."""
    ours, theirs = figures_of(ended, "versions: axonn"), figures_of(ended, "bounds: PyTorch")
    for label, mine in ours.items():
        other = theirs.get(label.replace("axonn", "PyTorch"))
        if other and (mine["version"], mine["path"]) != (other["version"], other["path"]):
            yield (f"**two copies of {label.split()[0]}**: {mine['version']} at {mine['path']}, and PyTorch's "
                   f"{other['version']} at {other['path']}")


def switches(ended):
    print("\n## Switches to turn on\n")
    for switch in steps.SWITCHES:
        found = list(gains(ended, switch))
        right = not switch.ours or all(is_right(ended, switch, network) for network in switch.networks)
        measured = ", ".join(f"{network} x {gain:.3f}" for network, gain in found) or "never measured"
        turn_on = right and len(found) == len(switch.networks) and min(gain for _, gain in found) >= FASTER
        known = "LibTorch's own" if not switch.ours else "right" if right else "not shown to be right"
        print(f"- `{switch.name}`: {'turn on' if turn_on else 'leave off'}: {measured} (predicted "
              f"{switch.prediction}); {known}")


def not_right(ended):
    print("\n## Not right\n")
    for line in ended.values():
        if line["state"] != "right":
            print(f"- **{line['step']}**: {line['state']}: {line.get('why', '')}")
            for last in line.get("last", [])[-5:]:
                print(f"      {last}")
    print("\n## Never run\n")
    for step in steps.Plan(estimates.DEVICES["h100"], ended).all_steps():
        if ended.get(step.name, {"state": "missing"})["state"] == "missing":
            print(f"- {step.name}")


def kernels(ended, dry):
    """The kernels that took the most time, and those of ours and LibTorch's that the dry GPU launches
    another number of times. Libraries' calls launch kernels that it does not see."""
    for name in ended:
        found = figures_of(ended, name).get("", {}).get("kernels")
        if not found:
            continue
        print(f"\n## Time by {name}\n\n" + row(["kernel", "ms", "launches"]) + "\n" + row(["---"] * 3))
        for kernel, (milliseconds, launches) in list(found.items())[:MOST_KERNELS]:
            print(row([text_of(kernel[:100]), text_of(milliseconds), text_of(launches)]))
        print(row(["all", text_of(sum(took for took, _ in found.values())),
                   text_of(float(sum(times for _, times in found.values())))]))
        for kernel, times in dry.get(name, {}).items():
            here = found.get(kernel, (0, 0))[1]
            if abs(here - times) > 0.01:
                print(f"- `{kernel[:100]}`: {text_of(float(here))} launches, {times} on the dry GPU")


def counts(rows):
    if rows:
        print("\n## What the dry GPU expects of a step\n")
        columns = list(next(iter(rows.values())))
        print(row(["one rank", *columns]) + "\n" + row(["---"] * (1 + len(columns))))
        for name, found in rows.items():
            print(row([name, *found.values()]))


def report(options):
    """First a part that fits on a screen, then all tables."""
    found = lines.read_all(options.results)
    ended = lines.ended(found)
    print("# A day on a GPU\n\nDevices: " + "; ".join(sorted({line["device"] for line in found if "device" in line})))
    print("\n".join(["", *(f"- {text}" for text in in_short(ended))]))
    switches(ended)
    not_right(ended)
    groups = {}
    for line in ended.values():
        groups.setdefault(line["step"].split(":")[0], []).append(line)
    for group, of_group in groups.items():
        table(group, of_group)
    file = machine.folders()["pack"] / "dry.json"
    dry = json.loads(file.read_text()) if file.exists() else {"kernels": {}, "counts": {}}
    kernels(ended, dry["kernels"])
    counts(dry["counts"])
    return 0
