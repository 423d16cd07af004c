"""bench/gpu_switches: on a CPU no kernel changes a bit; on the dry GPU each switch is switched on and off."""
import json
import math
import unittest

from dry_gpu import FOLDER, Record, environment
from program_runs import ProgramTest

GPT = ["gpt", "--layers", 2, "--hidden", 64, "--heads", 2, "--sequence", 32, "--vocab", 5000, "--batch", 4]
UNET = ["unet", "--image", 16, "--base", 32, "--multipliers", "1,2", "--blocks", 1, "--batch", 4]
# A word in the names of the kernels that a switch launches, and of no others.
KERNELS = {"gpt": {"cross-entropy": "LogitRows", "embedding": "TokenGradients", "layer-norm": "LayerNormRows",
                   "adamw": "update_adamw"},
           "unet": {"group-norm": "NormedImages", "adamw": "update_adamw", "tail": "TailRows",
                    "device-noise": "DeviceNoise"}}


class GpuSwitchesTest(ProgramTest):
    def lines(self, *arguments, **more):
        ended = self.run_program(*arguments, environment=more)
        self.assertEqual(ended.status, 0, ended.text)
        return [json.loads(line) for line in ended.out.splitlines()]

    def on_dry_gpu(self, *arguments):
        path = self.directory / "record"
        return self.lines(*arguments, **environment(path)), Record(path)

    def test_kernels_change_no_bit_on_a_cpu(self):
        for network in (GPT, UNET):
            lines = self.lines("losses", *network, "--steps", 3, "--dtype", "fp64,bf16", "--kernels", "none", "all",
                               "--device", "cpu", LD_LIBRARY_PATH=str(FOLDER / "lib"))
            self.assertEqual([(line["dtype"], line["kernels"]) for line in lines],
                             [("fp64", "none"), ("fp64", "all"), ("bf16", "none"), ("bf16", "all")])
            for off, on in (lines[:2], lines[2:]):
                self.assertEqual(off["losses"], on["losses"])
                self.assertEqual(len(off["losses"]), 3)
                self.assertTrue(all(map(math.isfinite, off["losses"])))
            self.assertNotEqual(lines[0]["losses"], lines[2]["losses"])

    def test_losses_on_the_dry_gpu(self):
        lines, _ = self.on_dry_gpu("losses", *GPT, "--steps", 3, "--dtype", "fp32,bf16")
        self.assertEqual([(line["dtype"], line["kernels"]) for line in lines],
                         [("fp32", "none"), ("fp32", "all"), ("bf16", "none"), ("bf16", "all")])

    def test_fp16_is_refused(self):
        for command in ("losses", "time"):
            ended = self.run_program(command, *GPT, "--dtype", "fp16", "--device", "cpu",
                                     environment={"LD_LIBRARY_PATH": str(FOLDER / "lib")})
            self.assertEqual(ended.status, 1, ended.text)
            self.assertIn("needs a loss scale", ended.text)

    def test_each_switch_in_turn(self):
        for network in (GPT, UNET):
            with self.subTest(network[0]):
                lines, record = self.on_dry_gpu("time", *network, "--steps", 2, "--warmup", 1)
                names = [line["switch"] for line in lines]
                self.assertGreaterEqual(set(names), set(KERNELS[network[0]]))
                launched = [name for name, *_ in record.of_kind("kernel")]
                for switch, kernel in KERNELS[network[0]].items():
                    times = sum(kernel in name for name in launched)
                    self.assertGreater(times, 0, switch)
                    steps = 2 if switch == "device-noise" else 3  # samples are prepared a step ahead
                    self.assertEqual(times % steps, 0, f"{switch}: in the steps with it, and in no other")

    def test_all_at_once(self):
        [line], record = self.on_dry_gpu("time", *GPT, "--steps", 2, "--warmup", 1, "--only", "all")
        self.assertEqual(line["switch"], "all")
        self.assertGreater(line["product_tflops"], 0)
        launched = [name for name, *_ in record.of_kind("kernel")]
        for kernel in KERNELS["gpt"].values():
            self.assertTrue(any(kernel in name for name in launched), kernel)

    def test_unknown_switches_are_refused(self):
        ended = self.run_program("time", *GPT, "--only", "adamv", environment=environment())
        self.assertNotEqual(ended.status, 0)
        self.assertIn("did you mean 'adamw'?", ended.text)


if __name__ == "__main__":
    unittest.main()
