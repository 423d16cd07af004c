"""The lines of JSON that a day on a GPU leaves: one as a step begins, one as it ends."""
import json
import os
import pathlib
import time


def read(path):
    """A line that was cut off is left out."""
    found = []
    for text in pathlib.Path(path).read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and "step" in line and "state" in line:
            found.append(line)
    return found


class Lines:
    """Continues the lines of `sources` in the file `path`, which may be one of them."""

    def __init__(self, path, sources=()):
        self.all, seen = [], set()
        for source in [*sources, path]:
            if pathlib.Path(source).exists():
                for line in read(source):
                    if (key := json.dumps(line, sort_keys=True)) not in seen:
                        seen.add(key)
                        self.all.append(line)
        partial = pathlib.Path(f"{path}.partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in self.all))
        partial.replace(path)
        self.file = open(path, "a")

    def add(self, **line):
        line["at"] = round(time.time(), 3)
        self.all.append(line)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def states(self):
        """How each step ended, by its name. What was missing may be there on the next machine."""
        return {line["step"]: line["state"] for line in self.all if line["state"] not in ("begun", "missing")}

    def begun(self, step):
        return sum(line["step"] == step and line["state"] == "begun" for line in self.all)
