"""The same run, however its ranks were started and found each other."""
import os
import pathlib
import subprocess
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import HAS_MPI, free_port, metrics

RANKS = 4


def by_ranks(rank):
    return {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}


def by_slurm(rank):
    # Two tasks per node, as of `srun -N2 -n4 --mpi=none`; here both names are this machine's.
    return {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(RANKS), "SLURM_LOCALID": str(rank % 2),
            "SLURM_NODEID": str(rank // 2), "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
            "SLURM_STEP_NODELIST": "localhost,other", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"}


def by_pmi(rank):
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(RANKS)}


class Launchers(GptTest):
    def losses(self, out, launcher, **options):
        run = self.train(out, "--grid", "2x1x1x2", "--steps", "3", ranks=RANKS, launcher=launcher, **options)
        self.assertFalse(list(self.directory.glob("meeting*")), "a file is left")
        return [line["loss"] for line in metrics(run)]

    def test_every_start_gives_the_same_losses(self):
        meeting = {"AXONN_INIT_FILE": str(self.directory / "meeting")}
        starts = {
            "addresses": lambda: self.losses("tcp", "tcp"),
            "--ranks": lambda: self.losses("ranks", "ranks"),
            "a file": lambda: self.losses("file", by_ranks, environment=meeting),
            "srun": lambda: self.losses("srun", by_slurm),
            "PMI and a file": lambda: self.losses("pmi", by_pmi, environment=meeting),
            "PMI and an address": lambda: self.losses("pmi-address", by_pmi, environment={
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}),
        }
        if HAS_MPI:
            starts["mpirun"] = lambda: self.losses("mpi", "mpi")
        expected = None
        for name, start in starts.items():
            with self.subTest(name):
                losses = start()
                self.assertEqual(len(losses), 3)
                expected = expected or losses
                self.assertEqual(losses, expected)

    def test_a_file_of_a_dead_job_does_no_harm(self):
        meeting = self.directory / "meeting"
        meeting.write_text(f"axonn job 1\nport {free_port()}\nsecret 00\nhost 127.0.0.1\nend\n")
        self.losses("file", by_ranks, environment={"AXONN_INIT_FILE": str(meeting)})

    # torchrun's agent: a process with a store at MASTER_PORT.
    def test_torchrun(self):
        agent = subprocess.Popen([os.environ["AXONN_AGENT_STORE"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            port = agent.stdout.readline().decode().strip()
            torchrun = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True",
                        "TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": str(RANKS)}
            for restart in ("0", "1"):
                with self.subTest(restart=restart):
                    self.losses(f"torchrun-{restart}", by_ranks,
                                environment=torchrun | {"TORCHELASTIC_RESTART_COUNT": restart})
        finally:
            agent.stdin.close()
            agent.wait()
            agent.stdout.close()

    def test_processes_that_cannot_meet_are_refused(self):
        arguments = ["train", "--data", self.text, "--out", "run", *TRAINING]
        self.refuse(*arguments, environment=by_pmi(0), words=["this is process 0 of 4", "AXONN_INIT_FILE"])
        self.refuse(*arguments, environment={"SLURM_STEP_NUM_TASKS": "4"}, words=["SLURM_PROCID does not say which"])
        missing = pathlib.Path("missing") / "meeting"
        self.refuse(*arguments, environment=by_ranks(0) | {"AXONN_INIT_FILE": str(missing)},
                    words=["cannot write missing/meeting", "AXONN_INIT_FILE"])


if __name__ == "__main__":
    unittest.main()
