#!/usr/bin/env python3
"""Fails if the documents contain a code name that does not exist in the checkout: code_names.py
[ROOT]. It checks code spans: a path must exist, and an identifier or a flag must occur in the
sources. It ignores formulas, commands and quoted values. A fenced block ```cpp of FILE must stand in that
file, be its lines broken elsewhere."""
import pathlib
import re
import sys

import markdown

SOURCES = [("include", "src", "apps", "bench", "tests", "examples", "scripts", "cmake", "configs"),
           {".hpp", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".toml", ".in", ".json", ""}]
PAGES = ("docs/", "README.md", "CONTRIBUTING.md")
IDENTIFIER = re.compile(r"^(?:axonn::)?[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*(?:<[^>]*>)?(?:\([^)]*\))?$")
FLAG = re.compile(r"^--([a-z][a-z0-9-]*)(?:[ =].*)?$")
PATH = re.compile(r"^[\w.+-]+(?:/[\w.+-]+)+/?$")
# Folders and files that a build, a run or a reader makes: no fresh clone has them.
MADE = {"build", ".deps", "runs", "bin", "my-texts", "config.toml"}
# Names of other projects, and words that are values.
OTHERS = {"std", "torch", "pandas", "sm_90", "mpirun", "srun", "sbatch", "ctest", "cmake", "nvcc", "ldd", "torchrun",
          "python3", "pip", "mm", "true", "false"}


def words_of(root):
    found = set()
    for folder in SOURCES[0]:
        for path in (root / folder).rglob("*"):
            if path.is_file() and path.suffix in SOURCES[1] and "checks" not in path.parts:
                found.update(re.findall(r"\w+", path.read_text(errors="replace")))
    for path in (root / "CMakeLists.txt", root / "CMakePresets.json"):
        found.update(re.findall(r"\w+", path.read_text()))
    return found


def exists(root, page, text):
    """Looks from the root, from the page, and in the folders of headers and sources."""
    bases = (root, page.folder, root / "include/axonn", root / "src", root / "tests")
    return any((base / text).exists() or list(base.glob(text + "*")) for base in bases)


def others_names(page, line):
    """Code spans in columns with names of other frameworks: all but the last in coming-from.md."""
    text = page.lines[line - 1]
    return (markdown.CODE.findall(text.rstrip("| ").rpartition("|")[0])
            if page.path.name == "coming-from.md" and text.startswith("|") else ())


def unknown(root):
    words = words_of(root)
    files = ({path.name for folder in SOURCES[0] for path in (root / folder).rglob("*")} |
             {path.name for path in root.iterdir()})
    files |= {path.name for path in (root / "docs").rglob("*")}
    for page in markdown.pages(root):
        if not str(page.path).startswith(PAGES):
            continue
        for line, text in page.code_spans():
            if text in others_names(page, line):
                continue
            flag = FLAG.match(text)
            if flag:
                name = flag.group(1).removeprefix("no-")
                if name.replace("-", "_") not in words and not all(part in words for part in name.split("-")):
                    yield f"{page.path}:{line}: no program has the flag {text}"
            elif PATH.match(text) and "<" not in text:
                first = text.split("/")[0]
                if first in MADE or exists(root, page, text.rstrip("/")):
                    continue
                if (root / first).exists() or re.search(r"\.(hpp|cpp|py|md|toml|cmake)$", text):
                    yield f"{page.path}:{line}: there is no {text}"
            elif re.match(r"^[\w-]+\.(hpp|cpp|py|md|toml|cu|cmake)$", text):
                if text not in files | MADE:
                    yield f"{page.path}:{line}: there is no file {text}"
            elif IDENTIFIER.match(text) and re.search(r"[a-z]", text):
                parts = [part for part in re.findall(r"[A-Za-z_]\w*", re.sub(r"\([^)]*\)$", "", text))
                         if part != "axonn"]
                looks_like_code = "::" in text or "(" in text or "_" in text or re.match(r"^[A-Z][a-z]+[A-Z]", text)
                if looks_like_code and OTHERS.isdisjoint(parts):
                    for part in parts:
                        if part not in words and part not in OTHERS:
                            yield f"{page.path}:{line}: the sources have no {part} ({text})"


def not_in_their_file(root):
    for page in markdown.pages(root):
        for block in page.blocks:
            if block.info[1:2] != ["of"]:
                continue
            path = root / block.info[2]
            if not path.exists() or " ".join(block.text.split()) not in " ".join(path.read_text().split()):
                yield f"{page.path}:{block.line}: these lines do not stand in {block.info[2]}"


if __name__ == "__main__":
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = [*unknown(top), *not_in_their_file(top)]
    print("\n".join(found) or "every code name of the documents stands in the sources")
    sys.exit(1 if found else 0)
