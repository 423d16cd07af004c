"""Starts the program `gpt` or `unet` as a user would.

CTest sets AXONN_PROGRAM (its file), AXONN_MPIRUN (scripts/mpirun) and AXONN_HAS_MPI (0 or 1)."""
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

PROGRAM = os.environ["AXONN_PROGRAM"]
NAME = pathlib.Path(PROGRAM).name
MPIRUN = os.environ["AXONN_MPIRUN"]
CLUSTER = str(pathlib.Path(MPIRUN).with_name("cluster"))
HAS_MPI = os.environ["AXONN_HAS_MPI"] == "1"

REFUSAL_SECONDS = 10  # after an error all ranks must end within this time
RUN_SECONDS = 100     # a run that hangs fails instead of waiting for CTest
MARK = "AXONN_TEST_MARK"

NIGHT = bool(os.environ.get("AXONN_TEST_NIGHTLY"))  # takes all cases
nightly = unittest.skipUnless(NIGHT, "too long for every day: ctest -L nightly")
needs_mpi = unittest.skipUnless(HAS_MPI, "built without MPI (AXONN_WITH_MPI=OFF)")


def refusal_seconds():
    """From the start of a job that is refused. It has to load LibTorch on all ranks first, 2 s of a core for
    four; a busy machine gives it less than that, and so more time."""
    return REFUSAL_SECONDS * max(1, os.getloadavg()[0] / os.cpu_count())


@dataclasses.dataclass
class Ended:
    status: int
    out: str
    err: str
    seconds: float

    @property
    def text(self):
        return self.out + self.err


def free_port():
    """Not one of those that the kernel gives to other programs before the job listens, seconds later."""
    first_given = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", random.randrange(first_given // 2, first_given)))
                return listener.getsockname()[1]
            except OSError:  # somebody has it
                pass


def processes_where(fits):
    """Other processes with an environment variable, b"NAME=value", for which `fits` is true."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if any(map(fits, (entry / "environ").read_bytes().split(b"\0"))):
                    found.append(int(entry.name))
            except OSError:  # it ended meanwhile
                pass
    return found


def processes_with(mark):
    """Processes that inherited this mark: the launcher, the ranks and their children."""
    return processes_where(lambda variable: variable == f"{MARK}={mark}".encode())


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def is_rank(pid):
    return program_of(pid) == os.path.realpath(PROGRAM)


class Job:
    """A running job. Several ranks run under mpirun, or with launcher="tcp" as processes that find
    each other by RANK and WORLD_SIZE, or with launcher="ranks" by the program's own --ranks, or with
    launcher="hosts" under mpirun on a host of scripts/cluster each, or with launcher="cluster" on hosts
    that are up. A function as launcher gives
    each rank's environment, and `prefix` the command that starts it."""

    def __init__(self, arguments, ranks, launcher, directory, environment, prefix=lambda rank: []):
        self.mark = uuid.uuid4().hex
        self.started = time.monotonic()
        self.processes = []
        base = os.environ | {"OMP_NUM_THREADS": "1", MARK: self.mark} | environment
        if launcher == "tcp":
            base.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
            launcher = lambda rank: {"RANK": str(rank)}
        for rank in range(ranks if callable(launcher) else 1):
            mine = arguments(rank) if callable(arguments) else arguments
            command = ([*prefix(rank), PROGRAM, *mine] if ranks == 1 or callable(launcher)
                       else [*prefix(0), PROGRAM, *mine, "--ranks", str(ranks)] if launcher == "ranks"
                       else [CLUSTER, "run", "--nodes", str(ranks), "--rate", "1gbit", "-n", str(ranks), "--", PROGRAM,
                             *mine] if launcher == "hosts"
                       else [CLUSTER, "run", "-n", str(ranks), "--", PROGRAM, *mine] if launcher == "cluster"
                       else [MPIRUN, "-n", str(ranks), PROGRAM, *mine])
            extra = launcher(rank) if callable(launcher) else {}
            self.processes.append(subprocess.Popen(command, cwd=directory, env=base | extra,
                                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                   stderr=subprocess.PIPE))

    def ranks(self):
        return sorted(pid for pid in processes_with(self.mark) if is_rank(pid))

    def signal(self, number):
        for process in self.processes:
            process.send_signal(number)

    def wait(self, seconds):
        """Returns all output. A job that runs longer than `seconds` is a failure."""
        deadline = time.monotonic() + seconds
        out, err, status = "", "", 0
        try:
            for process in self.processes:
                more_out, more_err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
                out, err = out + more_out.decode(errors="replace"), err + more_err.decode(errors="replace")
                status = status or process.returncode
            while processes_with(self.mark) and time.monotonic() < deadline:
                time.sleep(0.02)
            left = processes_with(self.mark)
            if left:
                raise AssertionError(f"processes {left} are still there {seconds} s later")
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"still running after {seconds} s: {late.cmd}") from None
        finally:
            self.end()
        return Ended(status, out, err, time.monotonic() - self.started)

    def end(self):
        for pid in processes_with(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.wait()
            process.stdout.close()
            process.stderr.close()


class ProgramTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix=f"axonn-{NAME}-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def start(self, *arguments, ranks=1, launcher="mpi", environment=None, **options):
        given = arguments[0] if callable(arguments[0]) else [str(word) for word in arguments]
        return Job(given, ranks, launcher, self.directory, environment or {}, **options)

    def run_program(self, *arguments, seconds=RUN_SECONDS, **options):
        return self.start(*arguments, **options).wait(seconds)

    def files(self):
        """All files below the scratch directory, with their bytes."""
        return {path: path.read_bytes() for path in sorted(self.directory.rglob("*")) if path.is_file()}

    def assert_refused(self, ended, *words, status=None):
        """It ended with one sentence of rank 0 with all these words, without internal output."""
        ours = [line for line in ended.text.splitlines() if f"{NAME}: " in line]
        self.assertEqual(len(ours), 1, ended.text)
        self.assertTrue(ours[0].startswith(f"{NAME}: "), ours[0])
        for word in words:
            self.assertIn(word, ours[0])
        for inside in ("terminate called", "MPI_ABORT", "what():", "Exception raised from", "frame #", "Segmentation",
                       "core dumped", "_M_"):
            self.assertNotIn(inside, ended.text)
        if status is None:
            self.assertIn(ended.status, (1, 2), ended.text)
        else:
            self.assertEqual(ended.status, status, ended.text)

    def refuse(self, *arguments, words, **options):
        """The run must be refused within refusal_seconds() and must not change any file."""
        before = self.files()
        ended = self.run_program(*arguments, seconds=refusal_seconds(), **options)
        self.assert_refused(ended, *words)
        self.assertEqual(self.files(), before)
        return ended


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def steps_done(run):
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def losses(run):
    """Losses by step, as the texts in the file: equal texts are equal bits."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return {json.loads(line)["step"]: re.search(r'"loss":([^,}]+)', line).group(1) for line in lines}


def tensors(run, step):
    """The bytes of every tensor file in a checkpoint."""
    checkpoint = run / f"step-{step:06d}"
    return {path.name: path.read_bytes() for path in sorted(checkpoint.glob("*.safetensors"))}


def wait_for_steps(job, run, steps, seconds=RUN_SECONDS):
    deadline = time.monotonic() + seconds
    while steps_done(run) < steps:
        if time.monotonic() > deadline or all(process.poll() is not None for process in job.processes):
            ended = job.wait(1)
            raise AssertionError(f"no step {steps} in {run}: {ended.text}")
        time.sleep(0.005)
