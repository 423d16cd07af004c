"""`--grid auto` trains on the grid that the planner finds best for the ranks of the job and a machine."""
import json
import re
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import metrics, needs_mpi


class AutoGrid(GptTest):
    @needs_mpi
    def test_the_planners_best_is_taken_and_kept(self):
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "3", "--grid", "auto", "--machine", "workstation",
                         ranks=4)
        self.assertEqual(ended.status, 0, ended.text)
        chosen = re.search(r"^grid (\d+)x(\d+)x(\d+)x(\d+), order ([xyzd]{4}): the planner's best for machine workstation, [\d.e-]+ s a step",
                           ended.out, re.M)
        self.assertTrue(chosen, ended.out)
        x, y, z, data = map(int, chosen.groups()[:4])
        self.assertEqual(x * y * z * data, 4)
        manifest = json.loads((self.directory / "run" / "step-000003" / "manifest.json").read_text())
        kept = manifest["configuration"]
        kept = json.loads(kept) if isinstance(kept, str) else kept
        self.assertEqual(kept["run"]["grid"], f"{x}x{y}x{z}x{data}")
        self.assertEqual(len(metrics(self.directory / "run")), 3)

    def test_what_it_needs_is_told(self):
        run = ["train", "--data", self.text.name, "--out", "run", *TRAINING, "--grid", "auto"]
        self.refuse(*run, words=["--grid auto needs --machine", "axonn-config calibrate"])
        self.refuse(*run, "--machine", "perlmuter", words=["perlmuter", "perlmutter"])
        self.refuse(*run, "--dry-run", words=["--grid auto is chosen for the ranks of a job", "axonn-config"])


if __name__ == "__main__":
    unittest.main()
