"""unpack_sources.py ARCHIVES SITE SOURCES: takes what the build needs out of the wheels and source
archives in the folder ARCHIVES. Headers go to SITE (a prefix), what has to be compiled to SOURCES.
An archive whose bytes are not those that axonn was tried with is refused."""
import hashlib
import pathlib
import sys
import tarfile
import zipfile

# Archives by the beginning of their name; a path inside them, without the folder of a source
# archive: where it goes. fmt is the copy that spdlog has.
TAKEN = {
    "tokenspeed_spdlog": {"tokenspeed_spdlog/include/spdlog/": "site/include/spdlog/",
                          "tokenspeed_spdlog/include/spdlog/fmt/bundled/": "site/include/fmt/"},
    "pgm_build_deps": {"pgm_build_deps/cli11/include/": "site/include/",
                       "pgm_build_deps/cli11/share/cmake/": "site/share/cmake/",
                       "pgm_build_deps/nlohmann_json/include/": "site/include/",
                       "pgm_build_deps/nlohmann_json/share/cmake/": "site/share/cmake/"},
    "pytomlpp": {"third_party/tomlplusplus/include/toml++/": "site/include/toml++/"},
    "xxhash": {"deps/xxhash/": "site/include/"},
    "ros_gtest_vendor": {"*/data/src/gtest_vendor/": "sources/googletest/"},
    "dlib": {"dlib/external/zlib/": "sources/zlib/", "dlib/external/libpng/": "sources/libpng/",
             "dlib/external/libjpeg/": "sources/libjpeg/"},
    "zstd": {"zstd/lib/": "sources/zstd/"},
}

# sha256 of the archives of the versions in scripts/setup.
SUMS = {
    "dlib": "7cb2a09467de032332c743bc967007f016598c66c9c9ebc54a5b66d3d9e46d54",
    "pgm_build_deps": "fe18d1004aa8630c5dd2c82a33b2f6b561a7c60da1d4f2484cbc39dc5236f772",
    "pytomlpp": "61a0f73e7ba2fe8bba4e99ce6d2701491885850b53aad8f3e46d03c4b31e594d",
    "ros_gtest_vendor": "6a578c55eca01c7d215e54bf1dd3172ada677b591dd2f5d3c8260b882364ee6e",
    "tokenspeed_spdlog": "ab985a8c6455692597f193c173276c1a3583fe30171fdff6764202e23fd7c9a5",
    "xxhash": "c9b288e4c1f5dae54417bc8a05e6f6daf505783d916b4783f4dd2f2e7d5db486",
    "zstd": "6d8684c69009be49e1b18ec251a5eb0d7e24f93624990a8a124a1da66a92fc8a",
}

KEPT = {".h", ".hpp", ".inl", ".cmake"}  # the only files that go to SITE


def members(archive):
    """Names without the first folder of a source archive, and a function that reads each."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            for name in file.namelist():
                yield name, lambda name=name: file.read(name)
    else:
        with tarfile.open(archive) as file:
            for member in file:
                if member.isfile():
                    yield member.name.partition("/")[2], lambda member=member: file.extractfile(member).read()


def unpack(archive, roots):
    source = next(name for name in TAKEN if archive.name.startswith(name + "-"))
    sum_here = hashlib.sha256(archive.read_bytes()).hexdigest()
    if sum_here != SUMS[source]:
        sys.exit(f"{archive.name} is not the archive that axonn knows: its sha256 is {sum_here}, not {SUMS[source]}")
    taken = TAKEN[source]
    found = set()
    for name, read in members(archive):
        for begin, target in taken.items():
            inner = name.partition("/")[2] if begin.startswith("*/") else name
            begin = begin.removeprefix("*/")
            rest = inner.removeprefix(begin)
            root, _, folder = target.partition("/")
            if rest == inner or not rest or rest.endswith("/"):
                continue
            if root == "site" and pathlib.Path(rest).suffix not in KEPT:
                continue
            path = (roots[root] / folder / rest).resolve()
            if not path.is_relative_to(roots[root]):
                sys.exit(f"{archive.name}: the path {name} leads out of its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(read())
            found.add(target)
    if found != set(taken.values()):
        sys.exit(f"{archive.name} lacks {', '.join(sorted(set(taken.values()) - found))}")


def main(arguments):
    folder, site, sources = (pathlib.Path(argument).resolve() for argument in arguments)
    for archive in sorted(folder.iterdir()):
        unpack(archive, {"site": site, "sources": sources})


if __name__ == "__main__":
    main(sys.argv[1:])
