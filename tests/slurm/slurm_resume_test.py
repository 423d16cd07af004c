"""Jobs that were queued once and go on by themselves: at the time limit, and after failures of
nodes. Exit status 77: skipped."""
import json
import os
import pathlib
import signal
import sys
import time
import unittest

from gpt_runs import TRAINING
from program_runs import PROGRAM, RUN_SECONDS, losses, steps_done, tensors
from slurm_local_test import (BATCH_SCRIPT, SLURM_LOCAL, SRUN, UNET_BATCH_SCRIPT, SlurmTest, processes_of,
                              reason_to_skip, wait_until)

STEPS = 500
QUEUE_SECONDS = 300  # until a job that was requeued runs again
UNET_TRAINING = ["--image", "8", "--base", "8", "--multipliers", "1", "2", "--blocks", "1", "--attention", "4",
                 "--heads", "2", "--groups", "4", "--gemm", "mm", "--synthetic-images", "100", "--batch", "8",
                 "--warmup", "2", "--validate-every", "0", "--save-every", "0", "--validation-images", "4"]


def is_srun(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text() == "srun\n"
    except OSError:  # it has ended meanwhile
        return False


class Resume(SlurmTest):
    def submit(self, script, out, *arguments):
        self.run_directory = self.scratch.path / out
        return self.slurm("sbatch", "--parsable", "--output", f"{out}.out", script, "--out", out, *arguments,
                          "--grid", "2x2x2x1", "--log-every", "1").strip()

    def at_the_time_limit(self, job):
        """The work of --signal=B:USR1@120 shortly before."""
        self.slurm("scancel", "--batch", "--signal=USR1", job)

    def wait_for_end(self, job):
        wait_until(lambda: "COMPLETED" in self.slurm("scontrol", "show", "job", job), "the job's end", QUEUE_SECONDS)

    def restarts(self, job):
        text = self.slurm("scontrol", "show", "job", job)
        return int(text.split("Restarts=")[1].split()[0])

    def wait_for_restart(self, job, number):
        wait_until(lambda: self.restarts(job) == number, f"restart {number}", QUEUE_SECONDS)

    def fail_node(self, job, node):
        """The ranks of the job are gone at once, and Slurm hears that the node is down; srun must not
        hear of the ranks before. The node may come back by itself."""
        before = self.restarts(job)
        self.signal(filter(is_srun, processes_of(self.scratch.path)), signal.SIGSTOP)
        self.signal(self.ranks(), signal.SIGKILL)
        self.slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        self.wait_for_restart(job, before + 1)
        self.scratch.run(SLURM_LOCAL, "run", "--", "scontrol", "update", f"nodename={node}", "state=resume")

    def signal(self, processes, number):
        for pid in processes:
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it has ended already
                pass

    def assert_done(self, out):
        status = json.loads((self.scratch.path / out / "status.json").read_text())
        self.assertEqual(status["state"], "done")
        self.assertEqual([path.name for path in self.run_directory.glob("job-*.lock")], [])

    def test_unet_queues_itself_again_at_the_time_limit(self):
        job = self.submit(UNET_BATCH_SCRIPT, "unet", *UNET_TRAINING, "--steps", "60")
        self.wait_for_steps("unet", 6)
        self.at_the_time_limit(job)
        self.wait_for_end(job)
        self.assertEqual(self.restarts(job), 1)
        self.assertEqual(sorted(losses(self.run_directory)), list(range(1, 61)))
        self.assert_done("unet")

    def test_gpt_survives_failures_of_nodes_and_time_limits_bit_for_bit(self):
        training = ["--data", "text.txt", *TRAINING, "--steps", str(STEPS), "--keep", "1000"]
        job = self.submit(BATCH_SCRIPT, "gpt", *training, "--save-every", "100")
        self.wait_for_steps("gpt", 3)
        self.fail_node(job, "node3")
        self.assertFalse(list(self.run_directory.glob("step-??????")))
        wait_until(lambda: list(self.run_directory.glob("step-??????")), "the first save", QUEUE_SECONDS)
        deadline = time.monotonic() + RUN_SECONDS
        while not list(self.run_directory.glob("step-*.partial")):  # without a pause: a save takes milliseconds
            self.assertLess(time.monotonic(), deadline, "no save was seen")
        self.fail_node(job, "node2")
        for restart in (3, 4):
            done = steps_done(self.run_directory)
            wait_until(lambda: any(processes_of(self.scratch.path)) and steps_done(self.run_directory) > done + 3,
                       "further steps", QUEUE_SECONDS)
            self.at_the_time_limit(job)
            self.wait_for_restart(job, restart)
        self.wait_for_end(job)
        self.assert_done("gpt")

        self.slurm(*SRUN, PROGRAM, *training, "--grid", "2x2x2x1", "--out", "whole")
        whole = self.scratch.path / "whole"
        self.assertTrue(tensors(whole, STEPS))
        self.assertEqual(tensors(self.run_directory, STEPS), tensors(whole, STEPS))
        self.assertEqual(losses(self.run_directory), losses(whole))


if __name__ == "__main__":
    reason = reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
