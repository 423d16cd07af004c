"""Random texts beside Hugging Face's tokenizers and OpenAI's tiktoken, which scripts/setup --interop installs,
with vocabularies whose tokens cross the borders of words, so that a border in another place shows."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[3]
LIBRARY, TIKTOKEN = (next((ROOT / ".deps").glob(f"{name}-*/lib/python3*/site-packages"), None)
                     for name in ("transformers", "tiktoken"))
TEXTS = 200_000 if os.environ.get("AXONN_TEST_NIGHTLY") else 3000
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ENDS|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*ENDS|"
         r"\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UNCASED = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PATTERNS = {"llama3": UNCASED.replace("DIGITS", "{1,3}"), "qwen2": UNCASED.replace("DIGITS", ""),
            "o200k": CASED.replace("ENDS", CONTRACTIONS + "?").replace("DIGITS", "{1,3}"),
            "tekken": CASED.replace("ENDS", "").replace("DIGITS", "")}
PARTS = ["the", " a", "ing", "'s", "'LL", "'\u017f", " ", "  ", "\n", "\r\n", "\t", "12", "3456", "\u00e9", "e\u0301",
         "\u0323", "\u0301", "\u4e2d", "\ud55c", "\u1112\u1161\u11ab", "\U0001f600", "\u00a0", "\u2003", "\u0085",
         "\u2581", "_", "//", "==", "A", "HTTPServer", "\u00df", "\u0663", "\u00bd", "\u200b", "\u180e", "\u212b"]


def letters_of_bytes():
    """The byte of each letter in which byte-level BPE writes its tokens: printable bytes as they are, the others
    after U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


LETTERS = letters_of_bytes()


def random_text(source):
    text = ""
    for _ in range(source.randrange(14)):
        choice = source.random()
        if choice < 0.6:
            text += source.choice(PARTS)
        elif choice < 0.95:
            code = source.randrange(0x110000 if choice < 0.7 else 0x3000)
            text += chr(code) if not 0xD800 <= code < 0xE000 else "-"
        else:
            text += source.choice("abc ") * source.randrange(1, 70)
    return text


@unittest.skipUnless(LIBRARY, "no tokenizers here: scripts/setup --interop installs them")
class Interop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(LIBRARY))
        source = random.Random(1)
        cls.texts = [random_text(source) for _ in range(TEXTS)]
        import tokenizers
        from tokenizers import models, pre_tokenizers, trainers
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        learner = tokenizers.Tokenizer(models.BPE())
        learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        pages = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))[:8]]
        learner.train_from_iterator("\n".join([*cls.texts[:2000], *pages]).split("\n\n"), trainers.BpeTrainer(
            vocab_size=3000, initial_alphabet=alphabet, show_progress=False))
        cls.file = json.loads(learner.to_str())

    def ours(self, file):
        """The ids of each text, and the text that these become."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            path.write_text(json.dumps(file))
            output = subprocess.run([os.environ["AXONN_PROGRAM"], path], check=True, text=True, stdout=subprocess.PIPE,
                                    input="".join(json.dumps(text) + "\n" for text in self.texts)).stdout
        lines = output.split("\n")[:-1]  # texts have other ends of lines
        self.assertEqual(len(lines), len(self.texts))
        return map(json.loads, lines)

    def file_with(self, pre_tokenizer, normalizer):
        return {**self.file, "pre_tokenizer": pre_tokenizer, "normalizer": normalizer, "decoder": {
            "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}

    def compare(self, pre_tokenizer, normalizer=None):
        from tokenizers import Tokenizer
        file = self.file_with(pre_tokenizer, normalizer)
        theirs = Tokenizer.from_str(json.dumps(file))
        for text, (ids, decoded) in zip(self.texts, self.ours(file)):
            expected = theirs.encode(text).ids
            self.assertEqual(ids, expected, ascii(text))
            self.assertEqual(decoded, theirs.decode(expected), ascii(text))

    def compare_with_tiktoken(self, pattern, pre_tokenizer):
        if TIKTOKEN is None:
            self.skipTest("no tiktoken here: scripts/setup --interop installs it")
        sys.path.append(str(TIKTOKEN))
        import tiktoken
        ranks = {bytes(LETTERS[letter] for letter in token): id for token, id in self.file["model"]["vocab"].items()}
        theirs = tiktoken.Encoding("trained", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        for text, (ids, decoded) in zip(self.texts, self.ours(self.file_with(pre_tokenizer, None))):
            self.assertEqual(ids, theirs.encode_ordinary(text), ascii(text))
            self.assertEqual(decoded, text, ascii(text))

    def byte_level(self, **options):
        return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}

    def sequence(self, *parts):
        return {"type": "Sequence", "pretokenizers": list(parts)}

    def words(self, pattern):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        return self.sequence(split, self.byte_level(use_regex=False))

    def test_gpt2(self):
        self.compare(self.byte_level())
        self.compare(self.byte_level(add_prefix_space=True))

    def test_single_digits(self):
        self.compare(self.sequence({"type": "Digits", "individual_digits": True}, self.byte_level()))

    def test_patterns(self):
        for name, pattern in PATTERNS.items():
            with self.subTest(name):
                self.compare(self.words(pattern), {"type": "NFC"} if name == "qwen2" else None)

    def test_tiktoken(self):
        self.compare_with_tiktoken(GPT2, self.byte_level())
        for name, pattern in PATTERNS.items():
            with self.subTest(name):
                self.compare_with_tiktoken(pattern, self.words(pattern))
