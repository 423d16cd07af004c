"""The directory of a run while a job is at work and after its end: the lock and
status.json. And how soon a signal is obeyed."""
import json
import os
import signal
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import (REFUSAL_SECONDS, RUN_SECONDS, metrics, needs_mpi, refusal_seconds, steps_done,
                          wait_for_steps)

FOREVER = ["--steps", "1000000", "--save-every", "5", "--log-every", "1"]


class RunDirectory(GptTest):
    def setUp(self):
        super().setUp()
        self.run = self.directory / "run"

    def start_run(self, *arguments, **options):
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, *FOREVER, *arguments, **options)
        self.addCleanup(job.end)
        return job

    def locks(self):
        return [path.name for path in self.run.glob("job-*.lock")]

    def status(self):
        return json.loads((self.run / "status.json").read_text())

    def assert_status(self, state, reason=None):
        """Says so of the last step in the metrics."""
        status = self.status()
        self.assertEqual((status["state"], status.get("reason"), status["step"]),
                         (state, reason, metrics(self.run)[-1]["step"]))
        self.assertRegex(status["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def wait_for_status(self, job):
        while not (self.run / "status.json").exists():
            self.assertIsNone(job.processes[0].poll(), "the run has ended")
            time.sleep(0.005)


class Lock(RunDirectory):
    @needs_mpi
    def test_a_second_job_is_refused_and_a_dead_one_is_not_waited_for(self):
        job = self.start_run("--grid", "2x1x1x1", ranks=2)
        wait_for_steps(job, self.run, 6)
        first = job.ranks()
        for resume in ("auto", "run"):
            ended = self.gpt("train", "--data", self.text, "--out", "run", *TRAINING, *FOREVER, "--resume", resume,
                             "--grid", "2x1x1x1", ranks=2, seconds=refusal_seconds())
            self.assert_refused(ended, "run is in use by process", " on host ", " since 20", "wait for its end")
        self.assertEqual(self.locks(), ["job-1.lock"])
        self.assertEqual(self.status()["state"], "running")

        for rank in first:
            os.kill(rank, signal.SIGKILL)
        job.wait(REFUSAL_SECONDS)
        done = steps_done(self.run)
        self.assertEqual(self.locks(), ["job-1.lock"])
        job = self.start_run("--grid", "2x1x1x1", "--resume", "auto", ranks=2)
        while self.locks() != ["job-2.lock"]:
            self.assertIsNone(job.processes[0].poll(), "the run has ended")
        wait_for_steps(job, self.run, done + 5)
        job.signal(signal.SIGUSR1)
        ended = job.wait(RUN_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertNotIn("waiting up to", ended.text)
        self.assertEqual(self.locks(), [])
        self.assert_status("stopped", "a signal")

    def test_a_job_of_another_host_is_refused_once_it_gives_a_sign(self):
        self.train("run", "--steps", "2")
        lock = self.run / "job-1.lock"
        holder = {"host": "far-away", "kernel": "another", "process": 1, "started": "1", "job": "55", "restarts": 0,
                  "since": "2026-11-23T15:04:05Z"}
        lock.write_text(json.dumps(holder | {"beats": "0"}))
        before = self.files()
        job = self.start_run("--resume", "auto")
        for beats in range(1, 30):  # a busy machine takes a while to start the job
            time.sleep(1)
            if job.processes[0].poll() is not None:
                break
            lock.write_text(json.dumps(holder | {"beats": str(beats)}))
        ended = job.wait(REFUSAL_SECONDS)
        self.assert_refused(ended, "run is in use by process 1 on host far-away (Slurm job 55) since 2026-11-23")
        self.assertEqual(ended.text.count("waiting up to 60 s"), 1, ended.text)
        self.assertEqual({path: text for path, text in self.files().items() if path != lock},
                         {path: text for path, text in before.items() if path != lock})

    def test_the_same_slurm_job_takes_its_own_lock_over_at_once(self):
        self.train("run", "--steps", "2")
        (self.run / "job-1.lock").write_text(json.dumps({"host": "far-away", "job": "55", "restarts": 0}))
        started = time.monotonic()
        self.train("run", "--steps", "4", "--resume", "auto",
                   environment={"SLURM_JOB_ID": "55", "SLURM_RESTART_COUNT": "1"})
        self.assertLess(time.monotonic() - started, 40)
        self.assertEqual(self.locks(), [])


class OtherNames(RunDirectory):
    def test_a_run_goes_on_in_its_own_folder_whatever_it_is_called(self):
        """By a link to the checkpoint elsewhere, by a link to the run, by "." and with a slash at the end."""
        self.train("run", "--steps", "2")
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "latest").symlink_to(self.run / "step-000002")
        (elsewhere / "run").symlink_to(self.run)
        step = lambda: max(path for path in self.run.iterdir() if path.name.startswith("step-"))
        names = [lambda: elsewhere / "latest", lambda: elsewhere / "run", lambda: f"{step()}/", lambda: f"{step()}/."]
        for count, name in enumerate(names, start=1):
            given = name()
            with self.subTest(given=given):
                ended = self.gpt("train", "--resume", given, "--data", self.text, "--steps", 2 + count)
                self.assertEqual(ended.status, 0, ended.text)
                self.assertEqual([line["step"] for line in metrics(self.run)], list(range(1, 3 + count)))
                self.assertEqual(sorted(path.name for path in elsewhere.iterdir()), ["latest", "run"])

    def test_a_run_goes_on_from_within_its_checkpoint(self):
        self.train("run", "--steps", "2")
        run = self.run
        self.directory = run / "step-000002"
        before = self.files()
        ended = self.gpt("train", "--resume", ".", "--data", self.text, "--steps", 3)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(self.files(), before)
        self.assertEqual([line["step"] for line in metrics(run)], [1, 2, 3])


class Status(RunDirectory):
    def test_it_says_how_the_run_ended(self):
        self.train("run", "--steps", "3")
        self.assert_status("done")
        self.train("run", "--steps", "1000000", "--minutes", "0.01", "--resume", "auto")
        self.assert_status("stopped", "the time of --minutes is over")
        self.assertEqual(self.locks(), [])

    def test_it_says_why_the_run_failed(self):
        ended = self.gpt("train", "--data", self.text, "--out", "run", *TRAINING, "--learning-rate", "1e38", "--clip",
                         "0", "--warmup", "0", "--steps", "9")
        self.assertEqual(ended.status, 1)
        self.assert_status("failed", ended.err.splitlines()[-1].removeprefix("gpt: "))
        self.assertEqual(self.locks(), [])


class Signals(RunDirectory):
    @needs_mpi
    def test_a_signal_within_validation_is_obeyed_by_all_ranks(self):
        self.text.write_text("a text that is long enough\n" * 100000)
        job = self.start_run("--grid", "1x1x2x1", "--validate-every", "1", "--validation-fraction", "0.9", ranks=2)
        self.wait_for_status(job)
        time.sleep(0.5)
        os.kill(job.ranks()[1], signal.SIGTERM)
        ended = job.wait(REFUSAL_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("stopped early: step 1,", ended.out)
        self.assertNotIn("validation_loss", metrics(self.run)[0])
        self.assertTrue((self.run / "step-000001/manifest.json").exists())
        self.assert_status("stopped", "a signal")

    def test_a_signal_during_a_save_is_obeyed_before_the_next_step(self):
        self.assertTrue(any(self.stop_while_saving(out) for out in ("first", "second", "third")))

    def stop_while_saving(self, out):
        """Returns whether the run ended with the step that was being saved."""
        run = self.directory / out
        job = self.start("train", "--data", self.text, "--out", out, *TRAINING, "--hidden", "256", "--steps", "1000000",
                         "--save-every", "1", "--keep", "1000000", "--no-save-async")
        wait_for_steps(job, run, 2)
        while not (partial := list(run.glob("step-*.partial"))):
            self.assertIsNone(job.processes[0].poll())
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait(RUN_SECONDS).status, 0)
        return partial[0].stem == f"step-{metrics(run)[-1]['step']:06d}"


if __name__ == "__main__":
    unittest.main()
