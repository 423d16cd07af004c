"""Checkpoints that are written while training goes on have the bits of those for which it waits. A
write that fails does not end the run."""
import os
import pathlib
import re
import resource
import signal
import time
import unittest

from gpt_runs import GptTest
from program_runs import RUN_SECONDS, losses, needs_mpi, steps_done, tensors, wait_for_steps

NETWORK = ["--layers", "2", "--hidden", "256", "--heads", "4", "--sequence", "8", "--gemm", "mm", "--batch", "4",
           "--warmup", "2", "--learning-rate", "0.01", "--validate-every", "0"]
SAVES = ["--save-every", "2", "--keep", "9", "--steps", "5"]
SAVED_STEPS = (2, 4, 5)
STATE = 3 * 4 * 1_570_000  # bytes of weights and AdamW's state of this network, at least
SMALL = 16384  # bytes of a file that holds the metrics and no tensors


def slow_files(part):
    """With a slow disk for some files, a rank writes for longer than a step takes: the next update
    comes before all is written, and with little memory before all is copied."""
    return {"LD_PRELOAD": os.environ["AXONN_SLOW_WRITES"], "AXONN_SLOW_FILES": part,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Saving(GptTest):
    def save(self, out, *arguments, **options):
        ended = self.gpt("train", "--data", self.text.name, "--out", out, *NETWORK, *SAVES, *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn(f"checkpoint {out}/step-000005", ended.out)
        self.assertFalse(list((self.directory / out).glob("*.partial")))
        return self.directory / out

    def assert_same_bits(self, *arguments, limited=(False, True), **options):
        waited = self.save("waited", *arguments, "--no-save-async", **options)
        last = max(tensors(waited, 5))  # its rank is the last one to write
        quarter = ["--save-memory", max(map(len, tensors(waited, 5).values())) // 4]
        for limit in limited:
            with self.subTest(limited=limit):
                run = self.save("limited" if limit else "behind", *arguments, *(quarter if limit else []),
                                environment=slow_files(last), **options)
                self.assertEqual(losses(run), losses(waited))
                for step in SAVED_STEPS:
                    self.assertTrue(tensors(waited, step))
                    self.assertTrue(tensors(run, step) == tensors(waited, step), step)  # too long for a difference

    def test_one_rank_saves_the_same_bits(self):
        self.assert_same_bits("--ema", "0.9")

    @needs_mpi
    def test_four_ranks_save_the_same_bits(self):
        self.assert_same_bits("--grid", "1x1x2x2", "--optimizer-schedule", "fuse", "--clip", "0.5", "--ema", "0.9",
                              limited=[True], ranks=4)

    @needs_mpi
    def test_several_ranks_save_to_one_file(self):
        """Any grid resumes it, with the bits of files of their own."""
        sharded = ["--grid", "1x1x2x2", "--optimizer-schedule", "rs-opt-ag"]
        own = self.save("own", *sharded, ranks=4)
        self.assertEqual(len(list((own / "step-000005").glob("x*.safetensors"))), 4)
        for files in (1, 2):
            shared = self.save(f"shared-{files}", *sharded, "--save-files", files, ranks=4)
            names = sorted(path.name for path in (shared / "step-000005").glob("*.safetensors"))
            self.assertEqual(names, [f"state-{i + 1:05}-of-{files:05}.safetensors" for i in range(files)])
            ends = []
            for run in (own, shared):
                ended = self.gpt("train", "--resume", run, "--out", f"{run.name}-on-{files}", "--data", self.text.name,
                                 "--steps", "7", "--grid", "2x1x1x1", ranks=2)
                self.assertEqual(ended.status, 0, ended.text)
                ends.append(losses(self.directory / f"{run.name}-on-{files}"))
            self.assertEqual(*ends)

    @needs_mpi
    def test_weights_that_change_during_backward_are_copied_before(self):
        self.assert_same_bits("--grid", "1x1x1x2", "--optimizer-schedule", "fuse", "--clip", "0", limited=[True],
                              ranks=2)

    def ready_bytes(self, job):
        """Pages that the process has used and the system may take."""
        rollup = pathlib.Path(f"/proc/{job.ranks()[0]}/smaps_rollup").read_text()
        return 1024 * int(re.search(r"LazyFree: *(\d+) kB", rollup)[1])

    def test_the_memory_of_copies_is_ready_before_the_first_save(self):
        for every in ("1000000", "0"):  # 0: no step waits for the save at the end
            run = self.directory / every
            job = self.start("train", "--data", self.text, "--out", run, *NETWORK, "--steps", "2000000", "--save-every",
                             every)
            wait_for_steps(job, run, 3)
            if every == "0":
                self.assertEqual(self.ready_bytes(job), 0)
            else:
                deadline = time.monotonic() + 20
                while self.ready_bytes(job) < STATE:
                    self.assertLess(time.monotonic(), deadline, self.ready_bytes(job))
                    time.sleep(0.05)
            job.signal(signal.SIGINT)
            self.assertEqual(job.wait(RUN_SECONDS).status, 0)

    def start_endless(self, ranks):
        """Saves after every step, on a grid without replicas: every rank writes."""
        grid = ["--grid", f"{ranks}x1x1x1"]
        job = self.start("train", "--data", self.text, "--out", "run", *NETWORK, *grid, "--save-every", "1", "--steps",
                         "1000000", ranks=ranks)
        self.run = self.directory / "run"
        wait_for_steps(job, self.run, 3)
        return job

    def limit(self, job, rank, most):
        resource.prlimit(job.ranks()[rank], resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    def newest(self):
        return max((int(path.name[5:]) for path in self.run.glob("step-??????")), default=0)

    def wait_for_checkpoint(self, step):
        deadline = time.monotonic() + RUN_SECONDS
        while self.newest() < step:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def fail_writes(self, ranks, rank):
        """No checkpoint is complete any more; steps go on."""
        job = self.start_endless(ranks)
        self.limit(job, rank, SMALL)
        wait_for_steps(job, self.run, steps_done(self.run) + 3)
        before = self.newest()
        wait_for_steps(job, self.run, steps_done(self.run) + 5)
        self.assertEqual(self.newest(), before)
        return job, before

    @needs_mpi
    def test_a_write_that_fails_is_reported_and_later_ones_succeed(self):
        job, before = self.fail_writes(4, 2)
        self.limit(job, 2, resource.RLIM_INFINITY)
        self.wait_for_checkpoint(before + 3)
        os.kill(job.ranks()[0], signal.SIGINT)
        ended = job.wait(RUN_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        reports = [line for line in ended.err.splitlines() if "was not written" in line]
        self.assertGreaterEqual(len(reports), 3)
        self.assertEqual(len(set(reports)), len(reports))  # once for each save
        for line in reports:
            self.assertRegex(line, r"error 2/4.* the checkpoint of step \d+ was not written: cannot write .*"
                                   r"x2-y0-z0\.safetensors: File too large; raise the limit.*; "
                                   r"the newest one is .*/step-\d+$")
        self.assertFalse(list(self.run.glob("*.partial")))

    def test_a_run_whose_last_checkpoint_failed_says_so_at_its_end(self):
        job, before = self.fail_writes(1, 0)
        job.signal(signal.SIGINT)
        ended = job.wait(RUN_SECONDS)
        self.assertEqual(ended.status, 1, ended.text)
        self.assertIn(f"gpt: the last checkpoint, of step {steps_done(self.run)}, was not written: cannot write ",
                      ended.err)
        self.assertEqual(self.newest(), before)


if __name__ == "__main__":
    unittest.main()
