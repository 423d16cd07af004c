#!/usr/bin/env python3
"""Runs the commands of the documents: commands.py ROOT BUILD [--long] [PAGE...]. It runs the fenced
blocks that begin with ```sh run, in the order of the page, with bash -e. Each page has its own folder
with the checkout's files, in which build/release is BUILD. For a block that fails, it prints the file
and line. Tutorials (docs/tutorial-*.md) are run if they are named.

A block ```text printed has lines that the block before it prints, in this order; others may lie
between them. Numbers stand for any numbers, and `...` for anything.

Blocks that begin with ```sh run long are for the night: --long takes the pages that have one, and runs
all of their blocks. A page's comments <!-- by day: `--steps 500` is `--steps 5` -->, and by night,
change its commands. Without the paths in its <!-- needs: PATTERN, CURE -->, a page is skipped; if all
are, the status is 77. Python finds the packages of folders that a page needs."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import markdown

SECONDS = {False: 300, True: 3000}  # for a block, by day and by night
LACKING = 77  # CTest's SKIP
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")


@dataclasses.dataclass
class Command:
    line: int  # number of its first line in the page
    text: str
    long: bool
    printed: list  # lines


def comments(page, kind):
    return re.findall(rf"<!-- {kind}: (.*?) -->", "\n".join(page.lines), re.S)


def changed(commands, changes):
    """Each change names what occurs once in the commands of the page."""
    for old, new in changes:
        whole = re.compile(re.escape(old) + r"(?!\S)")
        assert sum(len(whole.findall(command.text)) for command in commands) == 1, f"not once in the page: {old}"
        for command in commands:
            command.text = whole.sub(lambda _: new, command.text)
    return commands


def commands_of(page, night):
    found = []
    for block in page.blocks:
        if block.info[:2] == ["sh", "run"]:
            found.append(Command(block.line, block.text, block.info[2:] == ["long"], []))
        elif block.info == ["text", "printed"]:
            found[-1].printed += block.text.splitlines()
    changes = comments(page, "by night" if night else "by day")
    changed(found, [pair for text in changes for pair in re.findall(r"`([^`]+)` is `([^`]+)`", text)])
    return [command for command in found if night or not command.long]


def is_long(page):
    return bool(comments(page, "by day")) or any(block.info == ["sh", "run", "long"] for block in page.blocks)


def lacking(root, page):
    """The sentences of what this machine does not have."""
    return [need for need in comments(page, "needs") if not any(root.glob(need.split(",")[0]))]


def pattern_of(line):
    def literal(text):
        return NUMBER.pattern.join(map(re.escape, NUMBER.split(text)))
    return re.compile(r"\s+".join(".*?".join(map(literal, word.split("..."))) for word in line.split()))


def not_printed(output, expected):
    """The first of the expected lines that does not come in its turn, or None."""
    lines = iter(output.splitlines())
    for line in expected:
        if line.strip() not in ("", "...") and not any(pattern_of(line).search(each) for each in lines):
            return line
    return None


def folder_like(root, build, scratch):
    for entry in root.iterdir():
        if entry.name not in (".git", "build", "runs"):
            (scratch / entry.name).symlink_to(entry)
    (scratch / "build").mkdir()
    (scratch / "build/release").symlink_to(build)


def environment(root, page):
    """Python finds the packages in the folders that the page needs."""
    packages = [str(path) for need in comments(page, "needs")
                for path in root.glob(need.split(",")[0] + "/lib/python3*/site-packages")]
    found = {"PYTHONPATH": os.pathsep.join(packages)} if packages else {}
    return {**os.environ, "OMP_NUM_THREADS": "1", **found}


def run(command, variables, scratch, seconds):
    """Status and output."""
    try:
        ended = subprocess.run(["bash", "-euo", "pipefail", "-c", command.text], cwd=scratch, env=variables, text=True,
                               errors="replace", timeout=seconds, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return 124, f"not done after {seconds} s"
    missing = not_printed(ended.stdout, command.printed) if ended.returncode == 0 else None
    return (ended.returncode, ended.stdout) if missing is None else (1, f"{ended.stdout}\nnot printed: {missing}")


def follow(page, root, scratch, night):
    """Runs the commands of a page in a folder, and yields each with its status and output, up to the first that
    fails."""
    for command in commands_of(page, night):
        begin = time.monotonic()
        status, output = run(command, environment(root, page), scratch, SECONDS[night])
        print(f"{page.path}:{command.line}: status {status}, {time.monotonic() - begin:.1f} s", flush=True)
        yield command, status, output
        if status != 0:
            return


def chosen(root, night, names):
    for page in markdown.pages(root):
        named = str(page.path) in names if names else not str(page.path).startswith("docs/tutorial-")
        if named and commands_of(page, night) and (is_long(page) or not night):
            yield page


def main(root, build, night, names):
    root, build, failed, count, skipped = pathlib.Path(root).resolve(), pathlib.Path(build).resolve(), 0, 0, 0
    for page in chosen(root, night, names):
        if needs := lacking(root, page):
            print(f"{page.path} is skipped, it needs {'; '.join(needs)}")
            skipped += 1
            continue
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="axonn-commands-"))
        folder_like(root, build, scratch)
        for command, status, output in follow(page, root, scratch, night):
            count += 1
            if status != 0:
                failed += 1
                print(command.text + "".join(f"| {line}\n" for line in output.split("\n")[-30:]))
        shutil.rmtree(scratch)
    if count == 0:
        print("no block was run")
    return 1 if failed or count + skipped == 0 else 0 if count else LACKING


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--long"]
    sys.exit(main(given[0], given[1], "--long" in sys.argv, given[2:]))
