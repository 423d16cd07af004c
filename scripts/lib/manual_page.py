"""Prints the manual page of one of our programs, from what its --help and those of its subcommands say:
manual_page.py PROGRAM VERSION."""
import pathlib
import re
import subprocess
import sys

COLUMN = 30  # the first one of descriptions in CLI11's help


def help_of(program, *subcommand):
    ended = subprocess.run([program, *subcommand, "--help"], stdout=subprocess.PIPE, text=True, check=True)
    return Help(ended.stdout)


class Help:
    """A help in its parts: about, usage, sections (their items have a name and a description), and what follows."""

    def __init__(self, text):
        lines = text.rstrip().split("\n")
        usage = next((i for i, line in enumerate(lines) if line.startswith("Usage: ")), len(lines))
        self.about = lines[:usage]
        self.usage = lines[usage].removeprefix("Usage: ").split(" ", 1)[-1] if usage < len(lines) else ""
        self.sections, self.end = {}, []
        for line, following in zip(lines[usage + 1:], [*lines[usage + 2:], ""]):
            if line.startswith(" " * COLUMN) and self.sections:
                items[-1][1] = f"{items[-1][1]} {line.strip()}".strip()
            elif line.startswith("  ") and self.sections:
                apart = line[COLUMN - 1:COLUMN] == " " and not following.startswith(" " * COLUMN)
                items.append([line[:COLUMN].strip(), line[COLUMN:].strip()] if apart else [line.strip(), ""])
            elif line.endswith(":") and not self.end:
                items = self.sections[line[:-1].strip("[]")] = []
            elif line:
                self.end.append(line)


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return "\\&" + text if text.startswith((".", "'")) else text


def prose(lines):
    """Paragraphs, and indented lines as they are."""
    page, plain = [], True
    for line in lines:
        if plain == line.startswith(" "):
            plain = not plain
            page.append(".fi" if plain else ".nf")
        page.append(escaped(line) or ".PP")
    return page if plain else [*page, ".fi"]


def items_of(sections, known=()):
    page = []
    for title, items in sections.items():
        items = [item for item in items if item not in known]
        if items and title not in ("", "Options"):
            page.append(f".SS {escaped(title)}")
        for name, description in items:
            page += [".TP", f".B {escaped(name.split(' Excludes:')[0])}", escaped(description) or "\\&"]
    return page


def page_of(program, version):
    name = pathlib.Path(program).name
    main = help_of(program)
    commands = main.sections.pop("Subcommands", [])
    summary = re.split(r"\.(?:\s|$)|,? \(", main.about[0])[0]
    page = [f".TH {escaped(name.upper())} 1 \"\" \"axonn {version}\" \"axonn\"", ".SH NAME",
            f"{escaped(name)} \\- {escaped(summary[0].lower() + summary[1:])}",
            ".SH SYNOPSIS", f".B {escaped(name)}", escaped(main.usage), ".SH DESCRIPTION", *prose(main.about),
            ".SH OPTIONS", *items_of(main.sections)]
    known = [item for items in main.sections.values() for item in items]
    if commands:
        page += [".SH COMMANDS", *items_of({"": commands})]
    for command, _ in commands:
        own = help_of(program, command)
        title = f"{name} {command}"
        page += [f".SH \"{escaped(title.upper())}\"", f".B {escaped(title)}", escaped(own.usage.split(" ", 1)[-1]),
                 ".PP", *prose(own.about), *items_of(own.sections, known)]
    if main.end:
        page += [".SH NOTES"]
        for line in main.end:
            page += [escaped(line), ".PP"]
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page_of(*sys.argv[1:]))
