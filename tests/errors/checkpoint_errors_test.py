"""Checkpoints that cannot be read or must not be resumed, and directories that already hold a
run."""
import os
import shutil
import subprocess
import tempfile
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import PROGRAM, Ended, needs_mpi, refusal_seconds

GRID = ["--grid", "2x1x2x1"]
STEPS = ["--steps", "4", "--save-every", "2"]
# Runs a command with the present folder mounted read-only.
READ_ONLY = ["unshare", "--mount", "sh", "-c", 'mount --bind -o ro . . && cd "$PWD" && exec "$@"', "sh"]
MAY_MOUNT = shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], capture_output=True,
                                                       check=False).returncode == 0


class CheckpointErrors(GptTest):
    kept = None  # a run that is copied for every test

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def setUp(self):
        super().setUp()
        self.run = self.directory / "run"
        if CheckpointErrors.kept is None:
            self.train("run", *STEPS)
            CheckpointErrors.kept = tempfile.TemporaryDirectory(prefix="axonn-gpt-")
            shutil.copytree(self.run, CheckpointErrors.kept.name, dirs_exist_ok=True)
        else:
            shutil.copytree(CheckpointErrors.kept.name, self.run)
        self.newest = self.run / "step-000004"
        self.shard = next(self.newest.glob("*.safetensors"))

    def refuse_resume(self, *arguments, words, what="run", **options):
        self.refuse("train", "--resume", what, "--steps", "8", *arguments, words=words, **options)

    def refuse_everywhere(self, *words):
        """Both --resume and `generate` fail."""
        self.refuse_resume(words=words)
        self.refuse("generate", "--checkpoint", "run", words=words)

    def test_none_there(self):
        (self.directory / "empty").mkdir()
        self.refuse_resume(what="nowhere", words=["there is no checkpoint nowhere", "no such directory"])
        self.refuse_resume(what="empty", words=["there is no checkpoint in empty"])

    def test_a_changed_byte(self):
        content = bytearray(self.shard.read_bytes())
        content[-5] ^= 1
        self.shard.write_bytes(content)
        self.refuse_everywhere(self.shard.name, "newest older checkpoint that is whole is run/step-000002")

    def test_a_truncated_file(self):
        self.shard.write_bytes(self.shard.read_bytes()[:-100])
        self.refuse_everywhere(self.shard.name, "newest older checkpoint that is whole is run/step-000002")

    def test_a_missing_file(self):
        self.shard.unlink()
        self.refuse_everywhere(self.shard.name, "newest older checkpoint that is whole is run/step-000002")

    def test_a_broken_manifest(self):
        manifest = self.newest / "manifest.json"
        whole = manifest.read_text()
        for broken in ("", whole[: len(whole) // 2], whole.replace('"step": 4', '"step": 5')):
            with self.subTest(broken[:20]):
                manifest.write_text(broken)
                self.refuse_everywhere("manifest.json", "run/step-000002")

    @needs_mpi
    def test_a_changed_byte_that_one_rank_alone_reads(self):
        run = self.train("wide", *STEPS, *GRID, ranks=4)
        shard = run / "step-000004" / "x1-y0-z1.safetensors"
        content = bytearray(shard.read_bytes())
        content[-5] ^= 1
        shard.write_bytes(content)
        self.refuse_resume(what="wide", words=[shard.name, "newest older checkpoint that is whole is wide/step-000002"],
                           ranks=4)

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_forbidden(self):
        self.shard.chmod(0)
        self.addCleanup(self.shard.chmod, 0o600)
        ended = self.gpt("train", "--resume", "run", "--steps", "8")
        self.assert_refused(ended, "cannot read", self.shard.name)

    def test_other_data(self):
        (self.directory / "other.txt").write_text("another text\n" * 300)
        self.refuse_resume("--data", "other.txt", words=["run/step-000004 was trained on other data"])

    def test_what_a_run_keeps(self):
        for flag, value in (("heads", 2), ("sequence", 8), ("dtype", "fp64"), ("batch", 4), ("seed", 2),
                            ("tokenizer", "chars"), ("model", "gpt-tiny")):
            with self.subTest(flag):
                self.refuse_resume(f"--{flag}", value, words=[f"--{flag}", "run/step-000004", "a resumed run keeps it"])

    def test_a_grid_that_the_network_does_not_fit(self):
        self.refuse("generate", "--checkpoint", "run", "--grid", "1x3x1x1", words=["hidden must divide by y"], ranks=3,
                    launcher="tcp")

    def test_a_prompt_that_the_tokenizer_does_not_know(self):
        self.train("chars", *STEPS, "--tokenizer", "chars")
        self.refuse("generate", "--checkpoint", "chars", "--prompt", "line \u00e9",
                    words=["'\u00e9' (U+00E9)", "not in the vocabulary"])


class DirectoryOfARun(GptTest):
    def refuse_out(self, out, *words, **options):
        self.refuse("train", "--data", self.text, "--out", out, *TRAINING, *options.pop("arguments", []), words=words,
                    **options)

    def test_one_that_holds_a_run(self):
        self.train("run", *STEPS)
        self.refuse_out("run", "run already holds a run, newest checkpoint run/step-000004", "--resume run")
        (self.directory / "run" / "metrics.jsonl").unlink()
        self.refuse_out("run", "run already holds a run")

    @needs_mpi
    def test_one_that_holds_a_run_under_mpirun(self):
        self.train("run", *STEPS)
        self.refuse_out("run", "run already holds a run", arguments=GRID, ranks=4)

    def test_one_that_holds_metrics_alone(self):
        run = self.train("run", *STEPS)
        for checkpoint in run.glob("step-*"):
            shutil.rmtree(checkpoint)
        self.refuse_out("run", "never reached a checkpoint")

    def test_one_of_another_run_than_the_one_that_goes_on(self):
        self.train("run", *STEPS)
        self.train("other", *STEPS)
        self.refuse("train", "--resume", "run", "--out", "other", "--steps", "8", words=["other already holds a run"])

    def test_a_file(self):
        (self.directory / "file").write_text("not a directory")
        self.refuse_out("file", "--out file is not a directory")
        self.refuse_out("file/inside", "file/inside")
        self.refuse_out("", "--out")

    @needs_mpi
    def test_one_that_cannot_be_made(self):
        self.refuse_out("/proc/run", "/proc/run", arguments=GRID, ranks=4)

    @unittest.skipUnless(MAY_MOUNT, "a read-only mount needs root")
    def test_one_that_is_read_only(self):
        self.train("run", *STEPS, *GRID, ranks=4, launcher="ranks")
        (self.directory / "new").mkdir()
        before = self.files()
        for out, *resume in (("run", "--resume", "auto"), ("run", "--resume", "run"), ("new",)):
            with self.subTest(out, resume=resume):
                arguments = ["train", "--data", self.text, "--out", out, *TRAINING, *GRID, "--steps", "8", *resume]
                ended = subprocess.run([*READ_ONLY, PROGRAM, *arguments, "--ranks", "4"], cwd=self.directory,
                                       stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                       timeout=refusal_seconds(), check=False)
                self.assert_refused(Ended(ended.returncode, ended.stdout, ended.stderr, 0),
                                    f"cannot write {out}/job-1.lock: Read-only file system", status=1)
                self.assertEqual(self.files(), before)


if __name__ == "__main__":
    unittest.main()
