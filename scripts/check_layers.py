#!/usr/bin/env python3
"""Fails on any #include against the module table of docs/architecture.md: check_layers.py [ROOT]"""
import pathlib
import re
import sys

# module: (our modules it may include, third-party headers that must not appear in it)
TORCH, MPI = r"(torch|ATen|c10)/", r"mpi\.h"
ALL = ["core", "grid", "perfmodel", "comm", "overlap", "layers", "model", "train"]
TABLE = {
    "core": ([], [TORCH, MPI]),
    "grid": (["core"], [TORCH, MPI]),
    "perfmodel": (["core", "grid"], [TORCH, MPI]),
    "comm": (["core", "grid"], [r"torch/"]),
    "overlap": (["core", "grid", "comm"], [MPI]),
    "layers": (["core", "grid", "comm", "overlap"], [MPI]),
    "model": (["core", "grid", "perfmodel", "comm", "overlap", "layers"], [MPI]),
    "train": (["core", "grid", "perfmodel", "comm", "overlap", "layers", "model"], [MPI]),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)


def faults(root):
    for module, (allowed, forbidden) in TABLE.items():
        for path in [*root.glob(f"include/axonn/{module}/**/*.hpp"), *root.glob(f"src/{module}/**/*.*")]:
            public = "include" in path.parts
            for header in INCLUDE.findall(path.read_text(errors="replace")):
                ours = re.match(r"(?:axonn/)?(\w+)/", header)
                if ours and ours[1] in ALL and ours[1] not in [*allowed, module]:
                    yield f"{path.relative_to(root)}: {module} must not include {header}"
                if any(re.match(f, header) for f in forbidden) or (public and re.match(r"mpi\.h|nccl\.h|spdlog/", header)):
                    yield f"{path.relative_to(root)}: {module} must not include {header}"
    for path in root.glob("apps/**/*.*pp"):
        for header in INCLUDE.findall(path.read_text()):
            if re.match(r"(%s)/" % "|".join(ALL), header):
                yield f"{path.relative_to(root)}: programs use public headers alone, not {header}"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or "every include agrees with the module table")
    sys.exit(1 if found else 0)
