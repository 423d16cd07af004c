"""A program whose standard output cannot be written, because the disk is full or the output is closed, ends with an
error in one sentence. Its other files are whole."""
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program_runs import RUN_SECONDS, ProgramTest, steps_done

TOOLS = pathlib.Path(os.environ["AXONN_CHECKPOINT"]).parent
TRAINING = ("train --data text.txt --layers 1 --hidden 16 --heads 2 --sequence 16 --gemm mm --batch 4 --steps 2 "
            "--validate-every 0").split()
PROGRAM_TEXT = str(pathlib.Path(__file__).parents[1] / "optim/lion.program")


class Output(ProgramTest):
    def to(self, where, name, *arguments):
        """The exit status and the standard error of a program that prints to /dev/full, or to nothing."""
        if where == "full":
            with open("/dev/full", "w") as full:
                ended = subprocess.run([TOOLS / name, *arguments], cwd=self.directory, stdout=full,
                                       stderr=subprocess.PIPE, text=True)
        else:
            ended = subprocess.run(["sh", "-c", '"$@" >&-', "sh", TOOLS / name, *arguments], cwd=self.directory,
                                   stderr=subprocess.PIPE, text=True)
        return ended.returncode, ended.stderr

    def assert_reported(self, where, status, name, *arguments):
        with self.subTest(name=name, where=where, arguments=arguments[:1]):
            ended, text = self.to(where, name, *arguments)
            self.assertEqual(ended, status, text)
            last = text.splitlines()[-1]
            self.assertTrue(last.startswith(f"{name}: "), text)
            self.assertEqual(text.count("the standard output cannot be written"), 1, text)

    def test_every_program_says_so(self):
        (self.directory / "text.txt").write_text("a text of some words\n" * 100)
        self.assert_reported("closed", 1, "gpt", *TRAINING, "--out", "run")
        for line in (self.directory / "run/metrics.jsonl").read_text().splitlines():  # no other text has come in
            self.assertTrue(line.startswith('{"step":'), line)
        self.assert_reported("full", 1, "gpt", "generate", "--checkpoint", "run", "--tokens", "3")
        self.assert_reported("full", 1, "gpt", "--help")
        self.assert_reported("full", 1, "unet", "--help-env")
        for where in ("full", "closed"):
            self.assert_reported(where, 2, "axonn-checkpoint", "ls", "run")
        self.assert_reported("full", 2, "axonn-checkpoint", "verify", "run")
        self.assert_reported("full", 2, "axonn-config", "--gpus", "8", "--model", "gpt5b")
        self.assert_reported("full", 2, "axonn-config", "machine", "perlmutter")
        self.assert_reported("full", 2, "axonn-schedule", "show", PROGRAM_TEXT)

    def start_training(self, out, *arguments, **streams):
        (self.directory / "text.txt").write_text("a text of some words\n" * 100)
        command = [TOOLS / "gpt", *TRAINING, "--steps", "1000000", "--log-every", "1", "--out", out, *arguments]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        job = subprocess.Popen(command, cwd=self.directory, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
                               **streams)
        self.addCleanup(job.kill)
        return job

    def assert_stopped(self, out, job):
        """After its step, with a checkpoint, without a lock, and with one sentence."""
        text = job.communicate(timeout=RUN_SECONDS)[1]
        self.assertEqual(job.returncode, 1, text)
        run = self.directory / out
        steps = steps_done(run)
        newest = f"{out}/step-{steps:06d}"
        self.assertEqual([line for line in text.splitlines() if not line.startswith("[info")],
                         [f"gpt: the standard output cannot be written, so the run has ended after step {steps}, with "
                          f"checkpoint {newest}; resume it with its output in a place that can be written, or in "
                          "/dev/null"])
        self.assertTrue((self.directory / newest / "manifest.json").is_file())
        self.assertEqual(list(run.glob("job-*.lock")), [])
        status = json.loads((run / "status.json").read_text())
        self.assertEqual((status["state"], status["reason"]), ("stopped", "the standard output cannot be written"))

    def test_a_run_whose_output_nobody_reads_ends_with_a_checkpoint(self):
        for out, more in (("one", []), ("two", ["--ranks", "2", "--grid", "1x1x1x2"])):
            with self.subTest(out):
                job = self.start_training(out, *more)
                self.assertIn("parameters", job.stdout.readline())
                job.stdout.close()
                job.stdout = None
                self.assert_stopped(out, job)
        ended = self.run_program("train", "--resume", "one", "--steps", steps_done(self.directory / "one") + 2)
        self.assertEqual(ended.status, 0, ended.text)

    def test_so_does_one_whose_output_is_full_or_was_closed_before_it_began(self):
        with open("/dev/full", "w") as full:
            self.assert_stopped("full", self.start_training("full", stdout=full))
        read, write = os.pipe()
        os.close(read)
        self.assert_stopped("early", self.start_training("early", stdout=write))
        os.close(write)

    def test_a_slow_reader_of_an_output_that_does_not_block_ends_nothing(self):
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(write, False)
        os.write(write, b"." * 4096)  # full: otherwise a last line that is short may still have room
        job = self.start_training("slow", "--steps", "150", stdout=write)
        text = job.communicate(timeout=RUN_SECONDS)[1]
        self.assertEqual(job.returncode, 1, text)
        self.assertIn("gpt: the standard output cannot be written (", text)
        self.assertEqual(steps_done(self.directory / "slow"), 150)
        os.close(read), os.close(write)

    def test_a_run_whose_errors_nobody_reads_goes_on(self):
        job = self.start_training("run", stdout=subprocess.DEVNULL)
        job.stderr.close()
        job.stderr = None
        while steps_done(self.directory / "run") < 20:
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(RUN_SECONDS), 0)
        self.assertEqual(list((self.directory / "run").glob("job-*.lock")), [])


if __name__ == "__main__":
    unittest.main()
