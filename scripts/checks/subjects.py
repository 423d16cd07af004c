#!/usr/bin/env python3
"""Fails on commits with a subject of more than 72 characters: subjects.py [ROOT]. It looks at the
commits after the one that added this file, as far as the clone has them."""
import pathlib
import shutil
import subprocess
import sys

MOST = 72
THIS = "scripts/checks/subjects.py"


def git(root, *arguments):
    found = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    return found.stdout.split("\n")[:-1] if found.returncode == 0 else []


def too_long(root):
    added = git(root, "log", "--diff-filter=A", "--format=%H", "-1", "--", THIS)
    since = [f"{added[0]}^..HEAD"] if added and git(root, "rev-parse", "--verify", f"{added[0]}^") else ["HEAD"]
    for line in git(root, "log", "--format=%h %s", *since) if added else []:
        commit, _, subject = line.partition(" ")
        if len(subject) > MOST:
            yield f"{commit}: the subject has {len(subject)} characters, at most {MOST}: {subject}"


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    if not (place / ".git").exists() or not shutil.which("git"):  # an archive of scripts/release
        sys.exit(print(f"{place} has no history, or there is no git: no subject was read"))
    found = list(too_long(place))
    print("\n".join(found) or "no commit has a subject that is too long")
    sys.exit(1 if found else 0)
