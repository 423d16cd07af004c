"""fit reads the directories of runs: each start's grid and precision, and the median of its steps."""
import json
import os
import re
import statistics
import subprocess
import unittest

from planner_runs import PlannerTest

MACHINE = """name = "core"
[gpu]
memory_gib = 4
memory_bandwidth_gbps = 5
bf16_tflops = %s
fp32_tflops = %s
[[level]]
name = "node"
bandwidth_gbps = 3
"""
NETWORK = "--layers 1 --hidden 32 --heads 2 --sequence 16 --vocab 256".split()


class FitRuns(PlannerTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "the quick brown fox jumps over the lazy dog\n" * 2000)
        self.write("core.toml", MACHINE % (0.1, 0.05))

    def train(self, *arguments):
        ended = subprocess.run([os.environ["AXONN_GPT"], "train", "--ranks", "2", "--data", "text.txt", "--out", "run",
                                "--save-every", "0", "--validate-every", "0", "--gemm", "mm", *arguments],
                               cwd=self.directory, capture_output=True, text=True, timeout=100)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def lines(self, name):
        return [json.loads(line) for line in (self.directory / "run" / name).read_text().splitlines()]

    def test_a_run_that_went_on_with_another_grid_is_two_runs(self):
        self.train(*NETWORK, "--batch", "8", "--steps", "6", "--grid", "1x1x2x1")
        for steps in (8, 12):  # the second job goes on from the same checkpoint as the first
            self.train("--resume", "run/step-000006", "--steps", str(steps), "--grid", "2x1x1x1", "--no-save-last")
        starts = self.lines("starts.jsonl")
        self.assertEqual([(start["step"], start["ranks"], start["configuration"]["run"]["grid"]) for start in starts],
                         [(0, 2, "1x1x2x1"), (6, 2, "2x1x1x1")])
        seconds = [step["seconds"]["step"] for step in self.lines("metrics.jsonl")]
        self.assertEqual(len(seconds), 12)
        text = self.run_program("fit", "run", "--machine", "core.toml").stdout
        rows = re.findall(r"^  run/starts.jsonl:(\d) +(\S+) +(\d+ / \d+) +([\d.]+)", text, re.M)
        self.assertEqual([row[:3] for row in rows], [("1", "1x1x2x1", "8 / 4"), ("2", "2x1x1x1", "8 / 8")])
        for row, steps in zip(rows, (seconds[2:6], seconds[8:])):
            self.assertAlmostEqual(float(row[3]), sorted(steps)[len(steps) // 2], places=4)

        # They were trained in fp32.
        error = lambda machine: self.plan("fit", "run", "--machine", machine)["before"]["median_ratio"]
        self.assertEqual(error("core.toml"), error(self.write("bf16.toml", MACHINE % (10, 0.05))))
        self.assertNotEqual(error("core.toml"), error(self.write("fp32.toml", MACHINE % (0.1, 5))))
        groups = self.plan("validate", "run", "run", "--machine", "core.toml")["groups"]
        self.assertEqual([group["preset"]["runs"] for group in groups], [4])

    def test_refuses_what_it_cannot_fit(self):
        self.train(*NETWORK, "--batch", "8", "--steps", "5", "--grid", "1x1x1x2", "--no-save-last")
        fit = ("fit", "run", "--machine", "core.toml")
        self.refuse("fit", "run", words=["run: which machine? give --machine"])
        self.refuse(*fit, *NETWORK, words=["run is a run, which says its network: remove --model and sizes"])
        self.refuse("fit", ".", "--machine", "core.toml",
                    words=["cannot read ./starts.jsonl: give the directory of a run"])
        metrics, starts = self.directory / "run/metrics.jsonl", self.directory / "run/starts.jsonl"
        steps, start = metrics.read_text(), starts.read_text()
        self.refuse(*fit, words=["a fit needs at least two runs, got 1"])
        metrics.write_text(steps + '{"step":6,"sec')  # being written
        self.refuse(*fit, words=["a fit needs at least two runs, got 1"])
        metrics.write_text("".join(steps.splitlines(keepends=True)[:4]))
        self.refuse(*fit, words=["run has no start with 5 steps: train longer"])
        metrics.write_text(steps.replace('"seconds":{"step":', '"seconds":{"step":-'))
        self.refuse(*fit, words=["run/metrics.jsonl:3: 'seconds.step' must be a number above 0"])
        metrics.write_text(steps.replace('{"step":2', '{"step":two', 1))
        self.refuse(*fit, words=["run/metrics.jsonl:2: the line is no JSON object with a step: remove it"])
        metrics.write_text(steps)
        starts.write_text(start.replace('"reduction":"ring"', '"reduction":"all-reduce:0+1"'))
        self.refuse(*fit, words=["sums gradients by the program 'all-reduce:0+1'", "leave this run out"])
        starts.write_text(start.replace('"split_forward":1', '"split_forward":2'))
        self.refuse(*fit, words=["splits its forward pass in 2 parts", "leave this run out"])
        starts.write_text(start.replace('"attention_rows":"off"', '"attention_rows":"on"'))
        self.refuse(*fit, words=["the run has attention_rows = on", "leave this run out"])
        starts.write_text(start.replace('"context":1', '"context":2'))
        self.refuse(*fit, words=["the run has context = 2", "leave this run out"])
        whole = start.replace('"norm_rows":"off"', '"norm_rows":"auto"')
        starts.write_text(whole)  # whole on any grid with x = 1
        self.refuse(*fit, words=["a fit needs at least two runs, got 1"])
        starts.write_text(whole.replace('"grid":"1x1x1x2"', '"grid":"2x1x1x1"'))
        self.refuse(*fit, words=["the run has norm_rows = auto, and does not say what that was", "leave this run out"])
        starts.write_text(start.replace('"batch":8', '"batch":9'))
        self.refuse(*fit, words=["a batch of 9 must divide by z x data x micro_batch = 8"])
        starts.write_text('{"step":0}\n')
        self.refuse(*fit, words=["run/starts.jsonl:1: 'configuration' is missing"])


if __name__ == "__main__":
    unittest.main()
