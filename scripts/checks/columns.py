#!/usr/bin/env python3
"""Fails on lines that are too wide: columns.py [ROOT]. Code may have 120 columns; full-line
comments and Markdown may have 100. It ignores Markdown lines that cannot be broken (one word, a
heading). It also ignores tables and fenced blocks in bench/results, which contain the output of
programs."""
import pathlib
import re
import sys

import markdown

CODE, PROSE = 120, 100  # a row of a Markdown table cannot be broken, and has the columns of code
KINDS = {".hpp", ".cpp", ".cu", ".cuh", ".py", ".cmake", ".sh", ".toml", ".eb", ".def", ".js", ".css",
         ".html"}
FOLDERS = ("include", "src", "apps", "bench", "tests", "examples", "scripts", "cmake", "configs",
           "packaging", ".ci")


def is_comment(line, suffix):
    return (line.lstrip().startswith("//" if suffix in (".hpp", ".cpp", ".cu", ".cuh", ".js") else "#")
            and not line.startswith("#!"))


def is_script(path):
    return path.suffix == "" and path.is_file() and path.open("rb").read(2) == b"#!"


def wide(root):
    paths = [p for folder in FOLDERS for p in sorted((root / folder).rglob("*"))] + [root / "CMakeLists.txt"]
    for path in paths:
        if "stored" in path.parts or not (path.suffix in KINDS or path.name == "CMakeLists.txt" or is_script(path)):
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            most = PROSE if is_comment(line, path.suffix) else CODE
            if len(line) > most:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {most}"
    for page in markdown.pages(root):
        prose = dict(page.prose)
        for number, line in enumerate(page.lines, 1):
            recorded = page.path.parts[0] == "bench" and (number not in prose or line.lstrip().startswith("|"))
            unbreakable = " " not in re.sub(r"^[\s>*-]*(?:\d+\. )?", "", line) or line.startswith("#")
            most = CODE if line.lstrip().startswith("|") else PROSE
            if len(line) > most and not recorded and not unbreakable:
                yield f"{page.path}:{number}: {len(line)} columns, at most {most}"


if __name__ == "__main__":
    found = list(wide(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or f"no line is wider than {CODE} columns in code, {PROSE} in comments and Markdown")
    sys.exit(1 if found else 0)
