"""cpack makes Debian packages of this build: what they hold and need, and that the planner runs from
them. packaging/deb/check_install installs and removes them, as root."""
import os
import pathlib
import re
import shutil
import unittest

from recipe_files import BUILD, SOURCE, VERSION, Scratch, cached, run

LIBTORCH = os.environ.get("AXONN_LIBTORCH", "")
LICENCES = sum((cached(f"AXONN_{part}_LICENCES").split(";") for part in ("PLANNER", "TRAINER")), [])
MISSING = [program for program in ("dpkg-deb", "dpkg-shlibdeps", "file") if not shutil.which(program)] + [
    library for library in LICENCES if not pathlib.Path(f"/usr/share/doc/{library}/copyright").exists()]
SHARED = re.match(r"/(opt|usr)/", LIBTORCH)


@unittest.skipIf(MISSING, f"Debian packages are made on a Debian with {', '.join(MISSING)}")
@unittest.skipUnless((BUILD / "CPackConfig.cmake").exists(), "a build with sanitizers makes no packages")
class DebianPackages(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.said = cls.cpack("-G", "DEB", "-B", cls.scratch)
        cls.debs = {file.name.split("_")[0]: file for file in cls.scratch.glob("*.deb")}
        cls.planner = cls.scratch / "planner"
        run("dpkg-deb", "-x", cls.debs["axonn-planner"], cls.planner)

    @classmethod
    def cpack(cls, *arguments, **options):
        return run(os.environ["AXONN_CPACK"], *arguments, folder=BUILD, **options)

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.debs[package], name).strip()

    def test_the_planner_needs_the_system_only(self):
        needs = {re.sub(r" \(.*", "", need) for need in self.field("axonn-planner", "Depends").split(", ")}
        self.assertEqual(needs, {"libc6", "libgcc-s1", "libstdc++6"})

    def test_fields_are_those_of_the_project(self):
        for package in self.debs:
            self.assertEqual(self.field(package, "Version"), f"{VERSION}-1")
            self.assertEqual(self.field(package, "Section"), "science")
            self.assertRegex(self.field(package, "Maintainer"), r"^.+ <.+@.+>$")

    def test_the_planner_runs_from_it(self):
        program = self.planner / "usr/bin/axonn-config"
        self.assertEqual(run(program, "--version").strip(), VERSION)
        self.assertIn("gpt5b", run(program, "--gpus", "64", "--model", "gpt5b", "--top", "3"))

    def test_it_carries_the_licences(self):
        text = (self.planner / "usr/share/doc/axonn-planner/copyright").read_text()
        for words in ("Apache License 2.0", "==== libcli11-dev ====", "==== libxxhash-dev ====", "Redistribution"):
            self.assertIn(words, text)

    def test_it_holds_no_path_of_this_build(self):
        for file in self.planner.rglob("*"):
            if file.suffix in (".cmake", ".hpp"):
                for folder in (SOURCE, BUILD):
                    self.assertNotIn(str(folder), file.read_text(), file)

    @unittest.skipUnless(LIBTORCH and not SHARED, "this build has no LibTorch, or one that other machines can have")
    def test_the_trainer_is_refused_where_libtorch_lies_in_a_checkout(self):
        self.assertEqual(list(self.debs), ["axonn-planner"])
        reason = f"no package axonn-trainer: its programs would look for LibTorch in {LIBTORCH}"
        self.assertIn(reason, self.said)
        refused = self.cpack("-G", "DEB", "-B", self.scratch / "refused", "-D",
                             "CPACK_COMPONENTS_ALL=perfmodel;trainer", status=1)
        self.assertIn(reason, " ".join(refused.split()))

    @unittest.skipUnless(SHARED, "LibTorch is in no folder below /opt or /usr, or is not there")
    def test_the_trainer_says_where_libtorch_must_be(self):
        self.assertIn(f"axonn-planner (= {VERSION}-1)", self.field("axonn-trainer", "Depends"))
        self.assertIn(LIBTORCH, self.field("axonn-trainer", "Description"))
        run("dpkg-deb", "-e", self.debs["axonn-trainer"], self.scratch / "control")
        self.assertIn(f"{LIBTORCH}/lib/libtorch_cpu.so", (self.scratch / "control/postinst").read_text())

    def test_other_formats_are_refused(self):
        self.assertIn("axonn makes Debian packages only (cpack -G DEB), not TGZ",
                      " ".join(self.cpack("-G", "TGZ", "-B", self.scratch / "tgz", status=1).split()))


if __name__ == "__main__":
    unittest.main()
