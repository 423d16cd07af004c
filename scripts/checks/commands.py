#!/usr/bin/env python3
"""Runs the commands of the documents: commands.py ROOT BUILD [--long] [PAGE...]. It runs the fenced
blocks that begin with ```sh run, or with --long those that begin with ```sh run long. Each page has
its own folder with the checkout's files, in which build/release is BUILD. The blocks of a page run
there in order, with bash -e. For a block that fails, it prints the file and line."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import markdown

SECONDS = 300


def folder_like(root, build, scratch):
    for entry in root.iterdir():
        if entry.name not in (".git", "build", "runs"):
            (scratch / entry.name).symlink_to(entry)
    (scratch / "build").mkdir()
    (scratch / "build/release").symlink_to(build)


def run(block, scratch):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=scratch, env=environment, text=True,
                              timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as slow:
        return subprocess.CompletedProcess(slow.args, 124, f"not done after {SECONDS} s")


def main(root, build, wanted, names):
    root, build, failed, count = pathlib.Path(root).resolve(), pathlib.Path(build).resolve(), 0, 0
    for page in markdown.pages(root):
        blocks = [block for block in page.blocks if block.info == wanted]
        if not blocks or (names and str(page.path) not in names):
            continue
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="axonn-commands-"))
        folder_like(root, build, scratch)
        for block in blocks:
            begin = time.monotonic()
            result = run(block, scratch)
            count += 1
            print(f"{page.path}:{block.line}: status {result.returncode}, {time.monotonic() - begin:.1f} s", flush=True)
            if result.returncode != 0:
                failed += 1
                print(block.text + "".join(f"| {line}\n" for line in result.stdout.split("\n")[-30:]))
        shutil.rmtree(scratch)
    if count == 0:
        print("no block was run")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--long"]
    sys.exit(main(given[0], given[1], ["sh", "run", "long"] if "--long" in sys.argv else ["sh", "run"], given[2:]))
