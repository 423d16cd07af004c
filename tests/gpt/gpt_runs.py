"""Runs of `gpt` for the tests in this folder, tests/errors and tests/slurm."""
from program_runs import ProgramTest

# Small enough that a step takes milliseconds; every size divides by 2.
NETWORK = ["--layers", "2", "--hidden", "16", "--heads", "4", "--sequence", "16"]
TRAINING = NETWORK + ["--gemm", "mm", "--batch", "8", "--warmup", "2", "--learning-rate", "0.01",
                      "--validate-every", "0", "--save-every", "0"]


class GptTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.text = self.directory / "text.txt"
        self.text.write_text("".join(f"line {i} of a text, {i * i % 97} and {i * 7 % 31}\n" for i in range(300)))

    def gpt(self, *arguments, **options):
        return self.run_program(*arguments, **options)

    def train(self, out, *arguments, **options):
        """Trains, which must succeed. Returns the directory of the run."""
        ended = self.gpt("train", "--data", self.text.name, "--out", out, *TRAINING, *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return self.directory / out
