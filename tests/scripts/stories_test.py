"""The stories that scripts/demo trains a model on."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["AXONN_SOURCE"]) / "scripts/lib/stories.py"
GOES_OVER = re.compile(r'"This is for you,"|gave it away|traded\.|agreed\.|ran after it|said nothing\.')


def stories(count):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "stories.jsonl"
        subprocess.run([sys.executable, SCRIPT, str(count), path], check=True)
        return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


class Stories(unittest.TestCase):
    def test_are_the_same_each_time(self):
        self.assertEqual(stories(50), stories(50))

    def test_end_with_who_has_the_thing(self):
        for text in stories(500):
            thing = re.search(r"(?:found|lay|held up) an? (\w+ \w+)", text)[1]
            first, second = re.findall(r"([A-Z]\w\w+) the \w+", text)[:2]
            owner = re.search(rf"(\w+) (?:had|went to sleep beside) the {thing}, and", text)[1]
            self.assertEqual(owner, (first, second)[len(GOES_OVER.findall(text)) % 2], text)


if __name__ == "__main__":
    unittest.main()
