#!/usr/bin/env python3
"""Fails on an #include that the module table below forbids, on folders that include each other in a
circle, on a folder with more than MOST_SOURCES sources, where folder, module, target and namespace
have more than one name, on a public header that nobody needs, and on LibTorch's at::parallel_for(),
which runs on one thread here: layers.py [ROOT]"""
import collections
import pathlib
import re
import sys

TORCH, MPI = r"(torch|ATen|c10)/", r"mpi\.h"
# module: (modules that it may include, third-party headers that it must not include), bottom-up
BELOW_TORCH = ["core", "grid", "terms", "network"]
TABLE = {
    "core": ([], [TORCH, MPI]),
    "grid": (["core"], [TORCH, MPI]),
    "terms": (["core"], [TORCH, MPI]),
    "network": (["core", "grid", "terms"], [TORCH, MPI]),
    "hugging_face": ([*BELOW_TORCH], [TORCH, MPI]),
    "config": (["core", "grid", "terms"], [TORCH, MPI]),
    "perfmodel": ([*BELOW_TORCH, "hugging_face", "config"], [TORCH, MPI]),
    "coconet": (["core", "terms"], [TORCH, MPI]),
    "tune": (["core", "terms", "coconet"], [TORCH, MPI]),
    "transport": (["core", "grid"], [r"(torch/(?!csrc/distributed/)|ATen|c10/)"]),
    "comm": (["core", "grid", "transport"], [r"torch/", MPI]),
    "kernels": (["core", "grid", "comm", "coconet"], [MPI]),
    "overlap": (["core", "grid", "terms", "comm", "coconet", "tune", "kernels"], [MPI]),
    "layers": (["core", "grid", "terms", "comm", "coconet", "kernels", "overlap"], [MPI]),
    "optim": (["core", "grid", "terms", "comm", "coconet", "tune", "kernels", "overlap", "layers"], [MPI]),
    "checkpoint": (["core", "grid", "comm", "optim"], [MPI]),
    "wrap": (["core", "grid", "terms", "comm", "overlap", "layers", "optim", "checkpoint"], [MPI]),
    "data": (["core"], [MPI]),
    "train": ([*BELOW_TORCH, "comm", "kernels", "overlap", "layers", "optim", "checkpoint"], [MPI]),
    "model": ([*BELOW_TORCH, "hugging_face", "comm", "kernels", "overlap", "layers", "checkpoint", "data"], [MPI]),
    "tasks": ([*BELOW_TORCH, "comm", "kernels", "overlap", "layers", "optim", "checkpoint", "data", "train", "model"],
              [MPI]),
    "program": ([*BELOW_TORCH, "config", "perfmodel", "transport", "comm", "kernels", "overlap", "layers", "optim",
                 "checkpoint", "data", "train"], [MPI]),
}
PURPOSE = {
    "core": "errors, log, text, files, random",
    "grid": "ranks, axes, shards",
    "terms": "words of planner and trainer",
    "network": "sizes, layers, presets",
    "hugging_face": "config.json, tensor names",
    "config": "flags, TOML, JSON",
    "perfmodel": "seconds, memory, search",
    "coconet": "programs, rules, proofs",
    "tune": "the fastest schedule",
    "transport": "join, send, receive",
    "comm": "HOW bytes move",
    "kernels": "one rank's computation",
    "overlap": "WHEN bytes move",
    "layers": "sharded layers, Context",
    "optim": "update rules",
    "checkpoint": "files, on any grid",
    "wrap": "any torch::nn::Module",
    "data": "text and images",
    "train": "step, loop, verification",
    "model": "gpt and unet, sharded",
    "tasks": "how gpt and unet train",
    "program": "commands, options, plan",
}
MOST_SOURCES = 16
# Modules whose words (Program, Operation, Unit, Choice) mean something else elsewhere have a
# namespace of their own; all others are in axonn.
OWN_NAMESPACE = {"coconet": "axonn::coconet", "tune": "axonn::tune"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)
# Specialisations of axonn's templates, such as Names<coconet::Operation>, stand in axonn.
NAMESPACE = re.compile(r"^namespace (axonn[\w:]*) \{\n(?!\n*(?://.*\n)*template <>)", re.M)
TARGET = re.compile(r"^\s*axonn_module\((\w+)", re.M)


def headers_of(path):
    return INCLUDE.findall(path.read_text(errors="replace"))


def module_of(place):
    """The module of a place such as "tasks/text/text_task": its folder."""
    return place.split("/")[0]


def our_files(root):
    """Place without suffix ("comm/host/buffer_pool") and path of each file of the library."""
    for base in (root / "include/axonn", root / "src"):
        for path in sorted(base.rglob("*")):
            place = path.relative_to(base).with_suffix("").as_posix()
            if path.suffix in (".hpp", ".cpp", ".cu", ".cuh") and "/" in place:
                yield place, path


def our_place(header):
    """The place of an included file of axonn, such as "comm/request"; None for other files."""
    place = re.sub(r"\.(hpp|cuh)$", "", re.sub(r"^axonn/", "", header))
    return place if "/" in place and place != header and place.split("/")[0] in TABLE else None


def module_arrows(root):
    """Maps each module to the modules that it includes, also for programs ("apps/gpt")."""
    arrows = collections.defaultdict(set)
    for place, path in our_files(root):
        arrows[module_of(place)] |= ({module_of(other) for other in filter(None, map(our_place, headers_of(path)))} -
                                     {module_of(place)})
    for path in sorted(root.glob("apps/**/*.*pp")):
        program = "/".join(path.relative_to(root).parts[:2])
        if not (root / program / "CMakeLists.txt").exists():  # shared by programs
            continue
        arrows[program] |= {module_of(other) for other in filter(None, map(our_place, headers_of(path)))}
    return dict(arrows)


def against_the_table(root):
    for place, path in our_files(root):
        module = module_of(place)
        if module not in TABLE:
            yield f"{path.relative_to(root)}: module {module} is not in the table"
            continue
        allowed, forbidden = TABLE[module]
        public = path.is_relative_to(root / "include")
        for header in headers_of(path):
            ours = our_place(header)
            upward = ours and module_of(ours) not in [*allowed, module]
            if (upward or any(re.match(f, header) for f in forbidden)
                    or (public and re.match(r"mpi\.h|nccl\.h|spdlog/", header))):
                yield f"{path.relative_to(root)}: {module} must not include {header}"
    for path in root.glob("apps/**/*.*pp"):
        for header in headers_of(path):
            if not header.startswith("axonn/") and our_place(header):
                yield f"{path.relative_to(root)}: programs use only public headers, not {header}"


def circles(root):
    """Circles of includes between the files and folders of one folder."""
    arrows = collections.defaultdict(lambda: collections.defaultdict(set))  # folder: entry -> entries that it includes
    folders = set()
    for place, path in our_files(root):
        folders.add(place.rsplit("/", 1)[0])
        for other in filter(None, map(our_place, headers_of(path))):
            mine, theirs = place.split("/"), other.split("/")
            depth = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), None)
            if depth is not None:
                arrows["/".join(mine[:depth])]["/".join(mine[: depth + 1])].add("/".join(theirs[: depth + 1]))
    for rooms in arrows.values():
        reached = {room: reachable(room, rooms) for room in rooms}
        for room in sorted(rooms):
            circle = sorted(other for other in reached[room] if room in reached.get(other, ()))
            if room == min(circle, default=None) and folders & set(circle):
                yield f"folders that include each other in a circle: {', '.join(circle)}"


def reachable(room, rooms):
    found, ahead = set(), [room]
    while ahead:
        new = rooms.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def other_names(root):
    """Folders of src that make another target than their own, and files in another namespace than
    their module's. A namespace within axonn that is no module's (axonn::log) belongs to its files."""
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        made = [name for path in sorted(folder.rglob("CMakeLists.txt")) for name in TARGET.findall(path.read_text())]
        if made != [folder.name]:
            yield f"src/{folder.name} makes the modules {', '.join(made) or 'none'}, not {folder.name} and no other"
    for place, path in our_files(root):
        module = module_of(place)
        for namespace in NAMESPACE.findall(path.read_text(errors="replace")):
            outer = "::".join(namespace.split("::")[:2])
            other = outer.removeprefix("axonn::") in TABLE or namespace == "axonn"
            if other and outer != OWN_NAMESPACE.get(module, "axonn"):
                yield f"{path.relative_to(root)}: module {module} is not in namespace {namespace}"


def not_needed(root):
    """Public headers that neither another module, a program, an example nor the umbrella header
    includes, be it through other public headers. Tests may include private headers."""
    public = {place: path for place, path in our_files(root) if path.is_relative_to(root / "include")}
    needed = set()
    ahead = set(filter(None, map(our_place, headers_of(root / "include/axonn/axonn.hpp"))))
    for place, path in our_files(root):
        ahead |= {other for other in filter(None, map(our_place, headers_of(path)))
                  if module_of(other) != module_of(place)}
    for path in (path for folder in ("apps", "bench", "examples") for path in root.glob(f"{folder}/**/*.*pp")):
        ahead |= set(filter(None, map(our_place, headers_of(path))))
    while ahead:
        place = ahead.pop()
        if place in public and place not in needed:
            needed.add(place)
            ahead |= set(filter(None, map(our_place, headers_of(public[place]))))
    for place in sorted(public.keys() - needed):
        yield f"{public[place].relative_to(root)}: nothing outside its module includes it, so it belongs in src"


def one_thread(root):
    for _, path in our_files(root):
        text = re.sub(r"//.*", "", path.read_text(errors="replace"))
        if re.search(r"\bat::parallel_(for|reduce)\b", text):
            yield f"{path.relative_to(root)}: at::parallel_for() runs on one thread; take kernels/cpu/parallel.hpp"


def crowds(root):
    for base in ("src", "tests"):
        count = collections.Counter(path.parent for path in (root / base).rglob("*") if path.suffix in (".cpp", ".cu"))
        for folder, sources in sorted(count.items()):
            if sources > MOST_SOURCES:
                yield f"{folder.relative_to(root)}: {sources} sources, at most {MOST_SOURCES} lie in a folder"


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = [*against_the_table(place), *circles(place), *crowds(place), *other_names(place), *not_needed(place),
             *one_thread(place)]
    print("\n".join(found) or "every include agrees with the module table, no folders include each other, every "
          "public header is needed, and work is divided among threads")
    sys.exit(1 if found else 0)
