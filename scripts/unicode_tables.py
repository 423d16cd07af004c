#!/usr/bin/env python3
"""Writes the Unicode tables of the tokenizers: unicode_tables.py NFC. NFC is a JSON file with the
characters that the NFC of Hugging Face's tokenizers, which is older, does not know. The rest comes
from the package unicodedata2 16.0.0 of PyPI."""
import json
import pathlib
import sys
import textwrap

import unicodedata2

PLACE = pathlib.Path(__file__).resolve().parent.parent / "src/data/tokenizer/unicode/unicode_tables.cpp"
ALL = range(sys.maxunicode + 1)
HANGUL = range(0xAC00, 0xD7A4)  # composed by a formula
# White_Space of Unicode, which has had no change since version 6.3.
WHITE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
HEAD = """// Written by scripts/unicode_tables.py. Unicode 16.0; the formats are in the header.
#include "data/tokenizer/unicode/unicode_tables.hpp"

namespace axonn::unicode_tables {
namespace {

// clang-format off
"""


def ranges_of(class_of):
    """[first, last, class] of neighbours that have the same class."""
    ranges = []
    for code in sorted(class_of):
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == class_of[code]:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, class_of[code]])
    return ranges


def gaps(ranges, with_class=False):
    """Per range: how many code points lie before it, how many are in it, and its class."""
    end = 0
    for first, last, its_class in ranges:
        yield from (first - end, last - first + 1)
        if with_class:
            yield its_class
        end = last + 1


def steps(rows):
    """Per row: how far its code point is from the one before, and the rest of the row."""
    before = 0
    for code, *rest in rows:
        yield from (code - before, *rest)
        before = code


def of_categories(*begins):
    return gaps(ranges_of({code: True for code in ALL if unicodedata2.category(chr(code)).startswith(begins)}))


def nfc_rows(unknown):
    """(code, first, second) of what is composed, and (code, first, second or 0) of what is only
    decomposed."""
    composed, decomposed = [], []
    for code in sorted(set(ALL) - set(HANGUL) - unknown):
        parts = unicodedata2.decomposition(chr(code))
        if not parts or parts.startswith("<"):
            continue
        row = (code, *(int(part, 16) for part in parts.split()))
        if unicodedata2.normalize("NFC", chr(code)) == chr(code):
            composed.append(row)
        else:
            decomposed.append((*row, 0)[:3])
    return composed, decomposed


def array(name, numbers):
    text = textwrap.fill(", ".join(map(str, numbers)), 118, initial_indent="  ", subsequent_indent="  ")
    return f"constexpr uint32_t {name}[] = {{\n{text}}};\n"


def main(nfc_file):
    if unicodedata2.unidata_version != "16.0.0":
        sys.exit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}: install unicodedata2==16.0.0")
    differences = json.loads(pathlib.Path(nfc_file).read_text())
    starters, inert = ({int(code, 16) for code in value} for key, value in differences.items() if key != "unicode")
    marks = {code: unicodedata2.combining(chr(code)) for code in ALL
             if unicodedata2.combining(chr(code)) and code not in starters}
    composed, decomposed = nfc_rows(inert)
    tables = {"Letters": of_categories("L"), "Upper": of_categories("Lu", "Lt"), "Lower": of_categories("Ll"),
              "Numbers": of_categories("N"), "Marks": of_categories("M"),
              "White": gaps(ranges_of(dict.fromkeys(WHITE, True))),
              "CombiningClasses": gaps(ranges_of(marks), with_class=True), "Composed": steps(composed),
              "Decomposed": steps(decomposed)}
    text = HEAD + "\n".join(array(f"kThe{name}", numbers) for name, numbers in tables.items())
    text += "// clang-format on\n\n}  // namespace\n\n"
    text += "\n".join(f"const std::span<const uint32_t> k{name} = kThe{name};" for name in tables)
    PLACE.write_text(text + "\n\n}  // namespace axonn::unicode_tables\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
