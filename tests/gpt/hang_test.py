"""A job that hangs says which collective, which ranks and why, and ends in time."""
import json
import os
import signal
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import needs_mpi, nightly, wait_for_steps

LIMIT = 2   # of a collective, in seconds
AFTER = 10  # by then all ranks have ended


class Hang(GptTest):
    def start_four(self, launcher):
        job = self.start("train", "--data", self.text, "--out", "run", *TRAINING, "--grid", "1x1x2x2",
                         "--steps", "1000000", ranks=4, launcher=launcher,
                         environment={"AXONN_TIMEOUT_SECONDS": str(LIMIT)})
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

    def stop(self, launcher, rank):
        job = self.start_four(launcher)
        os.kill(self.rank_of(job, rank), signal.SIGSTOP)
        return job

    def check_report(self, ended, answering):
        self.assertNotEqual(ended.status, 0)
        report = [line for line in ended.err.splitlines() if "made no progress for 2 s: " in line]
        self.assertTrue(report, ended.text)
        self.assertIn("[error 0/4", report[0])
        self.assertRegex(report[0], "#[0-9]+ of group '.+' .+ rank 2 does not answer")
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

    @nightly
    def test_others_speak_when_rank_zero_is_stopped(self):
        job = self.stop("ranks", 0)
        ended = job.wait(LIMIT + AFTER)
        self.assertNotEqual(ended.status, 0)
        self.assertIn("rank 0 did not answer when it was asked for a report", ended.err)
        self.assertTrue((self.directory / "run" / "flight" / "rank-0003.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
