"""axonn-checkpoint: looks at checkpoints of `gpt`, and writes their tensors for other programs."""
import json
import os
import pathlib
import struct
import subprocess
import unittest

from gpt_runs import GptTest
from program_runs import NIGHT, needs_mpi

CHECKPOINT = pathlib.Path(os.environ["AXONN_CHECKPOINT"])


def read_safetensors(path):
    """(type, shape, bytes) by name, as the format's specification says."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


class CheckpointProgram(GptTest):
    def checkpoint(self, *arguments, status=0):
        ended = subprocess.run([str(word) for word in (CHECKPOINT, *arguments)], cwd=self.directory, text=True,
                               capture_output=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def assert_says(self, text, *words):
        for word in words:
            self.assertIn(word, text)

    @needs_mpi
    def test_whole_tensors_do_not_depend_on_the_grid_that_wrote_them(self):
        files = set()
        night = (("2x2x1x1", 4), ("1x1x2x2", 4)) if NIGHT else ()
        for grid, ranks in (("1x1x1x1", 1), ("2x1x2x1", 4), ("1x2x1x2", 4), ("1x1x3x1", 3), *night):
            run = self.train(f"on-{grid}", "--grid", grid, "--steps", "1", "--learning-rate", "0",
                             "--batch", "12", ranks=ranks)
            out = self.directory / f"{grid}.safetensors"
            self.assert_says(self.checkpoint("export", run, "--out", out), out.name, "tensors")
            files.add(out.read_bytes())
        self.assertEqual(len(files), 1)
        self.assert_says(self.checkpoint("diff", "on-2x1x2x1", "on-1x1x3x1", "--group", "weights"), " 0 beyond")
        self.assert_says(self.checkpoint("diff", "on-2x1x2x1", "1x1x1x1.safetensors"), " 0 beyond")

    def test_exported_types_and_shards(self):
        run = self.train("run", "--steps", "2")
        self.checkpoint("export", run, "--out", "whole.safetensors")
        whole = read_safetensors(self.directory / "whole.safetensors")
        self.assertIn("h.0.attn.qkv.weight", whole)
        self.assertEqual({entry[0] for entry in whole.values()}, {"F32"})
        self.assert_says(self.checkpoint("export", run, "--out", "whole.safetensors", status=2),
                         "whole.safetensors exists", "--overwrite")
        self.checkpoint("export", run, "--out", "whole.safetensors", "--overwrite")

        self.assert_says(self.checkpoint("export", run, "--out", "parts.safetensors", "--shard-size", "4k"),
                         "parts.safetensors.index.json")
        index = json.loads((self.directory / "parts.safetensors.index.json").read_text())
        self.assertGreater(len(set(index["weight_map"].values())), 2)
        parts = {}
        for file in set(index["weight_map"].values()):
            parts |= read_safetensors(self.directory / file)
        self.assertEqual(parts, whole)
        self.assert_says(self.checkpoint("diff", "parts.safetensors.index.json", run), " 0 beyond")

        self.checkpoint("export", run, "--out", "half.safetensors", "--dtype", "bf16")
        for name, (dtype, shape, half) in read_safetensors(self.directory / "half.safetensors").items():
            self.assertEqual((dtype, shape), ("BF16", whole[name][1]))
            for i, (bits,) in enumerate(struct.iter_unpack("<I", whole[name][2])):
                rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF  # to nearest, ties to even
                self.assertEqual(struct.unpack_from("<H", half, 2 * i)[0], rounded, name)
        self.assert_says(self.checkpoint("diff", run, "half.safetensors", status=1), "of max abs(b)", "h.0.")
        self.checkpoint("diff", run, "half.safetensors", "--tolerance", "0.01")
        moments = self.checkpoint("export", run, "--out", "m.safetensors", "--group", "adam.m")
        self.assert_says(moments, f"{len(whole)} tensors")

    def test_what_a_checkpoint_holds(self):
        run = self.train("run", "--steps", "4", "--save-every", "2")
        self.assert_says(self.checkpoint("ls", run), "step-000002", "step-000004", "1x1x1x1", "| complete |")
        self.assert_says(self.checkpoint("show", run), "step 4, 4 updates", "| weights |", "| adam.m |", "F32")
        self.assert_says(self.checkpoint("show", run / "step-000002", "--tensors", "--configuration"), "step 2",
                         '"hidden": 16', "| weights/h.0.attn.qkv.weight | [48, 16] | F32 |")
        self.assert_says(self.checkpoint("verify", run), "step-000002: whole", "step-000004: whole")
        self.assert_says(self.checkpoint("diff", run / "step-000002", run / "step-000004", status=1), "adam.v/")

        shard = next((run / "step-000004").glob("*.safetensors"))
        content = bytearray(shard.read_bytes())
        content[-5] ^= 1
        shard.write_bytes(content)
        self.assert_says(self.checkpoint("ls", run), "/step-000002 |", "| complete |")
        self.assert_says(self.checkpoint("ls", "--verify", run, status=1), "| whole |", "| broken: ", shard.name)
        self.assert_says(self.checkpoint("verify", run, status=1), "step-000002: whole", "step-000004: broken",
                         shard.name)
        for arguments in (["export", run, "--out", "broken.safetensors"], ["diff", run, run / "step-000002"],
                          ["export", run, "--out", "broken.safetensors", "--shard-size", "4k"],
                          ["export", run, "--out", "broken.safetensors", "--group", "adam.m"]):
            self.assert_says(self.checkpoint(*arguments, status=1), "is broken: its checksum is", shard.name,
                             "step-000002")
        self.assertEqual([path.name for path in self.directory.iterdir() if path.name.startswith("broken")], [])
        shard.write_bytes(content[:-100])
        self.assert_says(self.checkpoint("ls", run, status=1), "broken: ", shard.name)

    def test_refusals(self):
        run = self.train("run", "--steps", "1")
        for words, arguments in (
                (["there is no nowhere"], ["show", "nowhere"]),
                (["there is no directory nowhere"], ["verify", "nowhere"]),
                (["has no tensors of group 'emma'", "weights"], ["show", run, "--group", "emma"]),
                (["must end in .safetensors"], ["export", run, "--out", "model.pt"]),
                (["--dtype must be fp64, fp32, fp16 or bf16, got 'fp8'"],
                 ["export", run, "--out", "m.safetensors", "--dtype", "fp8"]),
                (["--shard-size"], ["export", run, "--out", "m.safetensors", "--shard-size", "many"])):
            with self.subTest(arguments[0], words=words):
                self.assert_says(self.checkpoint(*arguments, status=2), "axonn-checkpoint: error: ", *words)
        self.assertFalse((self.directory / "m.safetensors").exists())
        part = next((self.directory / "run").rglob("*.safetensors"))
        for command in (["export", part, "--out", "m.safetensors"], ["show", part], ["diff", part, run]):
            with self.subTest(command[0]):
                self.assert_says(self.checkpoint(*command, status=2), "is a part of the checkpoint step-000001",
                                 "name the folder")
        beside = part.with_name("whole.safetensors")
        self.checkpoint("export", run, "--out", beside)
        self.checkpoint("show", beside)
        self.checkpoint("export", run, "--out", "m.safetensors")
        self.assert_says(self.checkpoint("show", "m.safetensors", "--group", "weights", status=2), "without groups")

    def test_a_number_that_is_too_large_for_the_type(self):
        tensor = struct.pack("<3f", 1.0, -1e6, float("inf"))
        header = json.dumps({"large": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
        header += b" " * (-len(header) % 8)
        (self.directory / "large.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + tensor)
        self.assert_says(self.checkpoint("export", "large.safetensors", "--out", "m.safetensors", "--dtype", "fp16",
                                         status=2), "large has numbers that are too large for F16", "1000000")
        self.assertFalse((self.directory / "m.safetensors").exists())
        self.checkpoint("export", "large.safetensors", "--out", "m.safetensors", "--dtype", "bf16")


if __name__ == "__main__":
    unittest.main()
