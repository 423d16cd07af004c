"""A run that stopped, was interrupted or was killed, and then resumed, gives the same bits as a run
that never stopped."""
import os
import pathlib
import shutil
import signal
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import RUN_SECONDS, losses, metrics, needs_mpi, steps_done, tensors, wait_for_steps

STEPS = 12
FOUR_RANKS = ["--grid", "2x1x2x1", "--save-every", "10", "--learning-rate-end", "0.01"]


class Resume(GptTest):
    def assert_same(self, resumed, whole, steps):
        self.assertEqual(losses(resumed), losses(whole))
        self.assertEqual(list(losses(resumed)), list(range(1, steps + 1)))
        self.assertTrue(tensors(whole, steps))
        self.assertEqual(tensors(resumed, steps), tensors(whole, steps))

    def as_of(self, step, whole, out):
        """A copy of a run that ended, as it was after this step."""
        run = self.directory / out
        shutil.copytree(whole, run)
        for checkpoint in run.glob("step-??????"):
            if int(checkpoint.name[5:]) > step:
                shutil.rmtree(checkpoint)
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[:step]))
        self.assertTrue((run / f"step-{step:06d}/manifest.json").exists())
        return run

    def stop_and_go_on(self, grid, *arguments, **options):
        common = ["--grid", grid, "--dropout", "0.1", "--micro-batch", "2", "--steps", STEPS, *arguments]
        whole = self.train("whole", *common, "--save-every", "5", "--keep", "9", **options)
        parts = self.as_of(5, whole, "parts")
        ended = self.gpt("train", "--resume", parts / "step-000005", **options)
        self.assertEqual(ended.status, 0, ended.text)
        self.assert_same(parts, whole, STEPS)

    def test_one_rank_goes_on_bit_for_bit(self):
        self.stop_and_go_on("1x1x1x1")

    @needs_mpi
    def test_four_ranks_go_on_bit_for_bit(self):
        self.stop_and_go_on("2x1x2x1", ranks=4)

    def test_other_kernels_are_told_and_change_no_bit_on_a_cpu(self):
        common = ["--steps", STEPS, "--save-every", "5"]
        whole = self.train("whole", *common, "--kernels", "none")
        parts = self.train("parts", *common, "--kernels", "all", "--keep", "9")
        ended = self.gpt("train", "--resume", parts / "step-000005", "--kernels", "adamw,layer-norm")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("resumed with --kernels layer-norm,adamw", ended.text)
        self.assertIn("was trained with all: on a GPU results differ in rounding", ended.text)
        self.assert_same(parts, whole, STEPS)
        kept = self.gpt("train", "--resume", parts / "step-000010", "--steps", STEPS + 1)
        self.assertNotIn("resumed with --kernels", kept.text)

    def test_a_schedule_of_the_rate_is_kept_and_another_one_is_told(self):
        whole = self.train("whole", "--steps", STEPS, "--warmup", "0", "--learning-rate-end", "0", "--save-every", "5",
                           "--keep", "9", "--learning-rate-schedule", "wsd", "--learning-rate-decay", "0.5")
        rates = [line["learning_rate"] for line in metrics(whole)]
        self.assertEqual(rates[:6], [0.01] * 6)
        for step in range(6, STEPS):
            self.assertAlmostEqual(rates[step], 0.01 * (STEPS - 1 - step) / 6)
        parts = self.as_of(5, whole, "parts")
        ended = self.gpt("train", "--resume", parts / "step-000005")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertNotIn("resumed with", ended.err)
        self.assert_same(parts, whole, STEPS)
        ended = self.gpt("train", "--resume", parts / "step-000010", "--learning-rate-schedule", "constant")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("resumed with --learning-rate-schedule constant, ", ended.err)
        self.assertIn("was trained with wsd: the rate goes on by the new one", ended.err)
        self.assertEqual(metrics(parts)[-1]["learning_rate"], 0.01)
        longer = self.as_of(5, whole, "longer")
        for resumed, rises in ((longer, 0), (whole, 1)):
            ended = self.gpt("train", "--resume", resumed, "--steps", 2 * STEPS)
            self.assertEqual(ended.status, 0, ended.text)
            self.assertEqual(ended.err.count("was trained with 12: the learning rate goes up again, from 0 to 0.009"),
                             rises, ended.err)

    def test_a_run_in_fp16_goes_on_with_its_loss_scale(self):
        self.stop_and_go_on("1x1x1x1", "--dtype", "fp16", "--loss-scale", "1e8")
        self.assertLess(metrics(self.directory / "parts")[4]["loss_scale"], 1e8)

    @needs_mpi
    def test_a_users_optimizer_goes_on_under_every_schedule(self):
        lion = pathlib.Path(__file__).parents[1] / "optim/lion.program"
        common = ["--grid", "1x1x2x2", "--dtype", "bf16", "--optimizer", lion, "--optimizer-set", "beta2=0.98",
                  "--learning-rate", "0.001", "--learning-rate-end", "0.0001", "--steps", STEPS]
        runs = []
        for schedule in ("ar-opt", "rs-opt-ag", "fuse"):
            options = [*common, "--optimizer-schedule", schedule, "--save-every", "5", "--check-replicas", "1"]
            whole = self.train("whole-" + schedule, *options, "--keep", "9", ranks=4)
            parts = self.as_of(5, whole, "parts-" + schedule)
            ended = self.gpt("train", "--resume", parts / "step-000005", ranks=4)
            self.assertEqual(ended.status, 0, ended.text)
            self.assert_same(parts, whole, STEPS)
            runs.append(whole)
        for run in runs[1:]:
            self.assertEqual(losses(run), losses(runs[0]))
        self.assertLess(losses(runs[0])[STEPS], losses(runs[0])[1])
        self.assertTrue(any(b"lion.m/" in data for data in tensors(runs[0], STEPS).values()))

    @needs_mpi
    def test_the_choice_of_a_schedule_is_kept_by_checkpoints_and_on_disk(self):
        """Runs of every schedule have the same losses, and a resumed run has the checkpoint's choice."""
        common = ["--grid", "1x1x1x2", "--steps", STEPS, "--save-every", "5", "--keep", "9"]
        whole = self.train("whole", *common, "--choices", "choices", ranks=2)
        chosen = metrics(whole)[-1]["optimizer_schedule"]
        self.assertIn(chosen, ("fuse", "rs-opt-ag"))
        files = list((self.directory / "choices").iterdir())
        self.assertEqual(len(files), 1)
        other = "rs-opt-ag" if chosen == "fuse" else "fuse"
        for schedule in ("ar-opt", other):
            run = self.train(schedule, *common, "--optimizer-schedule", schedule, ranks=2)
            self.assertEqual(metrics(run)[-1]["optimizer_schedule"], schedule)
            self.assertEqual(losses(run), losses(whole))
        again = self.train("again", *common, "--choices", "choices", ranks=2)
        self.assertEqual(metrics(again)[-1]["optimizer_schedule"], chosen)
        self.assertEqual(list((self.directory / "choices").iterdir()), files)
        # The folder says something else than the checkpoint, which counts.
        parts = self.as_of(5, self.directory / other, "parts")
        ended = self.gpt("train", "--resume", parts / "step-000005", "--optimizer-schedule", "auto",
                         "--choices", "choices", ranks=2)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(metrics(parts)[-1]["optimizer_schedule"], other)
        self.assert_same(parts, whole, STEPS)

    def stop(self, out, how):
        """Ends a run on four ranks before its last step. Nothing in it depends on the number of
        steps."""
        run = self.directory / out
        job = self.start("train", "--data", self.text, "--out", out, *TRAINING, *FOUR_RANKS, "--steps", "1000000",
                         ranks=4)
        wait_for_steps(job, run, 15)
        how(job)
        job.wait(RUN_SECONDS)
        return run

    @needs_mpi
    def test_a_run_that_was_interrupted_or_killed_goes_on_bit_for_bit(self):
        interrupted = self.stop("interrupted", lambda job: job.signal(signal.SIGINT))
        killed = self.stop("killed", lambda job: os.kill(job.ranks()[2], signal.SIGKILL))
        steps = max(steps_done(interrupted), steps_done(killed)) + 10
        whole = self.train("whole", *FOUR_RANKS, "--steps", steps, ranks=4)
        for run in (interrupted, killed):
            with self.subTest(run.name):
                ended = self.gpt("train", "--resume", run, "--steps", steps, ranks=4)
                self.assertEqual(ended.status, 0, ended.text)
                self.assert_same(run, whole, steps)

    def test_a_signal_ends_the_run_after_its_step_with_a_checkpoint(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(number.name):
                run = self.directory / number.name
                job = self.start("train", "--data", self.text, "--out", run, *TRAINING, "--steps", "1000000")
                wait_for_steps(job, run, 3)
                job.signal(number)
                ended = job.wait(RUN_SECONDS)
                self.assertEqual(ended.status, 0, ended.text)
                last = metrics(run)[-1]["step"]
                self.assertIn(f"stopped early: step {last}, ", ended.out)
                self.assertTrue((run / f"step-{last:06d}" / "manifest.json").exists())

    def test_the_end_of_a_terminal_may_come_twice_and_is_ignored_under_nohup(self):
        training = ["train", "--data", self.text, *TRAINING, "--steps", "1000000"]
        twice = self.start(*training, "--out", self.directory / "twice")
        wait_for_steps(twice, self.directory / "twice", 3)
        for _ in range(2):
            twice.signal(signal.SIGHUP)
        ended = twice.wait(RUN_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("stopped early: ", ended.out)
        for ranks, more in ((1, []), (2, ["--grid", "1x1x1x2"])):
            with self.subTest(ranks=ranks):
                run = self.directory / f"nohup-{ranks}"
                job = self.start(*training, "--out", run, *more, ranks=ranks, launcher="ranks",
                                 prefix=lambda rank: ["nohup"])
                wait_for_steps(job, run, 3)
                job.signal(signal.SIGHUP)
                wait_for_steps(job, run, steps_done(run) + 3)
                job.signal(signal.SIGTERM)
                self.assertEqual(job.wait(RUN_SECONDS).status, 0)

    def test_a_finished_run_has_nothing_to_do_until_more_steps_are_asked_for(self):
        run = self.train("run", "--steps", "2")
        before = self.files()
        ended = self.gpt("train", "--resume", run)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("nothing to do: ", ended.out)
        self.assertEqual(self.files(), before)
        ended = self.gpt("train", "--resume", run, "--steps", "4")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main()
