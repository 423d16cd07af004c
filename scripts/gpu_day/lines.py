"""The lines of JSON that a day on a GPU leaves: one as a step begins, one as it ends. Short ones on standard output
hold the same figures, so that nothing is lost with the file."""
import json
import os
import pathlib
import time

MOST_SHORT = 150  # characters of a line on standard output
COMPACT = {"separators": (",", ":"), "ensure_ascii": False}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value[-80:] if isinstance(value, str) else value


def short(line):
    """The line's figures in lines of at most MOST_SHORT characters, which `read` reads too. Lists are left out."""
    head = {"step": line["step"], "state": line["state"]}
    first = head | ({"seconds": line["seconds"]} if "seconds" in line else {})
    texts = []
    for label, figures in line.get("figures", {}).items():
        place = {"of": label} if label else {}
        here = {}
        for key, value in figures.items():
            if isinstance(value, (list, dict)):
                continue
            more = here | {key: rounded(value)}
            if here and len(json.dumps(first | place | {"figures": more}, **COMPACT)) > MOST_SHORT:
                texts.append(first | place | {"figures": here})
                first, more = head, {key: rounded(value)}
            here = more
        if here:
            texts.append(first | place | {"figures": here})
            first = head
    if not texts or line.get("why"):
        room = MOST_SHORT - len(json.dumps(first | {"why": ""}, **COMPACT))
        texts.append(first | ({"why": fitting(line["why"], room)} if line.get("why") else {}))
    return [json.dumps(text, **COMPACT) for text in texts]


def fitting(text, room):
    """Its begin, of `room` characters in JSON."""
    while len(json.dumps(text, **COMPACT)) - 2 > room:
        text = text[:-1]
    return text


def read(path):
    """Lines of a file, or of what standard output was, among other text. A line that was cut off is left out."""
    found = []
    for text in pathlib.Path(path).read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if not (isinstance(line, dict) and "step" in line and "state" in line):
            continue
        of_step = lambda line: (line["step"], line["state"], "at" in line)
        if "at" in line or line["state"] == "begun":
            found.append(line)
        elif found and of_step(found[-1]) == of_step(line):
            add_short(found[-1], line)
        else:
            found.append(add_short({"figures": {}}, line))
    return found


def add_short(whole, line):
    if "figures" in line:
        whole["figures"].setdefault(line.get("of", ""), {}).update(line["figures"])
    return whole.update({key: value for key, value in line.items() if key not in ("of", "figures")}) or whole


def read_all(paths):
    """Each line once."""
    found = {}
    for path in paths:
        for line in read(path):
            found.setdefault(json.dumps(line, sort_keys=True), line)
    return list(found.values())


def ended(every, without=("begun",)):
    """The last line of each step, by its name. One of standard output gives way to one of the file."""
    found = {}
    for line in every:
        if line["state"] not in without and ("at" in line or "at" not in found.get(line["step"], {})):
            found[line["step"]] = line
    return found


class Lines:
    """Continues the lines of `sources` in the file `path`, which may be one of them. If the file cannot be written,
    standard output has the figures."""

    def __init__(self, path, sources=()):
        self.path, self.broken = path, False
        self.all = read_all(source for source in [*sources, path] if pathlib.Path(source).exists())
        self.file = self.try_to(self.open)

    def open(self):
        partial = pathlib.Path(f"{self.path}.partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in self.all))
        partial.replace(self.path)
        return open(self.path, "a")

    def write(self, text):
        self.file.write(text)
        self.file.flush()
        os.fsync(self.file.fileno())

    def try_to(self, work, *arguments):
        try:
            return work(*arguments)
        except OSError as problem:
            if not self.broken:
                print(json.dumps({"lines": f"{self.path} cannot be written: {problem}"}), flush=True)
            self.broken = True
            return None

    def add(self, **line):
        for text in short(line):
            print(text, flush=True)
        line["at"] = round(time.time(), 3)
        self.all.append(line)
        if self.file:  # a line that was cut off by a full disk is ended first
            self.try_to(self.write, ("\n" if self.broken else "") + json.dumps(line) + "\n")

    def ended(self):
        """A missing thing may be there on the next machine."""
        return ended(self.all, ("begun", "missing"))

    def begun(self, step):
        """How often. Standard output and the file have the same begins."""
        found = ["at" in line for line in self.all if line["step"] == step and line["state"] == "begun"]
        return max(found.count(True), found.count(False))
