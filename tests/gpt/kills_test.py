"""A rank of four is killed or crashes at a random moment, again and again; the same command goes on.
AXONN_TEST_KILLS is the number of kills, AXONN_TEST_SEED the seed of the last failure. With
AXONN_TEST_HOSTS=1 each rank has a host of scripts/cluster, and mpirun's agent of a host is killed
too."""
import os
import random
import signal
import subprocess
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import CLUSTER, REFUSAL_SECONDS, RUN_SECONDS, losses, processes_with, program_of, steps_done, tensors

KILLS = int(os.environ.get("AXONN_TEST_KILLS", "3"))
SEED = int(os.environ.get("AXONN_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
HOSTS = os.environ.get("AXONN_TEST_HOSTS") == "1"
LAUNCHER = "hosts" if HOSTS else "ranks"
RUN = ["--grid", "2x1x2x1", "--learning-rate-end", "0.01"]


class Kills(GptTest):
    def setUp(self):
        super().setUp()
        self.run = self.directory / "run"
        self.random = random.Random(SEED)
        if HOSTS:
            self.addCleanup(subprocess.run, [CLUSTER, "down"])
        print(f"\nAXONN_TEST_SEED={SEED} ({KILLS} kills)", flush=True)

    def start_run(self, steps):
        job = self.start("train", "--data", self.text, "--out", self.run, *TRAINING, *RUN, "--save-every", "7",
                         "--steps", steps, "--resume", "auto", ranks=4, launcher=LAUNCHER)
        self.addCleanup(job.end)
        return job

    def ranks(self, job):
        """Without the process that waits for them."""
        return [pid for pid in job.ranks() if pid != job.processes[0].pid]

    def kill_one(self, job):
        number = self.random.choice([signal.SIGKILL, signal.SIGSEGV])
        agents = [pid for pid in processes_with(job.mark) if program_of(pid).endswith("/orted")]
        if agents and self.random.random() < 0.25:
            number, victims = signal.SIGKILL, agents
        else:
            victims = self.ranks(job)
        os.kill(self.random.choice(victims), number)
        return number

    def lines(self):
        """Of the metrics, which are renamed when a run starts anew."""
        try:
            return steps_done(self.run)
        except FileNotFoundError:
            return 0

    def wait_for(self, job, condition):
        deadline = time.monotonic() + RUN_SECONDS
        while not condition():
            if job.processes[0].poll() is not None or time.monotonic() > deadline:
                self.fail(f"the run has ended, or hangs: {job.wait(1).text}")

    def wait_for_a_moment(self, job, turn):
        """Before this job's first save, during a save, at its start, or anywhere."""
        self.wait_for(job, lambda: len(self.ranks(job)) == 4)
        before, moment = self.lines(), turn % 4
        if moment != 2:
            self.wait_for(job, lambda: self.lines() != before)
        if moment == 1:
            self.wait_for(job, lambda: any(self.run.glob("step-??????")))
            self.wait_for(job, lambda: any(self.run.glob("step-*.partial")))
        elif moment > 1:
            time.sleep(self.random.random() / 2)

    def test_the_weights_are_those_of_a_run_that_nobody_disturbed(self):
        for turn in range(KILLS):
            job = self.start_run(1000000)
            self.wait_for_a_moment(job, turn)
            number = self.kill_one(job)
            ended = job.wait(REFUSAL_SECONDS)
            self.assertNotEqual(ended.status, 0, f"turn {turn}, {number.name}: {ended.text}")
        self.assertTrue(KILLS < 2 or any(self.run.glob("step-??????")))
        steps = steps_done(self.run) + 3
        ended = self.start_run(steps).wait(RUN_SECONDS)
        self.assertEqual(ended.status, 0, ended.text)
        self.assertNotIn("waiting up to", ended.text)
        whole = self.train("whole", *RUN, "--steps", steps, ranks=4, launcher="ranks")
        self.assertTrue(tensors(whole, steps))
        self.assertTrue(tensors(self.run, steps) == tensors(whole, steps), f"other weights after step {steps}")
        self.assertEqual(losses(self.run), losses(whole))


if __name__ == "__main__":
    unittest.main()
