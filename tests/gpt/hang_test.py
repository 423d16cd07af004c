"""A job that hangs says which collective, which ranks and why, and ends in time. A slow rank is named."""
import json
import os
import signal
import subprocess
import threading
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import CLUSTER, RUN_SECONDS, free_port, needs_mpi, nightly, processes_with, program_of, wait_for_steps

LIMIT = 2   # for a collective, in seconds
AFTER = 10  # by then all ranks have ended


class Hang(GptTest):
    def start_job(self, launcher, data=2, **options):
        job = self.start("train", "--data", self.text, "--out", self.directory / "run", *TRAINING, "--grid",
                         f"1x1x2x{data}", "--steps", "1000000", ranks=2 * data, launcher=launcher,
                         environment={"AXONN_TIMEOUT_SECONDS": str(LIMIT)}, **options)
        wait_for_steps(job, self.directory / "run", 5)
        return job

    def rank_of(self, job, rank):
        names = ("OMPI_COMM_WORLD_RANK", "RANK")
        for pid in job.ranks():
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            if any(f"{name}={rank}".encode() in variables for name in names):
                return pid
        raise AssertionError(f"no rank {rank}")

    def stop(self, launcher, rank, **options):
        job = self.start_job(launcher, **options)
        os.kill(self.rank_of(job, rank), signal.SIGSTOP)
        return job

    def check_report(self, ended, answering, silent=2, ranks=4):
        self.assertNotEqual(ended.status, 0)
        report = [line for line in ended.err.splitlines() if "made no progress for 2 s: " in line]
        self.assertTrue(report, ended.text)
        self.assertIn(f"[error 0/{ranks}", report[0])
        self.assertRegex(report[0], f"#[0-9]+ of group '.+' .+ rank {silent} does not answer")
        self.assertRegex(ended.err, f"(?m)^  rank {silent} does not answer: ")  # no other rank
        self.assertIn("the last calls of rank", ended.err)
        for rank in answering:  # the stopped one may go on when the job ends, and say what it sees
            self.assertNotIn(f"[rank {rank}] gpt: ", ended.err)
        for rank in answering:
            lines = (self.directory / "run" / "flight" / f"rank-{rank:04d}.jsonl").read_text().splitlines()
            self.assertGreater(len(lines), 20)
            self.assertEqual(json.loads(lines[0])["rank"], rank)
            calls = [json.loads(line) for line in lines[1:]]
            self.assertTrue(all(call["called"] > 0 and call["group"] for call in calls))

    @nightly
    @needs_mpi
    def test_stopped_rank_is_named(self):
        job = self.stop("mpi", 2)
        self.check_report(job.wait(LIMIT + AFTER), (0, 1, 3))

    def test_stopped_rank_is_named_over_tcp(self):
        job = self.stop("ranks", 2)
        self.check_report(job.wait(LIMIT + AFTER), (0, 1, 3))

    def test_stopped_rank_hides_none_of_those_below_it(self):
        """Rank 1 passes questions on to ranks 5 to 7, and their answers to rank 0."""
        job = self.stop("ranks", 1, data=4)
        self.check_report(job.wait(LIMIT + AFTER), (0, 2, 3, 4, 5, 6, 7), silent=1, ranks=8)

    @nightly
    def test_others_speak_when_rank_zero_is_stopped(self):
        job = self.stop("ranks", 0)
        ended = job.wait(LIMIT + AFTER)
        self.assertNotEqual(ended.status, 0)
        self.assertIn("rank 0 did not answer when it was asked for a report", ended.err)
        self.assertTrue((self.directory / "run" / "flight" / "rank-0003.jsonl").exists())

    def hang(self, launcher, *arguments, until, grid="1x1x2x1"):
        """Starts two ranks, and stops rank 1 when `until` returns. The job must end in time."""
        job = self.start(*arguments, "--grid", grid, ranks=2, launcher=launcher,
                         environment={"AXONN_TIMEOUT_SECONDS": str(LIMIT)})
        until(job)
        os.kill(self.rank_of(job, 1), signal.SIGSTOP)
        ended = job.wait(LIMIT + AFTER)
        self.assertNotEqual(ended.status, 0)
        self.assertRegex(ended.err, "#[0-9]+ of group '.+' .*made no progress for 2 s: .*rank 1 does not answer")
        return ended

    def wait_for(self, job, pattern):
        while not any((self.directory / "run").glob(pattern)):
            self.assertIsNone(job.processes[0].poll(), "the job has ended")

    def hang_in_validation(self, launcher):
        self.text.write_text("a text that is long enough\n" * 100000)

        def validating(job):  # the first step takes milliseconds, the validation after it minutes
            self.wait_for(job, "status.json")
            time.sleep(0.5)
            self.assertEqual((self.directory / "run/metrics.jsonl").read_bytes(), b"")

        self.hang(launcher, "train", "--data", self.text, "--out", "run", *TRAINING, "--steps", "1000000",
                  "--validate-every", "1", "--validation-fraction", "0.9", until=validating)

    def test_a_rank_that_is_stopped_in_validation_is_named(self):
        self.hang_in_validation("ranks")

    @nightly
    @needs_mpi
    def test_a_rank_that_is_stopped_in_validation_is_named_under_mpi(self):
        self.hang_in_validation("mpi")

    @nightly
    def test_a_rank_that_is_stopped_while_it_saves_is_named(self):
        self.hang("ranks", "train", "--data", self.text, "--out", "run", *TRAINING, "--hidden", "512", "--steps",
                  "1000000", "--save-every", "1", "--no-save-async", until=lambda job: self.wait_for(job, "*.partial"))

    def test_a_rank_that_is_stopped_while_it_samples_is_named(self):
        self.train("run", "--steps", "1")
        self.hang("ranks", "generate", "--checkpoint", "run", "--tokens", "100000000", until=self.wait_for_samples,
                  grid="2x1x1x1")  # a sum over both ranks in every layer

    def wait_for_samples(self, job, seconds=3):
        """Until the ranks have computed for longer than their start takes."""
        while len(job.ranks()) < 3 or self.cpu_seconds(self.rank_of(job, 1)) < seconds:  # the waiting process, too
            self.assertIsNone(job.processes[0].poll(), "the job has ended")
            time.sleep(0.1)

    def cpu_seconds(self, pid):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cluster_up(self):
        subprocess.run([CLUSTER, "up", "--nodes", "4", "--rate", "1gbit"], check=True)
        self.addCleanup(subprocess.run, [CLUSTER, "down"])

    def cut_off(self, job, host):
        """All of its processes go on; nothing goes in or out. The ranks end, here and there."""
        subprocess.run(["ip", "link", "set", f"axonn-link{host}", "down"], check=True)
        cut = time.monotonic()
        while job.ranks():
            self.assertLess(time.monotonic() - cut, LIMIT + AFTER, "a rank is still there")
            time.sleep(0.1)

    @nightly
    @needs_mpi
    def test_vanished_host_is_named(self):
        self.cluster_up()
        job = self.start_job("cluster")
        self.cut_off(job, 3)
        self.addCleanup(job.end)
        report = (self.directory / "run" / "flight" / "rank-0003.jsonl").read_text().splitlines()[0]
        self.assertIn("made no progress for 2 s", report)
        job.signal(signal.SIGTERM)  # mpirun waits for its agent on the vanished host
        for agent in processes_with(job.mark):
            if program_of(agent).endswith("/orted"):
                os.kill(agent, signal.SIGKILL)
        self.check_report(job.wait(60), (0, 1, 2), silent=3)

    @nightly
    def test_vanished_host_is_named_over_tcp(self):
        self.cluster_up()
        port = str(free_port())
        job = self.start_job(
            lambda rank: {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                          "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": port},
            prefix=lambda rank: ["nsenter", f"--net=/var/run/netns/axonn-node{rank}"])
        self.cut_off(job, 3)
        ended = job.wait(10)
        self.check_report(ended, (0, 1, 2), silent=3)
        self.assertRegex(ended.err, r"\[rank 3\] gpt: .* rank 0 did not answer")

    @nightly
    def test_slow_rank_is_named(self):
        """Rank 1 stands still for a quarter of the time."""
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--hidden", "128", "--sequence", "64",
                         "--grid", "1x1x1x2", "--steps", "200", ranks=2, launcher="tcp",
                         environment={"AXONN_LOG": "warn"})
        wait_for_steps(job, self.directory / "run", 1)
        slow = self.rank_of(job, 1)

        def slow_down():
            while any(process.poll() is None for process in job.processes):
                for number, seconds in ((signal.SIGSTOP, 0.025), (signal.SIGCONT, 0.075)):
                    try:
                        os.kill(slow, number)
                    except ProcessLookupError:
                        return
                    time.sleep(seconds)

        brake = threading.Thread(target=slow_down)
        brake.start()
        ended = job.wait(100)
        brake.join()
        self.assertEqual(ended.status, 0, ended.text)
        self.assertRegex(ended.err, r"rank 1 on host .+ computes [0-9]+% longer than the median of 2 ranks")


if __name__ == "__main__":
    unittest.main()
