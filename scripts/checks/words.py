#!/usr/bin/env python3
"""Fails on words of an English that is not plain: words.py [ROOT]. It reads documents, comments,
and texts in quotes. "per" stands for each unit, "only" for nothing else. A sentence begins with its
subject, not with a clause of What, Who, Whose, Where or Which; a comment beside code begins with a
noun. docs/terms.md has the words for parts of tensors."""
import pathlib
import re
import sys

import markdown

FOLDERS = ("include", "src", "apps", "bench", "examples", "tests", "scripts", "cmake", "configs",
           "packaging")
C_LIKE = {".hpp", ".cpp", ".cu", ".cuh", ".js"}
HASH = {".py", ".cmake", ".sh", ".toml", ".program"}
UNITS = ("rank|step|forward|backward|node|host|GPU|device|core|thread|layer|element|row|column|micro-batch|message|"
         "parameter|member|token|image|sequence|sample|second|minute|priority|replica|channel|weight|byte|stage|"
         "collective|link|batch|line|block")
COUNTED = (r"sequences|samples|images|rows|tokens|bytes|elements|values|seconds|times|(?<!')s|ms|us|[kMG]|GB|GiB|MB|"
           r"MiB|KiB|[MGT]?FLOPs?(?:/s)?|[MG]bit/s|[Oo]ne|two|three|four|once|twice|messages|all-reduces|sums|queue|"
           r"copy|lines|calls|threads|numbers?|collectives?|launches|events?|targets?|weights|steps|%[-+.\d]*l*[dugfs]")
ODD = [(re.compile(rf"(?<![\w-])(?:{COUNTED}) a (?:{UNITS})\b(?! of| that| from|'s|-)"), "write per: "),
       (re.compile(r"\balone\b"), "write only, or by itself: "),
       (re.compile(r"\bpictures?\b", re.I), "write image: "),
       (re.compile(r"\bmade-up\b"), "write synthetic: ")]
CLAUSE = re.compile(r"(?:^|[.!?:;] )[(*\"]*(?:What|Who|Whom|Whose|Where|Which)\b")
BESIDE_CODE = re.compile(r"(?:of|what|who|whom|whose|where|which)\b", re.I)
# Words that must stay: the name of a random stream and of a flag of 0.1, and this list.
KEPT = {("alone", "alone(record)"), ("picture", '("picture", "shapes")'), ("picture", '"picture")'),
        ("pictures", '"pictures"'), ("pictures", "validation_pictures"), ("pictures", "--pictures"),
        ("pictures", "/pictures"), ("pictures", "scripts/pictures.py"), ("picture", "]("), ("pictures", "](")}


def of_code(path):
    """(line number, texts in quotes, comment, whether code stands before it)"""
    mark = r"//" if path.suffix in C_LIKE else r'(?:(?<!\S)#|""")'
    inside = False  # a text of several lines in Python
    for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
        comment = re.search(rf"^(.*?\s)??{mark}(?!!)\s*(.*)$", line) if not inside else re.match(r"()\s*(.*)$", line)
        yield (number, " ".join(re.findall(r'"(?:[^"\\]|\\.)*"', line)), comment.group(2) if comment else "",
               bool(comment and (comment.group(1) or "").strip()))
        inside ^= path.suffix not in C_LIKE and line.count('"""') % 2 == 1


def of_page(page):
    """(line number, its sentences): headings may ask"""
    for number, line in enumerate(page.lines, 1):
        yield number, "" if line.startswith("#") else re.sub(r"^\s*(?:[-*] |\d+\. )?", "", line)


def odd_words(text, line):
    for pattern, advice in ODD:
        for found in pattern.finditer(text):
            if not any(found.group(0).lower() == word and place in line for word, place in KEPT):
                yield f"{advice}'{found.group(0)}'"


def odd_begins(text):
    for found in CLAUSE.finditer(text):
        yield f"begin with the subject, not with '{found.group(0).lstrip('.!?:; ')}'"


def odd_code(root):
    paths = [p for folder in FOLDERS for p in (root / folder).rglob("*")
             if p.is_file() and "stored" not in p.parts
             and (p.suffix in C_LIKE | HASH or p.name == "CMakeLists.txt"
                  or (p.suffix == "" and p.read_bytes()[:2] == b"#!"))]
    for path in sorted(paths):
        lines = path.read_text(errors="replace").split("\n")
        for number, quoted, comment, beside in of_code(path):
            place = f"{path.relative_to(root)}:{number}: "
            yield from (place + word for word in odd_words(f"{quoted} {comment}", lines[number - 1]))
            yield from (place + word for word in odd_begins(comment))
            if beside and (word := BESIDE_CODE.match(comment)):
                yield f"{place}begin with a noun, not with '{word.group(0)}'"


def odd_pages(root):
    for page in markdown.pages(root):
        if page.path.parts[0] == "bench" or page.path.name == "CHANGELOG.md":
            continue
        for number, text in of_page(page):
            place, line = f"{page.path}:{number}: ", page.lines[number - 1]
            if page.path.name != "terms.md":
                yield from (place + word for word in odd_words(line, line))
            yield from (place + word for word in odd_begins(text))


if __name__ == "__main__":
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = [*odd_code(top), *odd_pages(top)]
    print("\n".join(found) or "plain words everywhere")
    sys.exit(1 if found else 0)
