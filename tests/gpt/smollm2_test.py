"""A real pretrained network, SmolLM2-135M, says what transformers says: on several grids, with and
without a cache. It is trained further and becomes a directory again."""
import json
import pathlib
import unittest

from gpt_runs import GptTest
from hugging_face_test import ORACLES
from program_runs import NIGHT, losses, needs_mpi
from transformers_export_test import CONTINUE, said_by

MODEL = pathlib.Path(__file__).resolve().parents[2] / ".deps/smollm2-135m"
EXPECTED = ORACLES / "smollm2_135m"
SHAKESPEARE = ORACLES.parent / "tinyshakespeare.txt"


@unittest.skipUnless((MODEL / "config.json").exists(), f"needs {MODEL} (scripts/setup --interop)")
@unittest.skipUnless(EXPECTED.exists(), f"needs {EXPECTED}")
class SmolLM2(GptTest):
    def ended(self, *arguments, ranks=1):
        ended = self.gpt(*map(str, arguments), ranks=ranks)
        self.assertEqual(ended.status, 0, ended.text)
        return ended

    @needs_mpi
    def test_writes_the_most_likely_tokens(self):
        texts = json.loads((EXPECTED / "greedy.json").read_text())
        cases = [("1x1x1x1", 1, ()), ("3x1x1x1", 3, ()), ("1x2x1x1", 2, ())]
        if NIGHT:
            cases += [(grid, ranks, ("--no-cache",)) for grid, ranks, _ in cases]
        for grid, ranks, flags in cases:
            for text in texts if grid == "1x1x1x1" else texts[:1]:
                with self.subTest(grid=grid, prompt=text["prompt"], flags=flags):
                    prompt = ",".join(map(str, text["prompt_ids"]))
                    ended = self.ended("generate", MODEL, "--ids", prompt, "--tokens", len(text["new_ids"]),
                                       "--temperature", "0", "--grid", grid, *flags, ranks=ranks)
                    ids = [int(word) for word in ended.out.split(",")]
                    self.assertEqual(ids, text["prompt_ids"] + text["new_ids"])

    def test_writes_text(self):
        for text in json.loads((EXPECTED / "greedy.json").read_text()):
            ended = self.ended("generate", MODEL, "--prompt", text["prompt"], "--tokens", len(text["new_ids"]),
                               "--temperature", "0", "--ignore-eos")
            self.assertEqual(ended.out, text["prompt"] + text["text"] + "\n")

    @unittest.skipUnless(SHAKESPEARE.exists(), f"needs {SHAKESPEARE}")
    def test_costs_the_bits_of_the_reference(self):
        """4096 tokens in 8 windows of 512."""
        with open(SHAKESPEARE, encoding="utf-8") as text:
            (self.directory / "text.txt").write_text(text.read(40000))
        ended = self.ended("eval", MODEL, "--data", "text.txt", "--sequence", "512", "--limit", "8", "--json")
        found = json.loads(ended.out)
        self.assertAlmostEqual(found["bits_per_byte"], 1.63225, delta=1e-4)
        self.assertAlmostEqual(found["loss"], 3.84301, delta=1e-4)

    @needs_mpi
    @unittest.skipUnless(SHAKESPEARE.exists(), f"needs {SHAKESPEARE}")
    def test_learns_on_its_own_tokens_and_goes_on_elsewhere(self):
        """One part of a block every day; all of it in 50 steps every night, read by transformers."""
        steps, half = (50, 25) if NIGHT else (4, 2)
        part = () if NIGHT else ("--train", "layers.29.*down_proj")
        with open(SHAKESPEARE, encoding="utf-8") as text:
            (self.directory / "text.txt").write_text(text.read(100000))
        flags = ("--data", "text.txt", "--sequence", "32", "--batch", "4", "--warmup", "0", "--validate-every", "0",
                 "--learning-rate", "1e-4", *part)
        self.ended("train", "--from", MODEL, *flags, "--steps", steps, "--save-every", half, "--out", "run", "--grid",
                   "1x2x2x1", ranks=4)
        before = losses(self.directory / "run")
        means = [sum(float(loss) for step, loss in before.items() if step in part) / half
                 for part in (range(1, half + 1), range(half + 1, steps + 1))]
        self.assertEqual((self.directory / "run/origin/tokenizer.json").read_bytes(),
                         (MODEL / "tokenizer.json").read_bytes())
        self.ended("train", "--resume", f"run/step-{half:06}", "--out", "other", "--grid", "3x1x1x1", ranks=3)
        after = losses(self.directory / "other")
        self.assertEqual(len(after), steps - half)
        for step, loss in after.items():
            self.assertAlmostEqual(float(loss), float(before[step]), delta=1e-4 * float(loss))
        self.ended("export", "run", "--out", "out")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((self.directory / "out" / name).read_bytes(), (MODEL / name).read_bytes())
        texts = [self.ended("generate", model, "--prompt", "First Citizen:", "--tokens", "8", "--temperature", "0").out
                 for model in ("run", "out")]
        self.assertEqual(*texts)
        (self.directory / "run/origin/tokenizer.json").write_bytes(b"{}")
        self.refuse("generate", "run", words=["origin"])
        if NIGHT:
            self.assertLess(means[1], means[0])
            ids = self.ended("generate", "out", "--ids", "100,200,300", "--tokens", "8", "--temperature", "0",
                             "--ignore-eos").out
            self.assertEqual([int(word) for word in ids.split(",")],
                             said_by(CONTINUE, self.directory / "out", "[100, 200, 300]", 8, "")["ids"])

    def test_answers_questions(self):
        expected = json.loads((EXPECTED / "choices_expected.json").read_text())
        ended = self.ended("eval", MODEL, "--choices", EXPECTED / "choices.bin", "--json")
        found = json.loads(ended.out)
        self.assertEqual(found["questions"], 10)
        self.assertAlmostEqual(found["acc"], expected["acc"] / 10)
        self.assertAlmostEqual(found["acc_norm_token"], expected["acc_norm_per_token"] / 10)


if __name__ == "__main__":
    unittest.main()
