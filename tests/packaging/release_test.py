"""scripts/release writes an archive that configures without git, twice the same bytes, and recipes
that name its sum."""
import hashlib
import os
import shutil
import tarfile
import unittest

from recipe_files import CLONE, CMAKE, NO_CLONE, SOURCE, VERSION, Scratch, run

NAME = f"axonn-{VERSION}"


@unittest.skipUnless(CLONE, NO_CLONE)
class Release(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dist = cls.scratch / "dist"
        run(SOURCE / "scripts/release", cls.dist)
        cls.archive = cls.dist / f"{NAME}.tar.gz"
        cls.head = run("git", "-C", SOURCE, "rev-parse", "HEAD").strip()

    def sum(self):
        return hashlib.sha256(self.archive.read_bytes()).hexdigest()

    def test_the_same_commit_gives_the_same_bytes(self):
        # Neither the umask nor git's settings may show.
        environment = {**os.environ, "TZ": "Asia/Tokyo", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "tar.umask",
                       "GIT_CONFIG_VALUE_0": "0077"}
        again = self.scratch / "again"
        run("sh", "-c", f"umask 077; '{SOURCE}/scripts/release' '{again}'", environment=environment)
        self.assertEqual((again / f"{NAME}.tar.gz").read_bytes(), self.archive.read_bytes())

    def test_the_sum_is_beside_it(self):
        self.assertEqual((self.dist / f"{NAME}.tar.gz.sha256").read_text(), f"{self.sum()}  {NAME}.tar.gz\n")
        run("sha256sum", "--check", f"{NAME}.tar.gz.sha256", folder=self.dist)

    def test_recipes_name_the_sum(self):
        recipes = [file for file in self.dist.rglob("*") if file.suffix in (".eb", ".py", ".yaml")]
        texts = [file.read_text() for file in recipes]
        self.assertEqual(sum(self.sum() in text for text in texts), 2, recipes)
        self.assertFalse(any("@SHA256@" in text for text in texts))

    def test_it_holds_the_files_of_the_commit_and_one_more(self):
        with tarfile.open(self.archive) as archive:
            members = {member.name: member for member in archive.getmembers() if not member.isdir()}
            release = archive.extractfile(f"{NAME}/RELEASE").read().decode()
        tracked = run("git", "-C", SOURCE, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        self.assertEqual(set(members), {f"{NAME}/{file}" for file in [*tracked, "RELEASE"]})
        self.assertEqual(release, f"axonn {VERSION}, commit {self.head}\n")
        self.assertTrue(members[f"{NAME}/scripts/setup"].mode & 0o100)
        self.assertEqual({member.uid for member in members.values()}, {0})

    def test_it_configures_where_there_is_no_git(self):
        # A PATH of links to all programs except git; the folder lies outside the clone.
        programs = self.scratch / "programs"
        programs.mkdir()
        for folder in os.environ["PATH"].split(":"):
            for program in os.scandir(folder) if os.path.isdir(folder) else ():
                if not program.name.startswith("git") and not (programs / program.name).is_symlink():
                    (programs / program.name).symlink_to(program.path)
        # The clone may hold libraries that scripts/setup fetched.
        environment = {**os.environ, "PATH": str(programs), "CMAKE_PREFIX_PATH": f"{SOURCE}/.deps/site"}
        self.assertIsNone(shutil.which("git", path=environment["PATH"]))
        run("tar", "-xzf", self.archive, "-C", self.scratch)
        unpacked = self.scratch / NAME
        said = run(CMAKE, "--preset", "planner", environment=environment, folder=unpacked)
        self.assertIn("Generating done", said)
        ninja = (unpacked / "build/planner/build.ninja").read_text()
        self.assertIn(f'AXONN_VERSION=\\"{VERSION}\\"', ninja)
        # The checks of documents that look at the history have none here.
        said = run("python3", unpacked / "scripts/checks/subjects.py", unpacked, environment=environment)
        self.assertIn("no history", said)


class Refusals(Scratch):
    def release(self, folder, *arguments):
        (folder / "scripts/lib").mkdir(parents=True)
        for file in ("scripts/release", "scripts/lib/common.sh"):
            shutil.copy(SOURCE / file, folder / file)
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.scratch)}
        return run(folder / "scripts/release", *arguments, status=1, environment=environment)

    def test_a_folder_without_a_commit(self):
        self.assertIn("this is no clone with a commit", self.release(self.scratch / "bare"))

    def test_unknown_options_and_two_folders(self):
        self.assertIn("unknown option '--fast'; usage: scripts/release [FOLDER]",
                      self.release(self.scratch / "option", "--fast"))
        self.assertIn("needs one folder, got 2: a b", self.release(self.scratch / "two", "a", "b"))


if __name__ == "__main__":
    unittest.main()
