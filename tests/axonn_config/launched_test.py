"""Runs the scripts that launch prints."""
import json
import os
import re
import stat
import subprocess
import unittest

from planner_runs import PlannerTest

GPT, MPIRUN = os.environ.get("AXONN_GPT"), os.environ["AXONN_MPIRUN"]
MACHINE = """name = "hosts"
[gpu]
memory_gib = 4
memory_bandwidth_gbps = 10
bf16_tflops = 0.1
fp32_tflops = 0.1
[[level]]
name = "node"
size = %d
bandwidth_gbps = 5
[[level]]
name = "network"
bandwidth_gbps = 0.1
"""


class Launched(PlannerTest):
    def start(self, script, *arguments, program, mpirun=f'exec "{MPIRUN}" "$@"'):
        """Runs the script with a wrapper in place of the machine's mpirun."""
        (self.directory / "bin").mkdir()
        wrapper, path = self.directory / "bin/mpirun", os.environ.get("PATH", "")
        wrapper.write_text(f'#!/bin/bash\nPATH="{path}"\n{mpirun}\n')
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        values = {**os.environ, "PATH": f"{wrapper.parent}:{path}", "GPT": program}
        ended = subprocess.run(["bash", self.write("run.sh", script), *arguments], cwd=self.directory,
                               capture_output=True, text=True, timeout=100, env=values)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def test_trains_on_the_grid_and_order_of_the_plan(self):
        self.write("hosts.toml", MACHINE % 4)
        self.write("text.txt", "the quick brown fox jumps over the lazy dog\n" * 2000)
        script = self.run_program("launch", "2x1x2x1", "--model", "gpt-tiny", "--machine", "hosts.toml", "--batch", "8",
                                  "--precision", "fp32", "--order", "zxyd", "--launcher", "mpirun").stdout
        self.assertIn('order = "zxyd"', script)
        text = self.start(script, "--device", "cpu", "--steps", "2", "--data", "text.txt", "--out", "mine",
                          "--no-save-last", program=GPT)
        self.assertIn("2x1x2x1", text)
        records = [json.loads(line) for line in (self.directory / "mine/metrics.jsonl").read_text().splitlines()]
        steps = [record for record in records if "loss" in record]
        self.assertGreaterEqual(len(steps), 2, records)

    def test_rank_file_puts_every_rank_on_the_node_of_the_plan(self):
        script = self.run_program("launch", "4x1x8x1", "--model", "gpt20b", "--batch-tokens", "64k", "--mode", "exact",
                                  "--coefficients", "paper", "--launcher", "mpirun").stdout
        nodes = [int(node) for node in re.search(r"nodes=\((.*?)\)", script, re.S)[1].split()]
        self.assertNotEqual(nodes, sorted(nodes))
        self.start(script, program="gpt", mpirun='printf "%s " "$@" >started')
        self.assertIn("-n 32 --rankfile ranks.txt gpt --config", (self.directory / "started").read_text())
        lines = [re.fullmatch(r"rank (\d+)=\+n(\d+) slot=(\d+)", line).groups()
                 for line in (self.directory / "ranks.txt").read_text().splitlines()]
        self.assertEqual([(int(rank), int(node)) for rank, node, _ in lines], list(enumerate(nodes)))
        for node in range(8):
            self.assertEqual([int(slot) for _, on, slot in lines if int(on) == node], [0, 1, 2, 3])


if __name__ == "__main__":
    unittest.main()
