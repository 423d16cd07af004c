#!/usr/bin/env python3
"""Fails on a link in a Markdown page to a missing file or heading: links.py [ROOT]. It ignores web
links."""
import pathlib
import sys

import markdown


def broken(root):
    pages = markdown.pages(root)
    anchors = {(root / page.path).resolve(): set(page.anchors()) for page in pages}
    for page in pages:
        for line, target in page.links():
            if "://" in target or target.startswith("mailto:"):
                continue
            file, _, anchor = target.partition("#")
            path = (page.folder / file).resolve() if file else (root / page.path).resolve()
            if not path.exists():
                yield f"{page.path}:{line}: the link to {target} leads nowhere"
            elif anchor and path.suffix == ".md" and anchor not in anchors.get(path, ()):
                yield f"{page.path}:{line}: {file or page.path} has no heading #{anchor}"


if __name__ == "__main__":
    found = list(broken(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or "every link leads to a file and a heading")
    sys.exit(1 if found else 0)
