"""PNG images of the documentation, for scripts/pictures.py --all: pages in Chromium, and a sheet that a
UNet has drawn. The runs that they show are trained first, on up to 4 ranks, with build/release."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Maker:
    def __init__(self, root, scratch):
        self.root, self.scratch = root, scratch
        self.programs = root / "build/release/bin"

    def run(self, *words):
        command = [str(word) for word in words]
        ended = subprocess.run(command, cwd=self.root, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if ended.returncode != 0:
            sys.exit(f"scripts/pictures.py: {' '.join(command)} ended with status {ended.returncode}: "
                     f"{ended.stdout[-2000:]}")

    def photograph(self, page, name, height):
        if BROWSER is None:
            sys.exit("scripts/pictures.py: there is no chromium; scripts/setup --tests installs it on Debian")
        self.run(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 f"--user-data-dir={self.scratch}/browser", f"--window-size=1280,{height}",
                 f"--screenshot={self.root}/docs/pictures/{name}.png", f"file://{page}")

    def report(self):
        """Two runs with other rates."""
        runs = [self.scratch / name for name in ("slow", "fast")]
        for folder, rate in zip(runs, ("1e-3", "4e-3")):
            self.run(self.programs / "gpt", "train", "--ranks", 2, "--grid", "2x1x1x1", "--config",
                     "configs/gpt-tiny.toml", "--data", "docs", "--steps", 300, "--validate-every", 50,
                     "--learning-rate", rate, "--out", folder)
        page = self.scratch / "report.html"
        self.run(self.programs / "axonn-report", *runs, "--out", page)
        self.photograph(page, "report", 1000)

    def ranking(self):
        page = self.scratch / "ranking.html"
        self.run(self.programs / "axonn-config", "--gpus", 1024, "--model", "gpt80b", "--machine", "dgx-h100", "--html",
                 page)
        self.photograph(page, "ranking", 1000)

    def shapes(self):
        """As scripts/demo unet, with all steps of its configuration."""
        run = self.scratch / "shapes"
        self.run(self.root / "scripts/mpirun", "-n", 4, self.programs / "unet", "train", "--grid", "2x1x2x1",
                 "--config", "configs/unet-shapes.toml", "--out", run)
        self.run(self.programs / "unet", "sample", "--checkpoint", run, "--method", "ddpm", "--sampling-steps", 200,
                 "--count", 64, "--out", self.root / "docs/pictures/shapes.png")


def make_all(root):
    with tempfile.TemporaryDirectory(prefix="axonn-images-") as scratch:
        maker = Maker(root, pathlib.Path(scratch))
        for picture in (maker.ranking, maker.report, maker.shapes):
            picture()
