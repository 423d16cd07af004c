"""The recipes of Spack and Apptainer, as far as they can be checked without either: Spack's are
executed with stand-ins for its functions, Apptainer's are read. Neither tool has seen them."""
import ast
import contextlib
import re
import shutil
import subprocess
import sys
import types
import unittest

from recipe_files import PACKAGING, SOURCE, VERSION, options_of_the_build

SPACK = PACKAGING / "spack/spack_repo/axonn"
# Of the names that spack.package exports (Package API v2.0), those that the recipes may use.
API = {"conflicts", "default_args", "depends_on", "Executable", "join_path", "license", "on_package_attributes",
       "run_after", "variant", "version", "when"}


class Spec:
    """A spec with settled variants: `on` of axonn's, and the architectures of CUDA."""

    def __init__(self, on, architectures=()):
        self.on = on
        self.variants = {"cuda_arch": types.SimpleNamespace(value=architectures)}

    def satisfies(self, text):
        return all((name in self.on) == (sign == "+") for sign, name in re.findall(r"([+~])(\w+)", text))

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=types.SimpleNamespace(bin=f"/{name}/bin"))


class Recorder:
    """Stand-ins for Spack's directives, which keep what they are called with."""

    def __init__(self):
        self.calls, self.conditions = [], []

    def directive(self, kind):
        return lambda *words, **options: self.calls.append((kind, words, options, " ".join(self.conditions)))

    @contextlib.contextmanager
    def when(self, condition):
        self.conditions.append(condition)
        yield
        self.conditions.pop()

    def names(self):
        def decorator(*_, **options):
            return lambda function: function

        class CMakePackage:
            define = staticmethod(lambda name, value: f"-D{name}={self.cmake_value(value)}")
            define_from_variant = lambda package, name, variant: package.define(name, variant in package.spec.on)

        class CudaPackage:
            cuda_arch_values = ("80", "90")
        given = {name: self.directive(name) for name in ("conflicts", "depends_on", "license", "variant", "version")}
        given |= {"when": self.when, "default_args": lambda **options: contextlib.nullcontext(),
                  "join_path": lambda *parts: "/".join(parts), "Executable": None, "run_after": decorator,
                  "on_package_attributes": decorator}
        assert set(given) == API
        return given, CMakePackage, CudaPackage

    @staticmethod
    def cmake_value(value):
        return {True: "ON", False: "OFF"}.get(value) or (value if isinstance(value, str) else ";".join(value))

    def execute(self, name):
        file = SPACK / f"packages/{name}/package.py"
        given, cmake, cuda = self.names()
        systems = types.SimpleNamespace(CMakePackage=cmake, CudaPackage=cuda, generator=self.directive("generator"))
        modules = {"spack": types.ModuleType("spack"), "spack.package": types.ModuleType("spack.package")}
        vars(modules["spack.package"]).update(given)
        for module in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            modules[module] = types.ModuleType(module)
        for system in ("cmake", "cuda"):
            modules[f"spack_repo.builtin.build_systems.{system}"] = systems
        before = dict(sys.modules)
        sys.modules.update(modules)
        try:
            scope = {"__name__": name}
            exec(compile(file.read_text(), file, "exec"), scope)  # pylint: disable=exec-used
        finally:
            sys.modules.clear()
            sys.modules.update(before)
        return scope


class SpackRecipes(unittest.TestCase):
    def setUp(self):
        self.recorder = Recorder()

    def arguments(self, *on, architectures=()):
        class_ = self.recorder.execute("axonn")["Axonn"]

        class Concrete(class_):
            spec = Spec(on, architectures)

            def __getitem__(self, name):
                return types.SimpleNamespace(module=types.SimpleNamespace(python_platlib=f"/{name}/site-packages"))
        return dict(argument[2:].split("=", 1) for argument in Concrete().cmake_args())

    def called(self, kind):
        return [(words, options, condition) for name, words, options, condition in self.recorder.calls if name == kind]

    def test_the_repository_has_one_name(self):
        self.assertEqual((SPACK / "repo.yaml").read_text(), "repo:\n  namespace: axonn\n  api: v2.0\n")
        self.assertEqual(SPACK.name, "axonn")

    def test_version_and_archive_are_those_of_the_project(self):
        scope = self.recorder.execute("axonn")
        self.assertEqual([words for words, _, _ in self.called("version")], [(VERSION,)])
        self.assertTrue(scope["Axonn"].url.endswith(f"/axonn-{VERSION}.tar.gz"))

    def test_every_setting_is_one_of_the_build(self):
        known = options_of_the_build() | {"CMAKE_CUDA_ARCHITECTURES", "CMAKE_CUDA_COMPILER", "AXONN_WERROR"}
        for on in ((), ("torch",), ("torch", "mpi"), ("torch", "mpi", "cuda")):
            self.assertLessEqual(set(self.arguments(*on, architectures=("80", "90"))), known, on)

    def test_the_planner_needs_no_libtorch(self):
        settings = self.arguments()
        self.assertEqual([settings[f"AXONN_WITH_{part}"] for part in ("TORCH", "MPI", "CUDA")], ["OFF"] * 3)
        self.assertNotIn("AXONN_LIBTORCH", settings)
        for words, _, condition in self.called("depends_on"):
            if words[0].startswith(("py-torch", "mpi", "libpng", "jpeg", "zlib", "zstd", "nccl", "cuda")):
                self.assertEqual(condition, "+torch", words)

    def test_the_trainers_take_the_libtorch_of_py_torch(self):
        settings = self.arguments("torch", "mpi", "cuda", architectures=("80", "90"))
        self.assertEqual(settings["AXONN_LIBTORCH"], "/py-torch/site-packages/torch")
        self.assertEqual([settings[f"AXONN_WITH_{part}"] for part in ("TORCH", "MPI", "CUDA")], ["ON"] * 3)
        self.assertEqual(settings["CMAKE_CUDA_ARCHITECTURES"], "80;90")
        self.assertEqual(settings["AXONN_BUILD_TESTS"], "OFF")

    def test_the_recipe_of_tomlplusplus_runs(self):
        self.recorder.execute("tomlplusplus")
        ((words, options, _),) = self.called("version")
        self.assertEqual((words, len(options["sha256"])), (("3.4.0",), 64))


def sections(file):
    """section -> its lines; "" holds the head."""
    found, name = {"": []}, ""
    for line in file.read_text().splitlines():
        begin = re.match(r"%(\w+)\s*(.*)$", line)
        if begin:
            name = begin.group(1)
            assert name not in found, f"{file.name}: %{name} twice"
            found[name] = []
        elif not line.startswith("#"):
            found[name].append(line)
    return found


def without_comments(lines):
    return [re.sub(r"(^|\s)#.*", "", line) for line in lines]


class ApptainerRecipes(unittest.TestCase):
    files = sorted((PACKAGING / "apptainer").glob("*.def"))

    def each(self):
        self.assertEqual([file.name for file in self.files], ["mpich.def", "openmpi.def"])
        return [sections(file) for file in self.files]

    def test_sections_are_those_of_apptainer(self):
        for found in self.each():
            self.assertEqual(set(found), {"", "help", "labels", "files", "environment", "post", "test", "runscript"})
            head = dict(line.split(": ") for line in found[""] if line)
            self.assertEqual(head, {"Bootstrap": "docker", "From": "debian:12"})
            self.assertIn('exec gpt "$@"', found["runscript"][0])
            for line in found["labels"]:
                self.assertRegex(line, r"^$|^    org\.opencontainers\.image\.\w+ \S")

    def test_the_version_is_that_of_the_project(self):
        for found in self.each():
            self.assertIn(f"    org.opencontainers.image.version {VERSION}", found["labels"])
            self.assertIn(f"    axonn-{VERSION}.tar.gz /opt/axonn.tar.gz", found["files"])
            self.assertIn(f"axonn {VERSION.rsplit('.', 1)[0]} ", found["help"][0])

    def test_scripts_have_no_errors_of_syntax(self):
        for found in self.each():
            for name in ("environment", "post", "test", "runscript"):
                ended = subprocess.run(["sh", "-n"], input="\n".join(found[name]), capture_output=True, text=True)
                self.assertEqual(ended.stderr, "", name)

    def test_settings_and_scripts_exist(self):
        known = options_of_the_build() | {"CMAKE_BUILD_TYPE", "MPI_C_COMPILER", "AXONN_WERROR"}
        for found in self.each():
            post = "\n".join(without_comments(found["post"]))
            self.assertLessEqual(set(re.findall(r"-D(\w+)=", post)), known)
            for script in re.findall(r"\bscripts/\w+", post):
                self.assertTrue((SOURCE / script).exists(), script)

    @unittest.skipUnless(shutil.which("apt-cache"), "there is no apt-cache, so no list of Debian's packages")
    def test_debian_has_every_package(self):
        for found in self.each():
            post = " ".join(without_comments(found["post"])).replace("\\", " ")
            line = re.search(r"apt-get install (.*?)\s(?:mkdir|$)", post).group(1)
            packages = [word for word in line.split() if not word.startswith("-")]
            self.assertIn("ca-certificates", packages)
            said = subprocess.run(["apt-cache", "policy", *packages], capture_output=True, text=True).stdout
            if "Candidate: " not in said:
                self.skipTest("apt-cache has no lists: apt-get update fetches them")
            self.assertEqual(set(packages) - set(re.findall(r"^(\S+):$", said, re.M)), set())
            self.assertNotIn("Candidate: (none)", said)

    def test_both_differ_in_mpi_only(self):
        mpich, openmpi = [" ".join(without_comments(found["post"])).replace("\\", " ").split()
                          for found in self.each()]

        def only(a, b):
            return [word for word in a if word not in b]
        self.assertEqual(only(openmpi, mpich), [])
        self.assertEqual(only(mpich, openmpi), ["libmpich-dev", "mpich", "-DMPI_C_COMPILER=/usr/bin/mpicc.mpich",
                                                "/opt/host-mpi", "ln", "-s", "/host-mpi/libmpi.so.12",
                                                "/opt/host-mpi/libmpich.so.12"])


class Page(unittest.TestCase):
    def test_its_commands_have_the_version_of_the_project(self):
        found = re.findall(r"axonn\S*?[-_](\d+\.\d+\.\d+)", (SOURCE / "docs/packaging.md").read_text())
        self.assertGreater(len(found), 3)
        self.assertEqual(set(found), {VERSION})


class PythonRecipes(unittest.TestCase):
    def test_they_are_python(self):
        for file in [*PACKAGING.rglob("*.py"), *PACKAGING.rglob("*.eb")]:
            ast.parse(file.read_text(), str(file))


if __name__ == "__main__":
    unittest.main()
