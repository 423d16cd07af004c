"""cpack makes Debian packages of this build: what they hold and need, and that programs run from them, every night
those of the trainer, too. packaging/deb/check_install installs and removes them, as root."""
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
CUDA = cached("AXONN_WITH_CUDA") == "ON"
TRAINERS = {"axonn-calibrate", "axonn-checkpoint", "axonn-schedule", "gpt", "unet"}


@unittest.skipIf(MISSING, f"Debian packages are made on a Debian with {', '.join(MISSING)}")
@unittest.skipUnless((BUILD / "CPackConfig.cmake").exists(), "a build with sanitizers makes no packages")
class OfThisBuild(Scratch):
    COMPONENT, PACKAGE = "perfmodel", "axonn-planner"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cpack("-G", "DEB", "-B", cls.scratch, "-D", f"CPACK_COMPONENTS_ALL={cls.COMPONENT}")
        [cls.deb] = cls.scratch.glob("*.deb")
        cls.root = cls.scratch / "root"
        run("dpkg-deb", "-x", cls.deb, cls.root)

    @classmethod
    def cpack(cls, *arguments, **options):
        return run(os.environ["AXONN_CPACK"], *arguments, folder=BUILD, **options)

    def field(self, name):
        return run("dpkg-deb", "-f", self.deb, name).strip()

    def needs(self):
        return {re.sub(r" \(.*", "", need) for need in self.field("Depends").split(", ")}

    def copyright(self):
        return (self.root / "usr/share/doc" / self.PACKAGE / "copyright").read_text()

    def check_package(self):
        self.assertRegex(self.deb.name, f"^{self.PACKAGE}_")
        self.assertEqual(self.field("Version"), f"{VERSION}-1")
        self.assertEqual(self.field("Section"), "science")
        self.assertRegex(self.field("Maintainer"), r"^.+ <.+@.+>$")
        programs = {file.name for file in (self.root / "usr/bin").iterdir()}
        pages = {file.name.removesuffix(".1.gz") for file in (self.root / "usr/share/man/man1").iterdir()}
        self.assertEqual(pages, programs)
        for file in self.root.rglob("*"):
            if file.suffix in (".cmake", ".hpp"):
                for folder in (SOURCE, BUILD):
                    self.assertNotIn(str(folder), file.read_text(), file)


class PlannerPackage(OfThisBuild):
    def test_it_needs_the_system_only(self):
        self.assertEqual(self.needs(), {"libc6", "libgcc-s1", "libstdc++6"})

    def test_fields_pages_and_paths_are_right(self):
        self.check_package()

    def test_the_planner_runs_from_it(self):
        program = self.root / "usr/bin/axonn-config"
        self.assertEqual(run(program, "--version").strip(), VERSION)
        self.assertIn("gpt5b", run(program, "--gpus", "64", "--model", "gpt5b", "--top", "3"))

    def test_it_carries_the_licences(self):
        text = self.copyright()
        for words in ("Apache License 2.0", "==== libcli11-dev ====", "==== libxxhash-dev ====", "Redistribution"):
            self.assertIn(words, text)

    @unittest.skipUnless(CUDA and not SHARED, "this build has no CUDA, or a LibTorch that other machines can have")
    def test_the_trainer_with_cuda_is_refused_where_libtorch_lies_in_a_checkout(self):
        refused = self.cpack("-G", "DEB", "-B", self.scratch / "refused", "-D",
                             "CPACK_COMPONENTS_ALL=perfmodel;trainer", status=1)
        self.assertIn(f"no package axonn-trainer: its programs would look for LibTorch with CUDA in {LIBTORCH}",
                      " ".join(refused.split()))

    def test_other_formats_are_refused(self):
        self.assertIn("axonn makes Debian packages only (cpack -G DEB), not TGZ",
                      " ".join(self.cpack("-G", "TGZ", "-B", self.scratch / "tgz", status=1).split()))


@unittest.skipUnless(os.environ.get("AXONN_TEST_NIGHTLY"), "packs 470 MB: ctest -L nightly")
@unittest.skipUnless(LIBTORCH and (SHARED or not CUDA), "this build has no LibTorch, or one with CUDA in a checkout")
class TrainerPackage(OfThisBuild):
    COMPONENT, PACKAGE = "trainer", "axonn-trainer"

    def test_fields_pages_and_paths_are_right(self):
        self.check_package()
        self.assertEqual({file.name for file in (self.root / "usr/bin").iterdir()}, TRAINERS)
        self.assertIn("axonn-planner", self.needs())

    @unittest.skipUnless(SHARED, "LibTorch is in no folder below /opt or /usr")
    def test_it_says_where_libtorch_must_be(self):
        self.assertIn(LIBTORCH, self.field("Description"))
        run("dpkg-deb", "-e", self.deb, self.scratch / "control")
        self.assertIn(f"{LIBTORCH}/lib/libtorch_cpu.so", (self.scratch / "control/postinst").read_text())

    @unittest.skipIf(SHARED, "LibTorch is in a folder below /opt or /usr")
    def test_its_programs_run_with_libtorch_from_it(self):
        own = self.root / "usr/lib/axonn/libtorch"
        self.assertTrue((own / "libtorch_cpu.so").exists())
        self.assertIn("==== LibTorch in lib/axonn/libtorch ====", self.copyright())
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        for program in TRAINERS:
            loaded = run("ldd", self.root / "usr/bin" / program, environment=environment)
            self.assertNotIn("not found", loaded, program)
            for path in re.findall(r"=> (\S+)", loaded):
                self.assertTrue(pathlib.Path(path).resolve().is_relative_to(own.resolve())
                                or re.match("/(lib|lib64|usr)/", path), f"{program} loads {path}")
        (self.scratch / "text.txt").write_text("".join(f"line {i}\n" for i in range(500)))
        ended = run(self.root / "usr/bin/gpt", "train", "--data", "text.txt", "--out", "run", "--layers", 1,
                    "--hidden", 16, "--heads", 2, "--sequence", 16, "--steps", 2, "--warmup", 1,
                    environment=environment, folder=self.scratch)
        self.assertTrue((self.scratch / "run/step-000002").is_dir(), ended)


if __name__ == "__main__":
    unittest.main()
