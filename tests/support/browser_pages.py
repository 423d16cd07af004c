"""Asks a page in headless Chromium: a script runs within it, in a frame of some width."""
import html
import json
import os
import re
import shutil
import subprocess
import unittest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (1280, 400)
FRAME = """<!DOCTYPE html><body><iframe src="asked.html" width="{width}" height="3000"></iframe><pre id="answers"></pre>
<script>addEventListener("message", (event) => {{ document.getElementById("answers").textContent = event.data; }});
</script></body>"""

needs_browser = unittest.skipUnless(BROWSER, "there is no chromium: scripts/setup --tests installs it on Debian")


def ask(page, script, width):
    """Returns the answers that the script posts to its parent, as JSON, and messages of the console."""
    folder = page.parent
    (folder / "asked.html").write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    (folder / "frame.html").write_text(FRAME.format(width=width))
    ended = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={folder}/browser", "--virtual-time-budget=5000", "--window-size=1400,3000", "--dump-dom",
         f"file://{folder}/frame.html"],
        capture_output=True, text=True, timeout=100, env={**os.environ, "HOME": str(folder)})
    found = re.search(r'<pre id="answers">(.*?)</pre>', ended.stdout, re.S)
    assert found and found[1], ended.stdout[-2000:] + ended.stderr[-2000:]
    return json.loads(html.unescape(found[1])), [line for line in ended.stderr.splitlines() if "CONSOLE" in line]
