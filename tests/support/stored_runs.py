"""Copies files of the previous version into a test's directory."""
import pathlib
import shutil

STORED = pathlib.Path(__file__).resolve().parent.parent / "stored" / "0.1"


def copy_stored(directory):
    for path in STORED.iterdir():
        if path.is_dir():
            shutil.copytree(path, directory / path.name)
        else:
            shutil.copy(path, directory / path.name)
