"""Directories of runs that no program wrote, and axonn-report on them."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from page_files import Page

PROGRAM = os.environ["AXONN_REPORT"]
MEMORY = {"weights": 1000, "gradients": 1000, "optimizer": 2000, "gathered": 10, "activations": 500, "logits": 300,
          "block": 200, "total": 4810}


def line_of(step, loss):
    return {"step": step, "loss": loss, "gradient_norm": 0.5, "learning_rate": 0.001, "tokens_per_second": 1000.0,
            "model_flops_per_second": 1e9, "utilisation": 0.5, "hidden_share": 0.75, "peak_memory_bytes": 4096,
            "seconds": {"step": 0.5, "forward": 0.1, "backward": 0.2, "communication_exposed": 0.05, "optimizer": 0.1,
                        "checkpoint": 0.0, "validation": 0.0},
            "communication": {"all_reduce": {"collectives": 4, "bytes": 1024, "exposed_seconds": 0.02,
                                             "hidden_seconds": 0.06}}}


def start_of(step, **environment):
    return {"step": step, "start": f"{step:016x}", "ranks": 4,
            "configuration": {"run": {"grid": "2x1x2x1"}, "train": {"steps": 1000, "batch": 8}}, "choices": {},
            "environment": {"time": "2026-11-30T10:00:00Z", "axonn": "0.4.0", "libtorch": "2.11.0", "grid": "2x1x2x1",
                            "transport": "mpi", "library": "Open MPI v4.1.4", "device": "cpu", "machine": "a processor",
                            "hosts": [{"name": "n1", "ranks": 4}], "command": ["gpt", "train"],
                            "predicted_memory": MEMORY, **environment}}


class ReportTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def write_run(self, name, lines, starts=None, state="done", samples=None):
        """A run of these lines of metrics (objects, or texts as they are)."""
        run = self.directory / name
        (run / "samples").mkdir(parents=True)
        texts = [line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines]
        (run / "metrics.jsonl").write_text("".join(texts))
        (run / "starts.jsonl").write_text("".join(json.dumps(start) + "\n" for start in starts or [start_of(0)]))
        status = {"state": state, "step": len(lines), "time": "2026-11-30T11:00:00Z"}
        (run / "status.json").write_text(json.dumps(status))
        for file, content in (samples or {}).items():
            (run / "samples" / file).write_bytes(content)
        return run

    def run_report(self, *arguments, status=0):
        ended = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.directory, capture_output=True, text=True,
                               timeout=100)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended

    def page(self, *arguments):
        self.run_report(*arguments)
        return Page((self.directory / "report.html").read_text())

    def report(self, *arguments):
        return self.page(*arguments).data
