"""A step of the UNet asks of the GPU what docs/gpu.md says."""
import unittest

from dry_gpu import OWN_KERNELS, TOP, DryTest, environment

CONFIG = TOP / "configs" / "unet-cifar.toml"
STEP = ["--config", CONFIG, "--synthetic-images", 128, "--batch", 64, "--sample-every", 0, "--count", 1,
        "--sampling-steps", 2]
SMALL = ["--base", 32, "--multipliers", "1,2", "--blocks", 1, "--batch", 4, "--synthetic-images", 64]


class DryUnetTest(DryTest):
    def test_step(self):
        record, events = self.counts_of_a_step("UNet 53M, 64 images", *STEP)
        self.assert_no_wait(record, events)

    def test_own_kernels(self):
        record, events = self.counts_of_a_step("UNet 53M, 64 images, own kernels", *STEP, *OWN_KERNELS)
        self.assert_no_wait(record, events)

    def small(self, flag):
        self.on_dry_gpu("train", *SMALL, "--steps", 2, "--out", "kernels", flag)

    def test_steps_as_graphs(self):
        for own, noise in (([], 0), (OWN_KERNELS, 1)):
            with self.subTest(kernels=own):
                self.assert_steps_are_graphs(*SMALL, "--ema", 0.99, "--dropout", 0.1, "--validate-every", 0,
                                             "--sample-every", 0, "--count", 1, "--sampling-steps", 2,
                                             *own, kernels=noise)

    def test_steps_as_graphs_need_no_host(self):
        for flags in (["--importance"], ["--activation-offload", "--activation-checkpoint", 1]):
            ended = self.run_program("train", *SMALL, "--device", "cuda", "--cuda-graph", *flags, "--out", "no",
                                     environment=environment())
            self.assert_refused(ended, f"leave {flags[0]} out")

    def test_deterministic_kernels(self):
        """LibTorch refuses an operation that has no such kernel."""
        self.small("--deterministic")

    def test_measured_convolutions(self):
        self.small("--cudnn-benchmark")


if __name__ == "__main__":
    unittest.main()
