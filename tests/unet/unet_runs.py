"""Runs of `unet` for the tests in this folder."""
from program_runs import ProgramTest

# Small enough that a step takes milliseconds; channels divide by 2 and by 4.
NETWORK = ["--image", "8", "--base", "8", "--multipliers", "1", "2", "--blocks", "1", "--attention", "4",
           "--heads", "2", "--groups", "4"]
TRAINING = NETWORK + ["--gemm", "mm", "--synthetic-images", "100", "--batch", "8", "--warmup", "2",
                      "--validate-every", "0", "--save-every", "0", "--count", "4", "--sampling-steps", "4",
                      "--validation-images", "4"]


class UnetTest(ProgramTest):
    def unet(self, *arguments, **options):
        return self.run_program(*arguments, **options)

    def train(self, out, *arguments, **options):
        """Trains, which must succeed. Returns the directory of the run."""
        ended = self.unet("train", "--out", out, *TRAINING, *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return self.directory / out

    def sample(self, run, out, *arguments, **options):
        """Draws images, which must succeed. Returns the bytes of the sheet."""
        ended = self.unet("sample", "--checkpoint", run, "--count", "6", "--sampling-steps", "4", "--out", out,
                          *arguments, **options)
        self.assertEqual(ended.status, 0, ended.text)
        return (self.directory / out).read_bytes()
