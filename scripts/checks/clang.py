#!/usr/bin/env python3
"""Fails on warnings of clang: clang.py BUILD [SOURCES]. It checks these sources, or all of the
project, by the commands of BUILD/compile_commands.json, whose compiler may be GCC, without making
objects. CLANG: the program (clang++-16 to -22, or clang++). Exit status 77: there is no clang of
version 16 or later."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

OLDEST, NEWEST = 16, 22
# Options of GCC that clang does not know, and the precompiled header that GCC has made.
OF_GCC = re.compile(r"-Wno-(restrict|maybe-uninitialized|stringop-overflow|array-bounds|error=invalid-pch)"
                    r"|-fpch-preprocess|-Winvalid-pch")
# As cmake/AxonnCompiler.cmake sets them for clang.
OF_CLANG = ["-fsyntax-only", "-Werror", "-ffp-contract=off", "-Wno-deprecated-declarations"]
WITH_VALUE = {"-o", "-include", "-Xclang"}
COMPILER = re.compile(r"(^|/)(c|g|clang)\+\+(-\d+)?$")


def find_clang():
    for name in [os.environ.get("CLANG"), *(f"clang++-{n}" for n in range(NEWEST, OLDEST - 1, -1)), "clang++"]:
        path = name and shutil.which(name)
        version = path and re.search(r"clang version (\d+)", subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True).stdout)
        if version and int(version[1]) >= OLDEST:
            return path
    return None


def command(clang, entry):
    words, given = [], iter(shlex.split(entry["command"]))
    for word in given:
        if not words and COMPILER.search(word):
            words = [clang, *OF_CLANG]
        elif word in WITH_VALUE:
            next(given)
        elif words and not OF_GCC.fullmatch(word):
            words.append(word)
    return words


def main():
    build, *wanted = sys.argv[1:]
    clang = find_clang()
    if not clang:
        print(f"no clang of version {OLDEST} or later (scripts/setup --tests installs one; CLANG names another)")
        return 77
    entries = {entry["file"]: entry for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text())
               if entry["file"].endswith(".cpp")}
    chosen = [entry for file, entry in sorted(entries.items())
              if not wanted or any(file.endswith("/" + name) for name in wanted)]
    if len(chosen) < max(len(wanted), 1):
        print("these sources are not in the build:", *wanted)
        return 1

    def check(entry):
        return subprocess.run(command(clang, entry), cwd=entry["directory"], capture_output=True, text=True,
                              check=False)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(1 if wanted else os.cpu_count()) as pool:
        for entry, ended in zip(chosen, pool.map(check, chosen)):
            if ended.returncode != 0:
                failed += 1
                print(entry["file"], ended.stderr, sep="\n")
    print(f"{clang}: {len(chosen)} sources, {failed} with warnings or errors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
