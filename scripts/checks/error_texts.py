#!/usr/bin/env python3
"""Fails if an error message contains no cure and is not listed in docs/troubleshooting.md:
error_texts.py [--write] [ROOT]. It reads messages from AXONN_CHECK, UserError, OneRankError, BrokenCheckpoint,
BackendError and, in tcp_*.cpp, fail() and fail_job(); "..." stands for a value. --write adds rows for missing messages,
with an empty cure that fails the check, and removes rows whose message no longer exists."""
import pathlib
import re
import sys

PAGE = "docs/troubleshooting.md"
# Words that show that a message contains its cure.
SAYS_CURE = re.compile(r"\b(must|needs?|at least|at most|use|give|choose|set|try|did you mean|instead|install|"
                       r"build with|make|name|such as|is one of|takes?|from \S+ to|belongs in|start|call|resume|"
                       r"remove|free|wait|run|see|say|cannot be|only)\b|;")
CALL = re.compile(r"\b(AXONN_CHECK|UserError|OneRankError|BrokenCheckpoint|BackendError|fail|fail_job)\s*\(")
ROW = re.compile(r"^\| `(.+?)` \| (.*) \|$")


def arguments(text, begin):
    """The arguments, as text, of the call whose parenthesis opens before `begin`."""
    found, depth, current, i = [], 0, "", begin
    while i < len(text):
        literal = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'').match(text, i)
        if literal:
            current += literal.group(0)
            i = literal.end()
            continue
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            if depth == 0:
                return [*found, current.strip()]
            depth -= 1
        if text[i] == "," and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += text[i]
        i += 1
    return []


def template(parts):
    text = ""
    for part in parts:
        inner = re.match(r"(?:detail::)?concatenate\(", part)
        if inner:
            text += template(arguments(part, inner.end()))
        elif part.startswith('"'):
            for literal, value in re.findall(r'"((?:[^"\\]|\\.)*)"|([^"]+)', part):
                text += literal or ("..." if value.strip(" +\n") else "")
        else:
            text += "..."
    return re.sub(r"(\.\.\.[ .]?){2,}", "... ", text.replace('\\"', '"').replace("|", "/")).strip()


def messages(root):
    """Maps each template to the first place that throws it, without templates that are only a
    value."""
    found = {}
    for path in sorted(p for base in ("include", "src", "apps") for p in (root / base).rglob("*")
                       if p.suffix in (".hpp", ".cpp", ".cu")):
        text = path.read_text()
        for call in CALL.finditer(text):
            if call.group(1).startswith("fail") and not path.name.startswith("tcp_"):
                continue
            given = arguments(text, call.end())
            parts = given[{"AXONN_CHECK": 2, "fail": 0, "fail_job": 0}.get(call.group(1), 1):]
            message = template(parts)
            if len(re.findall(r"[a-z]{2,}", message)) >= 2 and not message.startswith("std::"):
                found.setdefault(message, f"{path.relative_to(root)}:{text.count(chr(10), 0, call.start()) + 1}")
    return found


def rows(page):
    """Maps each message to (line number, cure)."""
    found = {}
    for number, line in enumerate(page.split("\n"), 1):
        row = ROW.match(line)
        if row:
            found[row.group(1)] = (number, row.group(2).strip())
    return found


def problems(root):
    thrown, page = messages(root), rows((root / PAGE).read_text())
    for message, place in thrown.items():
        if message not in page and not SAYS_CURE.search(message):
            yield f"{place}: '{message}' neither says what to do nor stands in {PAGE}"
    for message, (number, cure) in page.items():
        if message not in thrown:
            yield f"{PAGE}:{number}: no source throws '{message}'"
        elif not cure:
            yield f"{PAGE}:{number}: '{message}' has no cure"


def write(root):
    thrown, path = messages(root), root / PAGE
    lines = path.read_text().rstrip("\n").split("\n")
    lines = [line for line in lines if not (ROW.match(line) and ROW.match(line).group(1) not in thrown)]
    known = rows("\n".join(lines))
    missing = [m for m in thrown if m not in known and not SAYS_CURE.search(m)]
    if missing:
        lines += ["", "## New", "", "| message | what to do |", "| --- | --- |",
                  *(f"| `{message}` |  |" for message in missing)]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    place = pathlib.Path(next((a for a in sys.argv[1:] if a != "--write"), ".")).resolve()
    if "--write" in sys.argv:
        write(place)
    found = list(problems(place))
    print("\n".join(found) or "every error message says what to do, or stands in " + PAGE)
    sys.exit(1 if found else 0)
