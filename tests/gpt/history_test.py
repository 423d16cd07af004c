"""A run is one directory with one history: going back, branching off, copying, moving, being killed in between."""
import json
import os
import shutil
import signal
import subprocess
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import RUN_SECONDS, losses, metrics, refusal_seconds, steps_done, tensors, wait_for_steps

CHECKPOINT = os.environ["AXONN_CHECKPOINT"]


def steps_in(run):
    return sorted(int(path.name[5:]) for path in run.glob("step-*") if path.is_dir())


def lines_of(run):
    return [line["step"] for line in metrics(run)]


def starts(run):
    return [json.loads(line) for line in (run / "starts.jsonl").read_text().splitlines()]


class History(GptTest):
    """Every test begins with a run of 6 steps that has the checkpoints 2, 4 and 6."""

    def setUp(self):
        super().setUp()
        self.run = self.train("run", "--steps", "6", "--save-every", "2", "--keep", "9")
        self.first = losses(self.run)

    def resume(self, given, steps, *arguments, **options):
        ended = self.gpt("train", "--resume", given, "--steps", steps, *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return ended

    def refuse_resume(self, given, *words):
        self.refuse("train", "--resume", given, "--steps", "99", words=words)

    def assert_history(self, run, checkpoints, lines):
        self.assertEqual(steps_in(run), checkpoints)
        self.assertEqual(lines_of(run), list(range(1, lines + 1)))

    def kill_after(self, steps, out, *arguments):
        """Resumes, and kills the run when it has so many lines of metrics, before it has saved."""
        job = self.start("train", *arguments, "--steps", "1000000", "--save-every", "0")
        wait_for_steps(job, self.directory / out, steps)
        os.kill(job.ranks()[0], signal.SIGKILL)
        job.wait(RUN_SECONDS)

    def test_going_back_leaves_later_steps_in_a_run_of_their_own(self):
        self.assertIn("nothing to do", self.resume("run/step-000002", 2).out)
        self.assert_history(self.run, [2, 4, 6], 6)

        ended = self.resume("run/step-000002", 5, "--save-every", "1", "--keep", "2", "--grid", "1x1x1x2", ranks=2,
                           launcher="ranks")
        left = self.run / "after-step-000002"
        self.assertEqual(ended.text.count("goes back to step 2 and on from there"), 1, ended.text)
        self.assertIn("now in run/after-step-000002,", ended.text)
        self.assert_history(self.run, [4, 5], 5)
        self.assert_history(left, [4, 6], 6)
        self.assertEqual(losses(left), self.first)

        (self.directory / "link").symlink_to(self.run)
        self.resume("link", 6, "--grid", "1x1x1x1")  # by the run's directory: from 5 of this history, not from 6
        self.assert_history(self.run, [5, 6], 6)
        self.assertEqual([(start["step"], start.get("from")) for start in starts(self.run)],
                         [(0, None), (2, "step-000002"), (5, "step-000005")])
        listed = subprocess.run([CHECKPOINT, "ls", "run"], cwd=self.directory, capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual(listed.stdout.count("| complete |"), 2, listed.stdout)
        self.assertIn("run/after-step-000002: a history that the run has left, 2 checkpoints, the newest of step 6\n",
                      listed.stdout)

        self.resume("run/step-000005", 6, "--grid", "1x1x1x1")  # once more
        self.assert_history(self.run, [5, 6], 6)
        self.assert_history(self.run / "after-step-000005", [6], 6)
        self.resume(left, 7)  # the history that was left goes on in its own directory
        self.assert_history(left, [4, 6, 7], 7)
        self.assert_history(self.run, [5, 6], 6)

        for step in (4, 6):  # put back by hand; 4 and 6 of this history are other checkpoints
            shutil.rmtree(self.run / f"step-{step:06}", ignore_errors=True)
            shutil.copytree(left / f"step-{step:06}", self.run / f"step-{step:06}")
            self.refuse_resume(f"run/step-{step:06}", "of a history that the run has left", "went back to step 2",
                               "--out DIR")
        self.resume("run", 7, "--grid", "1x1x1x1")
        self.assert_history(self.run, [4, 6, 7], 7)  # 6 and 7 are new
        self.assertEqual(starts(self.run)[-1]["from"], "step-000005")
        self.assert_history(self.run / "after-step-000005-2", [6], 6)

    def test_a_run_that_went_back_and_was_killed_goes_on_from_there(self):
        self.kill_after(7, "run", "--resume", "run/step-000004")  # 6 lines were there, and 4 of them are kept
        before = (self.run / "after-step-000004/metrics.jsonl").read_bytes()
        self.resume("run", 5)
        self.assert_history(self.run, [2, 4, 5], 5)
        self.assertEqual([start["step"] for start in starts(self.run)], [0, 4])
        self.assert_history(self.run / "after-step-000004", [6], 6)
        self.assertEqual((self.run / "after-step-000004/metrics.jsonl").read_bytes(), before)

    def test_a_run_that_was_killed_while_it_went_back_has_gone_back(self):
        left = self.run / "after-step-000002.partial"
        left.mkdir()
        (self.run / "step-000006").rename(left / "step-000006")
        self.refuse_resume("run/step-000004", "run/step-000004 is of a history that the run was leaving for step 2")
        self.resume("auto", 3, "--out", "run")
        self.assert_history(self.run, [2, 3], 3)
        self.assert_history(self.run / "after-step-000002", [4, 6], 6)
        self.assertFalse(left.exists())

    def test_copies_are_told_apart_and_a_branch_is_a_run_of_its_own(self):
        twin = self.directory / "moved" / "twin"
        shutil.copytree(self.run, twin, copy_function=os.link)
        self.resume(twin, 8)
        self.assert_history(twin, [2, 4, 6, 8], 8)
        self.assert_history(self.run, [2, 4, 6], 6)
        shutil.copytree(twin / "step-000008", self.run / "step-000008")
        self.refuse_resume("run/step-000008", "copied here", "run/starts.jsonl does not list", "--out DIR")
        self.resume("run", 7)  # from its own newest one
        self.assert_history(self.run, [2, 4, 6, 7], 7)
        self.assertEqual(tensors(self.run / "after-step-000006", 8), tensors(twin, 8))

        shutil.copytree(self.run / "step-000006", self.run / "step-000099")
        self.refuse_resume("run/step-000099", "holds step 6, so it was renamed; call it step-000006")
        shutil.rmtree(self.run / "step-000099")

        self.kill_after(1, "branch", "--resume", twin / "step-000004", "--out", "branch")
        self.refuse_resume("branch", "there is no checkpoint in branch yet: the run went on from", "--resume auto")
        self.resume("auto", 6, "--out", "branch")
        branch = self.directory / "branch"
        self.assertEqual((steps_in(branch), lines_of(branch)), ([6], [5, 6]))
        self.assertEqual([(start["step"], start["from"]) for start in starts(branch)],
                         [(4, str((twin / "step-000004").resolve()))])
        runs = [json.loads((path / "step-000006/manifest.json").read_text())["run"] for path in (self.run, branch)]
        self.assertNotEqual(*runs)

    def test_one_lock_whatever_the_run_is_called(self):
        (self.directory / "link").symlink_to(self.run)
        job = self.start("train", "--resume", "run", "--steps", "1000000", "--save-every", "0")
        self.addCleanup(job.end)
        wait_for_steps(job, self.run, 8)
        ended = self.gpt("train", "--resume", "link/step-000002", "--steps", "99", seconds=refusal_seconds())
        self.assert_refused(ended, "is in use by process")
        self.assertEqual(steps_in(self.run), [2, 4, 6])
        copy = self.directory / "copy"
        shutil.copytree(self.run, copy)
        self.assertTrue((copy / "job-1.lock").exists())
        self.resume(copy, 7)  # its lock is the other directory's
        self.assertEqual([path.name for path in copy.glob("*.lock")], [])


if __name__ == "__main__":
    unittest.main()
