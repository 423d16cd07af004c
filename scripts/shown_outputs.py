#!/usr/bin/env python3
"""Makes the outputs that the documents show again: shown_outputs.py [--check] [--build BUILD] [PAGE...].
They are the fenced blocks that begin with ```console. Each line with `$ ` is a command; it runs with
bash in a folder like the checkout, with the programs in its PATH, on a terminal of 100 columns. Of
a long output the middle is left out: ```console 15 has 15 lines per command. Longer lines are cut.
With --check nothing is written. It fails if a command fails, and in blocks ```console same also if
the output is another one. A time at the end of a line (`in 3.7 ms`) may differ."""
import argparse
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "scripts/checks"))
import commands  # noqa: E402
import markdown  # noqa: E402

COLUMNS, LINES = 100, 1000
LEFT_OUT = "..."


def on_terminal(command, folder):
    """(status, standard output, standard error) of a command whose standard output is a terminal."""
    ours, its = pty.openpty()
    path = f"{folder}/build/release/bin:{os.environ['PATH']}"
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", command], cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=its, stderr=errors,
                                   env=os.environ | {"OMP_NUM_THREADS": "1", "TERM": "xterm", "PATH": path})
        os.close(its)
        output = read_all(ours)
        status = process.wait()
        errors.seek(0)
        return status, output, errors.read().decode(errors="replace")


def read_all(terminal):
    """Until nobody writes to it any more."""
    parts = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part)
    except OSError:  # EIO: the other end is closed
        pass
    os.close(terminal)
    return b"".join(parts).decode(errors="replace")


def shown(output, most):
    """The lines that a terminal shows at last: of a line that was redrawn the last state."""
    if not output:
        return []
    lines = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line.rsplit("\r", 1)[-1])[:COLUMNS].rstrip()
             for line in output.replace("\r\n", "\n").rstrip("\n").split("\n")]
    if len(lines) <= most:
        return lines
    end = most // 4
    return [*lines[:most - 1 - end], LEFT_OUT, *lines[len(lines) - end:]]


def commands_of(block):
    """A command goes on after a line that ends with a backslash."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", block.text, re.M)


def made_again(block, folder):
    """(the block's text with new outputs, the commands that failed)"""
    most = next((int(word) for word in block.info if word.isdigit()), LINES)
    lines, failed = [], []
    for command in commands_of(block):
        status, output, errors = on_terminal(command, folder)
        lines += [f"$ {command}", *shown(output, most)]
        if status != 0:
            failed.append(f"status {status}: {command}\n{output}{errors}")
    return "\n".join(lines) + "\n", failed


def without_times(text):
    return re.sub(r" in [\d.]+( m?s?)?$", "", text, flags=re.M)


def faults_of(page, blocks, build, check):
    """The faults of these blocks. Writes the page again, unless `check` is set or a command fails."""
    folder, faults = pathlib.Path(tempfile.mkdtemp(prefix="axonn-outputs-")), []
    commands.folder_like(TOP, build, folder)
    text = (TOP / page.path).read_text()
    for block in blocks:
        new, failed = made_again(block, folder)
        text = text.replace(block.text, new)
        if check and "same" in block.info and without_times(new) != without_times(block.text):
            failed.append(f"another output; run scripts/shown_outputs.py:\n{new}")
        faults += [f"{page.path}:{block.line}: {fault}" for fault in failed]
    shutil.rmtree(folder)
    if not check and not faults:
        (TOP / page.path).write_text(text)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="README.md, ... (default: all)")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build/release")
    args = parser.parse_args()
    count, faults = 0, []
    for page in markdown.pages(TOP):
        blocks = [block for block in page.blocks if block.info[:1] == ["console"]]
        if blocks and (not args.pages or str(page.path) in args.pages):
            count += len(blocks)
            faults += faults_of(page, blocks, args.build.resolve(), args.check)
    print("\n".join([*faults, f"{count} blocks, {len(faults)} faults"]))
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
