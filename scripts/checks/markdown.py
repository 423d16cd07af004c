"""The Markdown pages of a checkout: their lines, fenced blocks, headings, links and code spans."""
import dataclasses
import re

FENCE = re.compile(r"^\s*```(.*)$")
HEADING = re.compile(r"^#+\s+(.*?)\s*$")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
CODE = re.compile(r"`([^`]+)`")


@dataclasses.dataclass
class Block:
    line: int  # number of its first line of code
    info: list  # words after the fence: ["sh", "run"]
    text: str


class Page:
    def __init__(self, root, path):
        self.path = path.relative_to(root)
        self.folder = path.parent
        self.lines = path.read_text().split("\n")
        self.blocks = []
        self.prose = []  # (line number, text) outside of fenced blocks
        opened = None
        for number, line in enumerate(self.lines, 1):
            fence = FENCE.match(line)
            if fence and opened is None:
                opened = Block(number + 1, fence.group(1).split(), "")
            elif fence:
                self.blocks.append(opened)
                opened = None
            elif opened is not None:
                opened.text += line + "\n"
            else:
                self.prose.append((number, line))

    def links(self):
        """(line number, target) of links and images, except in code spans."""
        for number, line in self.prose:
            for target in LINK.findall(CODE.sub("``", line)):
                yield number, target

    def code_spans(self):
        for number, line in self.prose:
            for text in CODE.findall(line):
                yield number, text

    def anchors(self):
        """GitHub's anchors of the headings: lower case, no punctuation, hyphens for spaces; -1, -2,
        ... for repeated headings."""
        seen = {}
        for _, line in self.prose:
            heading = HEADING.match(line)
            if not heading:
                continue
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            times = seen.get(anchor, 0)
            seen[anchor] = times + 1
            yield anchor if times == 0 else f"{anchor}-{times}"


def pages(root):
    paths = [*root.glob("*.md"),
             *(p for folder in ("docs", "bench", "examples") for p in root.glob(f"{folder}/**/*.md"))]
    return [Page(root, path) for path in sorted(paths)]
