"""The libraries that a process has, each with its version and resolved path: versions.py PROGRAM prints a line of
JSON for each that the program starts with."""
import ctypes
import json
import pathlib
import re
import subprocess
import sys

# name: the call that tells its version, and whether it writes it through a pointer
LIBRARIES = {"nccl": ("ncclGetVersion", True), "cudnn": ("cudnnGetVersion", False),
             "cublasLt": ("cublasLtGetVersion", False), "cudart": ("cudaRuntimeGetVersion", True)}


def version(name, path):
    call, by_pointer = LIBRARIES[name]
    try:
        function = getattr(ctypes.CDLL(path), call)
    except (OSError, AttributeError) as problem:
        return str(problem)
    if by_pointer:
        found = ctypes.c_int()
        function(ctypes.byref(found))
        return found.value
    function.restype = ctypes.c_size_t
    return function()


def rows(side, paths):
    """`paths`: of all libraries of a process. One row for each library of the list, also when it is missing."""
    for name in LIBRARIES:
        found = sorted({str(pathlib.Path(path).resolve()) for path in paths
                        if re.match(rf"lib{name}\.so", pathlib.Path(path).name)})
        for path in found or [""]:
            known = version(name, path) if path else "not loaded"
            yield {"library": name, "side": side, "version": known, "path": path}


def of_this_process():
    return re.findall(r"(/\S+\.so\S*)", pathlib.Path("/proc/self/maps").read_text())


def of_program(program):
    """As the loader finds them, and what it does not find."""
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"=> (/\S+)", text), re.findall(r"(\S+) => not found", text)


def main():
    paths, missing = of_program(sys.argv[1])
    for row in rows("axonn", paths):
        print(json.dumps(row))
    if missing:
        sys.exit(f"not found: {' '.join(missing)}")


if __name__ == "__main__":
    main()
