"""PyTorch's own torchrun starts the ranks; scripts/setup --interop installs it."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from gpt_runs import GptTest, TRAINING
from program_runs import PROGRAM, RUN_SECONDS, free_port, losses, tensors

PYTHON = next(pathlib.Path(__file__).parents[2].glob(".deps/torch-*-cuda/bin/python"), None)
STEPS = 120
RUN = [*TRAINING, "--grid", "2x1x1x2", "--save-every", "10", "--steps", str(STEPS)]


@unittest.skipUnless(PYTHON, "no PyTorch in .deps (scripts/setup --interop)")
class Torchrun(GptTest):
    def agent(self, out, *options):
        command = [PYTHON, "-m", "torch.distributed.run", "--no-python", *options,
                   PROGRAM, "train", "--data", self.text, "--out", out, *RUN, "--resume", "auto"]
        agent = subprocess.Popen([str(word) for word in command], cwd=self.directory, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, agent)
        return agent

    def end(self, agent):
        if agent.poll() is None:
            agent.terminate()
        agent.wait(RUN_SECONDS)
        agent.stdout.close()

    def finish(self, *agents):
        for agent in agents:
            text, _ = agent.communicate(timeout=RUN_SECONDS)
            self.assertEqual(agent.returncode, 0, text)

    def assert_same(self, out):
        run, whole = self.directory / out, self.train("whole", *RUN, ranks=4, launcher="ranks")
        self.assertEqual(losses(run), losses(whole))
        self.assertTrue(tensors(whole, STEPS))
        self.assertTrue(tensors(run, STEPS) == tensors(whole, STEPS))

    def test_one_agent(self):
        self.finish(self.agent("run", "--nproc-per-node", "4", "--master-port", free_port()))
        self.assert_same("run")

    def test_two_agents_that_meet(self):
        both = ["--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                f"127.0.0.1:{free_port()}", "--rdzv-id", "7", "--local-addr", "127.0.0.1"]
        self.finish(self.agent("run", *both), self.agent("run", *both))
        self.assert_same("run")

    def test_a_restart_by_torchrun_goes_on(self):
        agent = self.agent("run", "--nproc-per-node", "4", "--max-restarts", "1", "--master-port", free_port())
        deadline = time.monotonic() + RUN_SECONDS
        while not any((self.directory / "run").glob("step-??????")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        children = subprocess.run(["pgrep", "-P", str(agent.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(children[2]), signal.SIGKILL)
        self.finish(agent)
        self.assert_same("run")


if __name__ == "__main__":
    unittest.main()
