"""unpack_sources.py ARCHIVES SITE SOURCES: takes what the build needs out of the wheels and source
archives in the folder ARCHIVES. Headers go to SITE (a prefix), what has to be compiled to SOURCES."""
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
    taken = next(rules for name, rules in TAKEN.items() if archive.name.startswith(name + "-"))
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


if __name__ == "__main__":
    folder, site, sources = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    for archive in sorted(folder.iterdir()):
        unpack(archive, {"site": site, "sources": sources})
