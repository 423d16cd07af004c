"""`--resume auto`: the same command starts a run, and continues it after any end."""
import os
import shutil
import signal
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import RUN_SECONDS, losses, metrics, needs_mpi, steps_done, tensors, wait_for_steps

STEPS = 9
RUN = ["--grid", "2x1x2x1", "--learning-rate-end", "0.01"]
SAVES = ["--save-every", "3", "--keep", "9"]


class ResumeAuto(GptTest):
    def setUp(self):
        super().setUp()
        self.run = self.directory / "run"

    def auto(self, *arguments, **options):
        return self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--resume", "auto", *arguments,
                        **options)

    def refuse_auto(self, *arguments, words, data="text.txt"):
        self.refuse("train", "--data", data, "--out", "run", *TRAINING, "--resume", "auto", "--steps", STEPS, *RUN,
                    *arguments, words=words, ranks=4, launcher="ranks")

    def assert_same(self, whole, steps):
        self.assertTrue(tensors(whole, steps))
        self.assertEqual(tensors(self.run, steps), tensors(whole, steps))
        self.assertEqual(losses(self.run), losses(whole))

    def kill(self, *arguments, when):
        """Starts the run on four ranks and kills rank 2 when `when(job)` returns."""
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--resume", "auto", *RUN, *arguments,
                         "--steps", "1000000", ranks=4)
        wait_for_steps(job, self.run, 2)
        when(job)
        os.kill(job.ranks()[2], signal.SIGKILL)
        job.wait(RUN_SECONDS)

    @needs_mpi
    def test_a_run_that_was_killed_before_its_first_checkpoint_starts_anew(self):
        self.kill("--save-every", "0", when=lambda job: None)
        lost = (self.run / "metrics.jsonl").read_bytes()
        (self.run / "step-000001.partial").mkdir()  # as if it had been killed within its first save
        (self.run / "step-000001.partial" / "rank-0000.safetensors").write_bytes(b"torn")
        (self.run / "metrics.jsonl.1").write_text("of an earlier loss\n")
        ended = self.auto(*RUN, "--save-every", "0", "--steps", STEPS, ranks=4)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(ended.text.count("its metrics are kept as run/metrics.jsonl.2"), 1, ended.text)
        self.assertEqual((self.run / "metrics.jsonl.2").read_bytes(), lost)
        self.assertEqual((self.run / "metrics.jsonl.1").read_text(), "of an earlier loss\n")
        self.assert_same(self.train("whole", *RUN, "--save-every", "0", "--steps", STEPS, ranks=4), STEPS)

    @needs_mpi
    def test_a_run_that_was_killed_while_it_saved_continues_bit_for_bit(self):
        def saving(job):  # its second checkpoint or a later one: a run without any starts anew
            while not (any(self.run.glob("step-??????")) and any(self.run.glob("step-*.partial"))):
                self.assertIsNone(job.processes[0].poll())

        self.kill("--save-every", "1", when=saving)
        steps = steps_done(self.run) + 3
        ended = self.auto(*RUN, "--save-every", "1", "--steps", steps, ranks=4)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertNotIn("starts anew", ended.text)
        whole = self.train("whole", *RUN, "--steps", steps, ranks=4)
        self.assertEqual(tensors(self.run, steps), tensors(whole, steps))
        self.assertEqual(losses(self.run), losses(whole))

    def test_a_checkpoint_never_comes_before_the_line_of_its_step(self):
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--save-every", "1", "--steps", "200")
        self.addCleanup(job.end)
        seen = 0
        while job.processes[0].poll() is None:
            newest = max((int(path.name[5:]) for path in self.run.glob("step-??????")), default=0)
            self.assertGreaterEqual(steps_done(self.run), newest)
            seen = max(seen, newest)
        self.assertEqual(job.wait(RUN_SECONDS).status, 0)
        self.assertGreater(seen, 10)

    def tear(self, step, how):
        file = sorted((self.run / f"step-{step:06d}").glob("*.safetensors"))[-1]
        content = bytearray(file.read_bytes())
        if how == "missing":
            file.unlink()
        elif how == "truncated":
            file.write_bytes(content[:-100])
        else:
            content[-5] ^= 1
            file.write_bytes(content)
        return file.relative_to(self.directory)

    @needs_mpi
    def test_a_broken_checkpoint_is_skipped_with_a_warning(self):
        whole = self.train("whole", *RUN, *SAVES, "--steps", STEPS, ranks=4)
        for how, why in (("missing", "is missing"), ("truncated", "bytes, the manifest says"),
                         ("changed", "is broken: its checksum is")):
            with self.subTest(how):
                shutil.rmtree(self.run, ignore_errors=True)
                shutil.copytree(whole, self.run)
                torn = self.tear(STEPS, how)
                ended = self.auto(*RUN, *SAVES, "--steps", STEPS, ranks=4)
                self.assertEqual(ended.status, 0, ended.text)
                self.assertNotIn("nothing to do", ended.text)
                warnings = [line for line in ended.text.splitlines() if "tries the next older checkpoint" in line]
                self.assertEqual(len(warnings), 1, ended.text)
                self.assertIn(torn.name, warnings[0])
                self.assertIn(why, warnings[0])
                self.assert_same(whole, STEPS)

    def test_the_same_command_starts_continues_and_has_nothing_to_do(self):
        for steps in (3, 6):
            ended = self.auto("--steps", steps)
            self.assertEqual(ended.status, 0, ended.text)
            self.assertEqual([line["step"] for line in metrics(self.run)], list(range(1, steps + 1)))
        self.assertIn("nothing to do: ", self.auto("--steps", 6).out)

    def test_what_is_refused(self):
        self.train("run", *RUN, *SAVES, "--steps", STEPS, ranks=4, launcher="ranks")
        self.refuse_auto("--hidden", "8", words=["--hidden 8 is not what run/step-000009 was trained with (16)"])
        (self.directory / "other.txt").write_text("another text\n" * 300)
        self.refuse_auto(data="other.txt", words=["run/step-000009 was trained on other data"])
        torn = [self.tear(step, how).parent.name for step, how in ((3, "truncated"), (6, "missing"), (9, "changed"))]
        self.refuse_auto(words=["no checkpoint in run is whole", *torn, "begin another run with --out DIR"])


if __name__ == "__main__":
    unittest.main()
