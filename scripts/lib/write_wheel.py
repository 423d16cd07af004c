"""write_wheel.py BUILD FOLDER: packs BUILD/static/axonn-config as a wheel in FOLDER, and prints its path.
The version is that of CMakeLists.txt. The same program and the same Debian packages give the same bytes."""
import base64
import hashlib
import pathlib
import re
import struct
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 5_000_000
PROCESSORS = {62: "x86_64", 183: "aarch64"}  # e_machine of an ELF file
PT_DYNAMIC, PT_INTERP = 2, 3
# A static program asks nothing of the C library of a machine, so it runs beside old ones of GNU and
# beside musl. Of the kernel its own C library needs Linux 3.2; manylinux2014 is of Linux 3.10.
SYSTEMS = ("manylinux2014", "manylinux_2_17", "musllinux_1_1")
# Those of axonn and of the libraries in AXONN_PLANNER_LICENCES and AXONN_STATIC_LICENCES.
LICENCE = ("Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND MIT AND LGPL-2.1-or-later AND "
           "GPL-3.0-or-later WITH GCC-exception-3.1")
NOTICE = """axonn-config is under the Apache License 2.0. It contains compiled code of the libraries below, each
under its own licence. It is linked statically; scripts/wheel of axonn's sources links it again with other
versions of them.
"""
METADATA = """Metadata-Version: 2.4
Name: axonn-config
Version: {version}
Summary: Ranks 4D grids for distributed training by predicted seconds and memory, without a GPU
Keywords: distributed training,tensor parallelism,FSDP,planner,LLM
License-Expression: {licence}
{files}
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Description-Content-Type: text/markdown

{description}"""


def fail(text):
    sys.exit(f"scripts/wheel: {text}")


def cached(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else fail(f"{build} was not configured by axonn: run cmake --preset wheel")


def processor_of(program):
    """The processor that a static ELF program of 64 bits is for; others are refused."""
    machine, = struct.unpack_from("<H", program, 18)
    begin, = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    types = {struct.unpack_from("<I", program, begin + size * i)[0] for i in range(count)}
    if types & {PT_DYNAMIC, PT_INTERP}:
        fail("the program loads shared libraries: the wheel needs a static one, the target axonn-config-static")
    return PROCESSORS.get(machine) or fail(f"the program is for the ELF machine {machine}; choose one of {PROCESSORS}")


def version_of(package):
    return subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], check=True, capture_output=True,
                          text=True).stdout


def libraries_text(packages):
    text = NOTICE
    for package in packages:
        file = pathlib.Path(f"/usr/share/doc/{package}/copyright")
        if not file.exists():
            fail(f"the wheel must carry the licence of {package}, and {file} is not there: make it on a Debian with "
                 f"{package}")
        text += f"\n==== {package} {version_of(package)} ====\n\n{file.read_text(errors='replace')}"
    return text


def licences(build):
    """The files of dist-info/licenses by name."""
    packages = ";".join(cached(build, f"AXONN_{part}_LICENCES") for part in ("PLANNER", "STATIC")).split(";")
    common = pathlib.Path("/usr/share/common-licenses")
    return {"LICENSE": (SOURCE / "LICENSE").read_bytes(),
            "libraries.txt": libraries_text(packages).encode(),
            **{f"{name}.txt": (common / name).read_bytes() for name in ("GPL-3", "LGPL-2.1")}}


def row(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}\n"


def write(build, folder):
    source = build / "static/axonn-config"
    if not source.exists():
        fail(f"there is no {source}: build the target axonn-config-static, which exists where the compiler links "
             "statically")
    program, version = source.read_bytes(), cached(build, "CMAKE_PROJECT_VERSION")
    processor, texts = processor_of(program), licences(build)
    tags = [f"{system}_{processor}" for system in SYSTEMS]
    info = f"axonn_config-{version}.dist-info"
    metadata = METADATA.format(version=version, licence=LICENCE,
                               files="\n".join(f"License-File: {name}" for name in texts),
                               description=(SOURCE / "packaging/wheel/description.md").read_text())
    wheel = "Wheel-Version: 1.0\nGenerator: axonn scripts/wheel\nRoot-Is-Purelib: false\n" + "".join(
        f"Tag: py3-none-{tag}\n" for tag in tags)
    files = {f"axonn_config-{version}.data/scripts/axonn-config": program,
             **{f"{info}/licenses/{name}": text for name, text in texts.items()},
             f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
    record = f"{info}/RECORD"
    files[record] = ("".join(row(*file) for file in files.items()) + f"{record},,\n").encode()

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"axonn_config-{version}-py3-none-{'.'.join(tags)}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # from 1980, so that the time of the build does not show
            entry.external_attr = (0o100755 if content is program else 0o100644) << 16
            entry.create_system = 3  # Unix
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    if path.stat().st_size > MOST_BYTES:
        fail(f"{path} has {path.stat().st_size} bytes, at most {MOST_BYTES} are meant: is it a build of preset wheel?")
    return path


if __name__ == "__main__":
    print(write(*map(pathlib.Path, sys.argv[1:3])))
