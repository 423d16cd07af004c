#!/usr/bin/env python3
"""Fails on words of an English that is not plain: words.py [ROOT]. Looked at are documents,
comments, and texts in quotes. "per" stands for each unit, "only" for nothing else, and a comment
beside code begins with a noun. docs/terms.md has the words for parts of tensors."""
import pathlib
import re
import sys

import markdown

UNITS = ("rank|step|forward|backward|node|GPU|core|layer|element|row|column|micro-batch|message|parameter|member|"
         "token|image|sequence|sample|second|minute|priority|replica|channel|weight|byte|stage|collective|link|batch")
COUNTED = (r"sequences|samples|images|rows|tokens|bytes|elements|values|seconds|GB|GiB|MB|MiB|KiB|FLOPs|Gbit/s|"
           r"[Oo]ne|two|three|four|once|twice|messages|all-reduces|sums|queue|copy|lines|calls|threads|numbers?|"
           r"collectives?|launches")
ODD = [(re.compile(rf"\b(?:{COUNTED}) a (?:{UNITS})\b(?! of| that| from|'s|-)"), "write per: "),
       (re.compile(r"\balone\b"), "write only, or by itself: "),
       (re.compile(r"\bpictures?\b", re.I), "write image: "),
       (re.compile(r"\bmade-up\b"), "write synthetic: ")]
BESIDE_CODE = re.compile(r"\S\s*//\s*of\b")
# Words that must stay: the name of a random stream and of a flag of 0.1, and this list.
KEPT = {("alone", "alone(record)"), ("picture", '("picture", "shapes")'), ("picture", '"picture")'),
        ("pictures", '"pictures"'), ("pictures", "validation_pictures"), ("pictures", "--pictures"),
        ("pictures", "/pictures"), ("pictures", "scripts/pictures.py"), ("picture", "]("), ("pictures", "](")}


def texts(path):
    """(line number, comment or text in quotes)"""
    for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
        if path.suffix in (".hpp", ".cpp", ".cu", ".cuh"):
            comment = re.search(r"//.*", line)
            yield (number, " ".join(re.findall(r'"(?:[^"\\]|\\.)*"', line) + ([comment.group(0)] if comment else [])),
                   line)
        else:
            yield number, line, line


def odd(root):
    code = [p for base in ("include", "src", "apps", "bench", "examples", "tests")
            for p in (root / base).rglob("*.[hc]pp")]
    pages = [root / page.path for page in markdown.pages(root)
             if page.path.parts[0] != "bench" and page.path.name != "CHANGELOG.md"]
    for path in sorted(code + pages):
        for number, text, line in texts(path):
            for pattern, advice in ODD:
                for found in pattern.finditer(text):
                    if (not any(found.group(0).lower() == word and place in line for word, place in KEPT)
                            and path.name != "terms.md"):
                        yield f"{path.relative_to(root)}:{number}: {advice}'{found.group(0)}'"
            if path.suffix in (".hpp", ".cpp", ".cu", ".cuh") and BESIDE_CODE.search(line):
                yield f"{path.relative_to(root)}:{number}: begin with a noun, not with 'of'"


if __name__ == "__main__":
    found = list(odd(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or "plain words everywhere")
    sys.exit(1 if found else 0)
