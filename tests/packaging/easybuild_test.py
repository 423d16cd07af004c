"""EasyBuild's own checks and dry run of the recipe that scripts/release writes. They need eb (from
PyPI: easybuild), environment-modules or Lmod, and pycodestyle; without them only the text is
checked."""
import glob
import os
import re
import shutil
import unittest

from recipe_files import CLONE, NO_CLONE, PACKAGING, SOURCE, VERSION, Scratch, options_of_the_build, run

FILE = PACKAGING / f"easybuild/axonn-{VERSION}-foss-2024a.eb"
EB = os.environ.get("AXONN_EB") or shutil.which("eb")
MODULES = next(iter(glob.glob("/usr/lib/*/modulecmd.tcl")), None)  # environment-modules of Debian


class Easyconfig(unittest.TestCase):
    def test_there_is_one_of_this_version(self):
        self.assertEqual([file.name for file in FILE.parent.glob("*.eb")], [FILE.name])
        self.assertIn(f"\nversion = '{VERSION}'\n", FILE.read_text())

    def test_every_setting_is_one_of_the_build(self):
        settings = set(re.findall(r"-D(\w+)=", FILE.read_text()))
        self.assertGreater(len(settings), 6)
        self.assertLessEqual(settings, options_of_the_build() | {"AXONN_WERROR"})


@unittest.skipUnless(CLONE, NO_CLONE)
@unittest.skipUnless(EB, "there is no eb in PATH (pip install easybuild) nor in AXONN_EB")
@unittest.skipUnless(MODULES or os.environ.get("LMOD_CMD"), "there is neither environment-modules nor Lmod")
class EasyBuild(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run(SOURCE / "scripts/release", cls.scratch)
        cls.recipe = cls.scratch / "easybuild" / FILE.name

    def eb(self, *arguments):
        options = [f"--prefix={self.scratch}/eb"]
        environment = dict(os.environ)
        if not os.environ.get("LMOD_CMD"):
            options += ["--modules-tool=EnvironmentModules", "--module-syntax=Tcl"]
            environment |= {"MODULES_CMD": MODULES}
        if os.getuid() == 0:
            options.append("--allow-use-as-root-and-accept-consequences")
        return run(EB, *options, *arguments, self.recipe, environment=environment)

    def test_it_passes_the_checks_for_contributions(self):
        said = self.eb("--check-contrib")
        self.assertIn("All style checks PASSed", said)
        self.assertIn("All SHA256 checksums checks PASSed", said)

    def test_every_dependency_has_a_recipe(self):
        said = self.eb("--dry-run", "--robot")
        self.assertIn(f"axonn/{VERSION}-foss-2024a", said)
        for module in ("CLI11/2.5.0", "tomlplusplus/3.4.0", "spdlog/1.15.3", "PyTorch/2.9.1", "OpenMPI/"):
            self.assertIn(f"(module: {module}", said)


if __name__ == "__main__":
    unittest.main()
