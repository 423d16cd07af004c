"""The results of the commands of docs/tutorial-text.md: on pages of the documentation, and every night on
Debian's linux-doc."""
import gzip
import json
import pathlib
import subprocess
import sys
import unittest

from program_runs import PROGRAM, ProgramTest, metrics, nightly

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/checks"))
import commands  # noqa: E402
import markdown  # noqa: E402

PAGE = markdown.Page(ROOT, ROOT / "docs/tutorial-text.md")


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

    def follow_page(self, night):
        commands.folder_like(ROOT, pathlib.Path(PROGRAM).parents[1], self.directory)
        for _, status, output in commands.follow(PAGE, ROOT, self.directory, night):
            self.assertEqual(status, 0, output)

    def check_results(self, vocabulary, falls):
        """`falls`: by how many nats per token the loss does at least."""
        summary = json.loads((self.directory / "data/mine.json").read_text())
        self.assertEqual(summary["vocabulary"], vocabulary)
        lines = metrics(self.directory / "runs/mine")
        self.assertLess(lines[-1]["loss"], lines[0]["loss"] - falls)
        self.assertIn("validation_bits_per_byte", lines[-1])
        for file in ("config.json", "model.safetensors", "tokenizer.json"):
            self.assertTrue((self.directory / "my-model" / file).is_file(), file)
        judged = [json.loads(self.evaluated(model)) for model in ("runs/mine", "my-model")]
        self.assertAlmostEqual(judged[1]["loss"] / judged[0]["loss"], 1, delta=1e-5)
        self.assertLess(judged[0]["bits_per_byte"], 6)

    def evaluated(self, model):
        ended = self.run_program("eval", model, "--data", "held", "--limit", "20", "--json")
        self.assertEqual(ended.status, 0, ended.text)
        return ended.out

    def test_on_a_small_text(self):
        self.take_pages()
        self.follow_page(night=False)
        self.check_results(vocabulary=500, falls=0.5)

    @nightly
    def test_on_fifty_megabytes(self):
        self.take_linux_doc()
        self.follow_page(night=True)
        self.check_results(vocabulary=16000, falls=1.5)


if __name__ == "__main__":
    unittest.main()
