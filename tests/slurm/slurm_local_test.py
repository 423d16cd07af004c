"""gpt under a real Slurm of four nodes on this machine. scripts/slurm-local starts it in a
temporary folder; AXONN_ROOT is the checkout. Exit status 77: skipped."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from gpt_runs import TRAINING
from program_runs import (MPIRUN, PROGRAM, REFUSAL_SECONDS, RUN_SECONDS, is_rank, losses, metrics, processes_where,
                          steps_done)

ROOT = pathlib.Path(os.environ["AXONN_ROOT"])
SLURM_LOCAL = ROOT / "scripts/slurm-local"
BATCH_SCRIPT = ROOT / "scripts/slurm/gpt.sbatch"
UNET = os.environ["AXONN_UNET"]
GPT_MPICH = os.environ.get("AXONN_GPT_MPICH")
UNET_BATCH_SCRIPT = ROOT / "scripts/slurm/unet.sbatch"
SRUN = ["srun", "-N4", "-n8", "--mpi=pmix"]
MANY_STEPS = ["--steps", "1000000", "--save-every", "5", "--log-every", "1"]


def reason_to_skip():
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    path = os.environ["PATH"] + ":/usr/sbin"
    missing = [tool for tool in ("munged", "slurmctld", "slurmd", "srun", "ss") if not shutil.which(tool, path=path)]
    return f"{' '.join(missing)}: not installed (scripts/setup --slurm does)" if missing else None


def processes_of(folder):
    """The processes that `up` with this TMPDIR started, and their children."""
    return processes_where(lambda variable: variable.startswith(f"AXONN_SLURM_LOCAL={folder}/axonn-slurm:".encode()))


def wait_until(condition, what, seconds=RUN_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not after {seconds} s")
        time.sleep(0.05)


class Scratch:
    """A folder directly below /tmp (names of sockets must be short), and slurm-local with it as
    TMPDIR."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="axonn-", dir="/tmp")
        self.path = pathlib.Path(self.holder.name)
        text = "".join(f"line {i} of a text, {i * i % 97} and {i * 7 % 31}\n" for i in range(1000))
        (self.path / "text.txt").write_text(text)

    def start(self, *command):
        environment = os.environ | {"TMPDIR": str(self.path), "GPT": PROGRAM, "UNET": UNET}
        return subprocess.Popen([str(word) for word in command], cwd=self.path, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *command):
        """Returns the exit status and the output."""
        process = self.start(*command)
        try:
            text = process.communicate(timeout=RUN_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"still running after {RUN_SECONDS} s: {command}") from None
        return process.returncode, text

    def left(self):
        """Processes and files that must not exist when no Slurm is up."""
        return processes_of(self.path) + [path for path in self.path.iterdir() if path.name.startswith("axonn")]


class SlurmTest(unittest.TestCase):
    """With a Slurm of four nodes."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = Scratch()
        cls.addClassCleanup(cls.scratch.holder.cleanup)
        cls.addClassCleanup(cls.scratch.run, SLURM_LOCAL, "down")
        status, text = cls.scratch.run(SLURM_LOCAL, "up")
        if status != 0:
            raise AssertionError(text)

    def slurm(self, *command):
        """Runs a command, which must succeed. Returns its output."""
        status, text = self.scratch.run(SLURM_LOCAL, "run", "--", *command)
        self.assertEqual(status, 0, text)
        return text

    def wait_for_steps(self, run, steps):
        try:
            wait_until(lambda: steps_done(self.scratch.path / run) >= steps, f"step {steps} of {run}")
        except AssertionError as late:
            state = self.scratch.run(SLURM_LOCAL, "run", "--", "sh", "-c", "squeue; sinfo -N -l; scontrol show job")[1]
            printed = "".join(path.read_text() for path in self.scratch.path.glob("*.out"))
            self.fail(f"{late}\n{state}\n{printed}")

    def wait_for_end(self, job):
        wait_until(lambda: "COMPLETED" in self.slurm("scontrol", "show", "job", job), "the job's end")

    def ranks(self):
        return [pid for pid in processes_of(self.scratch.path) if is_rank(pid)]


class Slurm(SlurmTest):
    def test_tasks_are_spread_evenly_in_order(self):
        text = self.slurm("srun", "-N4", "-n8", "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME")
        self.assertEqual(sorted(text.splitlines()), [f"{rank} node{rank // 2}" for rank in range(8)])

    # Otherwise the first message sometimes reaches a rank that cannot receive it yet, and that rank
    # crashes.
    def test_mpi_init_waits_for_every_node(self):
        program = ("import ctypes, os, time; last = os.environ['SLURM_PROCID'] == '7'; time.sleep(3 * last); "
                   "start = time.monotonic(); "
                   "mpi = ctypes.CDLL('libmpi.so.40', ctypes.RTLD_GLOBAL); mpi.MPI_Init(None, None); "
                   "print(int(last), time.monotonic() - start); mpi.MPI_Finalize()")
        lines = [line.split() for line in self.slurm(*SRUN, sys.executable, "-c", program).splitlines()]
        self.assertEqual(len(lines), 8)
        for last, seconds in lines:
            if last == "0":
                self.assertGreater(float(seconds), 1, "this rank did not wait for the one that came 3 s later")

    def test_losses_are_those_of_mpirun(self):
        training = ["--config", ROOT / "configs/gpt-tiny.toml", "--grid", "2x2x2x1", "--dtype", "fp64",
                    "--data", "text.txt", "--steps", "4", "--warmup", "2", "--batch", "4", "--sequence", "64",
                    "--validate-every", "0", "--save-every", "0"]
        self.slurm(*SRUN, PROGRAM, *training, "--out", "srun")
        starts = {"without-mpi": ("none", PROGRAM, "tcp"), "another-mpi": ("pmi2", PROGRAM, "tcp")}
        if GPT_MPICH:
            starts["mpich"] = ("pmi2", GPT_MPICH, "mpi")
        for out, (kind, program, transport) in starts.items():
            text = self.slurm("srun", "-N4", "-n8", f"--mpi={kind}", program, *training, "--out", out)
            self.assertIn(f"(8 ranks, {transport})", text)
        status, text = self.scratch.run(MPIRUN, "-n", "8", PROGRAM, *training, "--out", "mpirun")
        self.assertEqual(status, 0, text)
        theirs = metrics(self.scratch.path / "mpirun")
        for run in ("srun", *starts):
            ours = metrics(self.scratch.path / run)
            self.assertEqual(len(ours), 4)
            for mine, other in zip(ours, theirs, strict=True):
                self.assertAlmostEqual(mine["loss"] / other["loss"], 1, delta=1e-12)
                self.assertAlmostEqual(mine["gradient_norm"] / other["gradient_norm"], 1, delta=1e-12)
            self.assertLess(ours[-1]["loss"], ours[0]["loss"])

    def test_batch_script_goes_on_after_a_requeue_and_ends_in_order(self):
        job = self.slurm("sbatch", "--parsable", "--output", "batch.out", BATCH_SCRIPT, "--data", "text.txt",
                         "--out", "batch", *TRAINING, "--grid", "2x2x2x1", *MANY_STEPS).strip()
        self.wait_for_steps("batch", 6)
        self.slurm("scontrol", "requeue", job)
        wait_until(lambda: "RUNNING" not in self.slurm("squeue", "-h", "-o", "%T", "-j", job) and not self.ranks(),
                   "the job's end")
        done = steps_done(self.scratch.path / "batch")
        self.wait_for_steps("batch", done + 3)
        self.slurm("scancel", "--signal=USR1", job)  # only to the ranks
        self.wait_for_end(job)

        printed = (self.scratch.path / "batch.out").read_text()
        last = max(losses(self.scratch.path / "batch"))
        self.assertIn(f"stopped early: step {last},", printed)
        self.assertTrue((self.scratch.path / f"batch/step-{last:06d}").is_dir(), printed)
        steps = [line["step"] for line in metrics(self.scratch.path / "batch")]
        self.assertEqual(steps, list(range(1, last + 1)))

    def test_batch_script_without_the_program_says_so(self):
        for name, script in (("gpt", BATCH_SCRIPT), ("unet", UNET_BATCH_SCRIPT)):
            variables = f"--export=ALL,{name.upper()}=nowhere/{name}"
            status, _ = self.scratch.run(SLURM_LOCAL, "run", "--", "sbatch", "--wait", variables, "--output", "no.out",
                                         script)
            self.assertEqual(status, 2)
            self.assertIn(f"no program nowhere/{name}", (self.scratch.path / "no.out").read_text())

    def test_killed_rank_ends_srun(self):
        job = self.scratch.start(SLURM_LOCAL, "run", "--", *SRUN, PROGRAM, "--data", "text.txt", "--out", "killed",
                                 *TRAINING, "--grid", "2x2x2x1", *MANY_STEPS)
        try:
            self.wait_for_steps("killed", 3)
        except AssertionError as late:
            job.kill()
            self.fail(f"{late}: {job.communicate()[0]}")
        ranks = self.ranks()
        self.assertEqual(len(ranks), 8)
        os.kill(ranks[5], signal.SIGKILL)
        try:
            text = job.communicate(timeout=REFUSAL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            job.kill()
            self.fail(f"srun still waits {REFUSAL_SECONDS} s after a rank was killed: {job.communicate()[0]}")
        self.assertNotEqual(job.returncode, 0, text)
        wait_until(lambda: not self.ranks(), "the end of the other ranks", REFUSAL_SECONDS)

    def test_killed_task_ends_those_that_would_not_notice(self):
        started = time.monotonic()
        status, text = self.scratch.run(SLURM_LOCAL, "run", "--", "srun", "-N4", "-n8", "sh", "-c",
                                        "[ $SLURM_PROCID != 3 ] || kill -KILL $$; sleep 60")
        self.assertNotEqual(status, 0, text)
        self.assertLess(time.monotonic() - started, 30)

    def test_second_up_says_that_one_is_up(self):
        status, text = self.scratch.run(SLURM_LOCAL, "up")
        self.assertEqual(status, 1)
        self.assertIn("is up already", text)
        self.assertEqual(self.slurm("sinfo", "-h", "-o", "%D").strip(), "4")


class UpAndDown(unittest.TestCase):
    def setUp(self):
        self.scratch = Scratch()
        self.addCleanup(self.scratch.holder.cleanup)
        self.addCleanup(self.scratch.run, SLURM_LOCAL, "down")

    def assert_refused(self, words, *arguments, status=1):
        ended, text = self.scratch.run(*arguments)
        self.assertEqual(ended, status, text)
        self.assertIn(words, text)
        self.assertEqual(self.scratch.left(), [])

    def test_wrong_use_is_refused_in_words(self):
        self.assert_refused("no Slurm is up", SLURM_LOCAL, "run", "--", "sinfo")
        self.assert_refused("no Slurm is up", SLURM_LOCAL, "env")
        self.assert_refused("need up, run, env or down, got 'start'", SLURM_LOCAL, "start")
        self.assert_refused("from 1 to 16, got '17'", SLURM_LOCAL, "up", "--nodes", "17")
        self.assert_refused("unknown option '--node'", SLURM_LOCAL, "up", "--node", "2")
        self.assert_refused("run needs '-- COMMAND'", SLURM_LOCAL, "run", "sinfo")
        self.assert_refused("too long for sockets", "env", f"TMPDIR={self.scratch.path}/{'deep' * 10}", SLURM_LOCAL,
                            "up")
        self.assert_refused("need root", "setpriv", "--reuid", "65534", "--clear-groups", "bash", SLURM_LOCAL, "up")

    def test_down_ends_running_jobs_and_leaves_nothing(self):
        self.assertEqual(self.scratch.run(SLURM_LOCAL, "up", "--nodes", "2")[0], 0)
        job = self.scratch.start(SLURM_LOCAL, "run", "--", "srun", "-N2", "-n2", "sleep", "600")
        wait_until(lambda: any("sleep" in pathlib.Path(f"/proc/{pid}/comm").read_text()
                               for pid in processes_of(self.scratch.path)),
                   "the start of a job")
        self.assertEqual(self.scratch.run(SLURM_LOCAL, "down")[0], 0)
        self.assertEqual(self.scratch.left(), [])
        job.communicate(timeout=REFUSAL_SECONDS)
        self.assertNotEqual(job.returncode, 0)
        self.assertEqual(self.scratch.run(SLURM_LOCAL, "down")[0], 0)

    def test_interrupted_up_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            up = self.scratch.start("env", "--default-signal=INT", SLURM_LOCAL, "up")
            wait_until(lambda: processes_of(self.scratch.path), "the first daemon")
            up.send_signal(number)
            text = up.communicate(timeout=RUN_SECONDS)[0]
            self.assertEqual(up.returncode, 130, text)
            self.assertEqual(self.scratch.left(), [], text)


if __name__ == "__main__":
    reason = reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
