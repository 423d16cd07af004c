"""Files and names as others leave them: names that are not UTF-8, what is no text, what a folder holds besides."""
import gzip
import json
import os
import unittest

from gpt_runs import GptTest, TRAINING

CAFE = os.fsdecode(b"caf\xe9")  # Latin-1


class ForeignFiles(GptTest):
    def run_on(self, *data, out="run", arguments=()):
        ended = self.gpt("train", "--data", *data, "--out", out, "--steps", "1", *TRAINING, *arguments)
        self.assertEqual(ended.status, 0, ended.text)
        return ended

    def test_names_that_are_not_utf8(self):
        self.text.rename(self.directory / CAFE)
        out = os.path.join("out", CAFE)
        self.assertIn(r"caf\xE9: read 1 file", self.run_on(CAFE, out=out).err)
        run = self.directory / out
        manifest = json.loads((run / "step-000001" / "manifest.json").read_bytes().decode())
        self.assertEqual(manifest["configuration"]["data"]["data"], ["caf\0e9"])
        json.loads((run / "starts.jsonl").read_bytes().decode())
        json.loads((run / "status.json").read_bytes().decode())
        resumed = self.gpt("train", "--resume", out, "--steps", "2")  # --data comes from the checkpoint
        self.assertEqual(resumed.status, 0, resumed.text)
        self.assertTrue((run / "step-000002").is_dir())
        self.refuse("train", "--data", CAFE + "x", "--out", "o", *TRAINING,
                    words=[r"data path caf\xE9x does not exist"])
        self.refuse("train", "--config", CAFE + "x", words=[r"cannot read the configuration file caf\xE9x"])
        self.refuse("train", "--resume", CAFE + "x", words=[r"caf\xE9x"])

    def test_a_folder_of_everything(self):
        """The data do not change with the run's own files, so it resumes, even beside its data."""
        (self.directory / "self").symlink_to("self")
        (self.directory / "a.txt.gz").write_bytes(gzip.compress(self.text.read_bytes()))
        os.mkfifo(self.directory / "pipe")
        line = ("read 1 file, 10.0 kB; left out 4: gzip a.txt.gz; run of axonn job-1.lock; pipe pipe; "
                "link to itself self")
        self.text.write_text(("x" * 99 + "\n") * 100)
        self.assertIn(line, self.run_on(".", out=".").err)
        resumed = self.gpt("train", "--resume", ".", "--data", ".", "--steps", "2")
        self.assertEqual(resumed.status, 0, resumed.text)
        self.assertIn("read 1 file, 10.0 kB", resumed.err)

    def test_a_named_file_that_is_no_text(self):
        packed, wide = self.directory / "a.txt.gz", self.directory / "wide.txt"
        packed.write_bytes(gzip.compress(self.text.read_bytes()))
        self.refuse("train", "--data", packed.name, "--out", "run", *TRAINING,
                    words=["a.txt.gz is no text, it seems to be gzip; unpack it with gunzip"])
        wide.write_bytes(self.text.read_text().encode("utf-16"))
        self.assertIn("wide.txt is no plain text, it seems to be UTF-16", self.run_on(wide.name).err)


if __name__ == "__main__":
    unittest.main()
