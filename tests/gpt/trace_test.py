"""--trace: the file agrees with the metrics."""
import collections
import json
import unittest

from gpt_runs import GptTest
from program_runs import metrics, needs_mpi


def nests(spans):
    """Whether any two spans (begin, end) are either nested or disjoint."""
    open_ends = []
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            return False
        open_ends.append(end)
    return True


class Trace(GptTest):
    def traced(self, *arguments, ranks=1):
        run = self.train("run", "--trace", "traces/t.json", *arguments, ranks=ranks)
        events = json.loads((self.directory / "traces" / "t.json").read_text())["traceEvents"]
        self.lanes = {(event["pid"], event["tid"]): event["args"]["name"]
                      for event in events if event["name"] == "thread_name"}
        self.spans = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                self.spans[event["pid"], self.lanes[event["pid"], event["tid"]]].append(event)
        return run, events

    @needs_mpi
    def test_collectives_parts_and_operations_of_every_rank(self):
        run, events = self.traced("--grid", "2x1x2x1", "--steps", "6", "--trace-steps", "2", ranks=4)
        lines = metrics(run)[2:4]
        self.assertEqual({event["args"]["name"] for event in events if event["name"] == "process_name"},
                         {"rank 0 (x0 y0 z0 d0)", "rank 1 (x1 y0 z0 d0)", "rank 2 (x0 y0 z1 d0)",
                          "rank 3 (x1 y0 z1 d0)"})
        for rank in range(4):
            parts = [span["name"] for span in self.spans[rank, "parts of the step"]]
            self.assertEqual(sorted(parts), sorted(["step 3", "step 4"] + 2 * ["forward", "backward", "optimizer"]))
            names = {span["name"] for lane in self.spans if lane[0] == rank and lane[1].startswith("operations")
                     for span in self.spans[lane]}
            self.assertLessEqual({"aten::mm", "axonn::linear h.0.mlp.fc.weight", "axonn::layer_norm ln_f.weight"},
                                 names)
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "data"):
            moved = [span["args"] for lane in self.spans if lane[0] == 0 and lane[1].startswith("group")
                     for span in self.spans[lane] if span["name"].startswith(kind + " ")]
            counted = [line["communication"].get(kind, {"collectives": 0, "bytes": 0}) for line in lines]
            self.assertEqual(len(moved), sum(count["collectives"] for count in counted), kind)
            self.assertEqual(sum(args["bytes"] for args in moved), sum(count["bytes"] for count in counted), kind)
        self.assertIn((0, "group z, normal queue"), self.spans)

    @needs_mpi
    def test_spans_of_a_lane_nest_and_the_parts_lie_within_their_step(self):
        self.traced("--grid", "2x1x2x1", "--steps", "6", "--micro-batch", "1", ranks=4)
        for lane, spans in self.spans.items():
            self.assertTrue(nests((span["ts"], span["ts"] + span["dur"]) for span in spans), lane)
        waits = sum(span["dur"] for span in self.spans[0, "waits"])
        steps = sum(span["dur"] for span in self.spans[0, "parts of the step"] if span["name"].startswith("step"))
        self.assertLess(0, waits)
        self.assertLess(waits, steps)

    def test_a_run_shorter_than_the_trace_records_its_last_steps(self):
        self.traced("--steps", "2", "--trace-steps", "1")
        self.assertEqual([span["name"] for span in self.spans[0, "parts of the step"]
                          if span["name"].startswith("step")], ["step 2"])

    @needs_mpi
    def test_the_first_ranks_alone(self):
        self.traced("--grid", "1x1x1x2", "--steps", "4", "--trace-ranks", "1", ranks=2)
        self.assertEqual({rank for rank, _ in self.spans}, {0})

    def test_a_file_that_cannot_be_written_ends_the_run_before_its_first_step(self):
        (self.directory / "file").write_text("")
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", "--layers", "1", "--hidden", "16",
                         "--heads", "2", "--sequence", "16", "--steps", "2", "--trace", "file/t.json")
        self.assert_refused(ended, "file/t.json")
        self.assertEqual(metrics(self.directory / "run"), [])


if __name__ == "__main__":
    unittest.main()
