"""The five commands of docs/tutorial-text.md: on pages of the documentation, and every night on Debian's linux-doc."""
import gzip
import json
import pathlib
import shlex
import subprocess
import sys
import unittest

from program_runs import ProgramTest, metrics, nightly

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/tutorial-text.md"
SMALL = {"--train-bpe 16000": "--train-bpe 500", "--layers 6": "--layers 2", "--hidden 256": "--hidden 64",
         "--heads 8": "--heads 4", "--sequence 256": "--sequence 64", "--batch-tokens 16384": "--batch-tokens 2048",
         "--tokens 10M": "--tokens 160k", "--warmup 50": "--warmup 5", "--learning-rate 1e-3": "--learning-rate 1e-2"}
NIGHT = {"--batch-tokens 16384": "--batch-tokens 4096", "--tokens 10M": "--tokens 500k"}
NAMES = ["tokenize", "train", "eval", "generate", "export"]


def commands(changes):
    """The commands of the page by their names, each as a list of words."""
    sys.path.insert(0, str(ROOT / "scripts/checks"))
    import markdown
    (block,) = [block for block in markdown.Page(ROOT, ROOT / PAGE).blocks if block.info == ["sh"]]
    text = block.text.replace("\\\n", " ")
    for old, new in changes.items():
        assert text.count(old + " ") + text.count(old + "\n") == 1, old
        text = text.replace(old, new)
    lines = [shlex.split(line) for line in text.splitlines()]
    assert all(words[0] == "build/release/bin/gpt" for words in lines), lines
    assert [words[1] for words in lines] == NAMES, lines
    return {words[1]: words[1:] for words in lines}


class Tutorial(ProgramTest):
    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def take_pages(self):
        for page in sorted((ROOT / "docs").glob("*.md")):
            self.write(self.directory / ("held" if page.name == "terms.md" else "texts") / page.name, page.read_bytes())

    def take_linux_doc(self):
        """Every 50th file is held out."""
        fetch = ("apt-get download -q $(apt-cache depends linux-doc | sed -n 's/ *Depends: //p') && "
                 "dpkg-deb -x linux-doc-*.deb unpacked")
        fetched = subprocess.run(fetch, shell=True, cwd=self.directory, capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            self.skipTest(f"Debian's linux-doc cannot be had here: {fetched.stderr.strip()[-200:]}")
        files = [path for path in sorted((self.directory / "unpacked/usr/share/doc").rglob("*"))
                 if path.is_file() and not path.is_symlink() and "html" not in path.parts]
        for number, path in enumerate(files):
            text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            self.write(self.directory / ("texts" if number % 50 else "held") / f"{number:05}.txt", text)
        size = sum(path.stat().st_size for path in (self.directory / "texts").iterdir())
        self.assertGreater(size, 40_000_000, "linux-doc has another layout than expected")

    def run_words(self, words, seconds):
        ended = self.run_program(*words, seconds=seconds)
        self.assertEqual(ended.status, 0, f"{words}: {ended.text}")
        return ended.out

    def go_through(self, changes, vocabulary, falls, seconds=100):
        """`falls`: by how many nats per token the loss does at least."""
        out = {name: self.run_words(words, seconds) for name, words in commands(changes).items()}
        summary = json.loads((self.directory / "data/mine.json").read_text())
        self.assertEqual(summary["vocabulary"], vocabulary)
        lines = metrics(self.directory / "runs/mine")
        self.assertLess(lines[-1]["loss"], lines[0]["loss"] - falls)
        self.assertIn("validation_bits_per_byte", lines[-1])
        self.assertRegex(out["train"], r"bpb [\d.]+ .*tok  epoch [\d.]+")
        self.assertRegex(out["eval"], r"bits per byte +\d\.\d")
        self.assertTrue(out["generate"].startswith("The kernel"), out["generate"])
        for file in ("config.json", "model.safetensors", "tokenizer.json"):
            self.assertTrue((self.directory / "my-model" / file).is_file(), file)
        judged = [json.loads(self.run_words(["eval", model, "--data", "held", "--limit", "20", "--json"], seconds))
                  for model in ("runs/mine", "my-model")]
        self.assertAlmostEqual(judged[1]["loss"] / judged[0]["loss"], 1, delta=1e-5)
        self.assertLess(judged[0]["bits_per_byte"], 6)

    def test_on_a_small_text(self):
        self.take_pages()
        self.go_through(SMALL, vocabulary=500, falls=0.5)

    @nightly
    def test_on_fifty_megabytes(self):
        self.take_linux_doc()
        self.go_through(NIGHT, vocabulary=16000, falls=1.5, seconds=2400)


if __name__ == "__main__":
    unittest.main()
