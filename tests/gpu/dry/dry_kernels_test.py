"""cuda_kernels_test on the dry GPU: it starts, and launches each kernel of ours, which does not run there."""
import collections
import json
import re
import subprocess
import unittest

import dry_gpu
import program_runs

# Launches by file and kernel. A case that is added or lost changes them.
LAUNCHES = {
    "adamw_pass/update_adamw": 24,
    "cross_entropy_rows/backward": 72,
    "cross_entropy_rows/forward": 77,
    "device_noise/fill": 8,
    "dropout_mask/fill": 22,
    "embedding_rows/order_tokens": 132,
    "embedding_rows/sum_tokens": 132,
    "group_norm_images/backward": 278,
    "group_norm_images/forward": 278,
    "layer_norm_rows/backward": 102,
    "layer_norm_rows/sum_parts": 102,
    "tail_rows/add": 242,
}


def kernel(name):
    """File and kernel in a name of nvcc's: of an anonymous namespace, which has the file's name."""
    file, length, rest = re.search(r"_GLOBAL__N__[0-9a-f]{8}_\d+_(\w+?)_cu_[0-9a-f]{8}(\d+)(\w+)", name).groups()
    return file, rest[:int(length)]


class DryKernelsTest(program_runs.ProgramTest):
    def launched(self):
        """A run: the program's output, and the names of its launches."""
        record = self.directory / "record"
        ended = self.run_program("--list", environment=dry_gpu.environment(record))
        self.assertEqual(ended.status, 0, ended.text)
        return ended.text, [fields[0] for fields in dry_gpu.Record(record).of_kind("kernel")]

    def test_each_case_is_listed_and_launched(self):
        text, names = self.launched()
        last = text.strip().splitlines()[-1]
        self.assertLessEqual(len(last), 150)
        said = json.loads(last)
        self.assertEqual(said["cases"], len(re.findall("^case: ", text, re.MULTILINE)))
        self.assertEqual(said, {"test": "cuda_kernels_test", "state": "right", "compared": False,
                                "cases": said["cases"], "launches": len(names), "failed": 0})
        counts = collections.Counter("/".join(kernel(name)) for name in names)
        self.assertEqual(dict(sorted(counts.items())), LAUNCHES)

    def test_each_instance_of_a_kernel_is_launched(self):
        symbols = subprocess.run(["nm", program_runs.PROGRAM], capture_output=True, text=True, check=True).stdout
        stubs = re.findall(r" _ZZL?(\d+)(__device_stub_\w+)8__handle$", symbols, re.MULTILINE)  # nvcc's, one each
        instances = {text[:int(length)].removeprefix("__device_stub_") for length, text in stubs}
        self.assertEqual(instances, set(self.launched()[1]))


if __name__ == "__main__":
    unittest.main()
