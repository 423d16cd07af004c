"""The page in headless Chromium, at a wide and a narrow window: curves over other axes, another run, a
sorted table, without a message, a request or a page that is too wide."""
import struct
import unittest
import zlib

from browser_pages import WIDTHS, ask, needs_browser
from report_runs import ReportTest, line_of, start_of

CLICKS = r"""
const answers = {};
const all = (selector) => [...document.querySelectorAll(selector)];
const text = (id) => document.getElementById(id).textContent;
const input = (element, value) => {
  if (element.type === "checkbox") element.checked = value;
  else element.value = value;
  element.dispatchEvent(new Event("input", {bubbles: true}));
};
const field = (form, name) => document.querySelector(`#${form} [name=${name}]`);
const keys = () => all("#curves figure").map((figure) => figure.dataset.key);
const line = (key) => all(`#curves figure[data-key="${key}"] polyline`).map((one) => one.getAttribute("points"));
const column = (n) => all("#runs tbody tr").map((row) => row.cells[n].textContent);
answers.keys = keys();
answers.points = line("loss").map((points) => points.split(" ").length);
answers.bands = all("#curves .band").length;
answers.restarts = all('#curves figure[data-key="loss"] .restart').length;
answers.axes = all("#axes [name=over] option").map((option) => option.textContent);
input(field("axes", "over"), "seconds so far");
answers.hours = all('#curves figure[data-key="loss"] text').map((one) => one.textContent);
const up = (points) => (points ?? "").split(" ").map((point) => Number(point.split(",")[1]));
const straight = up(line("loss")[0]);
input(field("axes", "log"), true);
answers.moved = up(line("loss")[0]).some((y, i) => Math.abs(y - straight[i]) > 1);
answers.hash = location.hash;
input(field("axes", "words"), "loss");
answers.filtered = keys();
input(field("axes", "words"), "");
const svg = document.querySelector("#curves svg"), box = svg.getBoundingClientRect();
svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width * 0.9, clientY: box.top + 50}));
answers.read = document.querySelector("#curves figcaption output").textContent;
answers.time = all("#time tbody tr").map((row) => [...row.cells].map((cell) => cell.textContent));
answers.communication = all("#communication tbody tr").map((row) => [...row.cells].map((cell) => cell.textContent));
answers.memory = all("#memory tbody tr").map((row) => [...row.cells].map((cell) => cell.textContent));
answers.starts = all("#starts tbody tr").length;
answers.stragglers = text("stragglers");
answers.samples = all("#samples img").map((image) => [image.naturalWidth, image.naturalHeight]);
answers.texts = all("#samples pre").map((one) => one.textContent);
answers.problems = text("run-problems");
answers.facts = text("run-facts");
const runs = field("choose", "run");
answers.runs = [...runs.options].map((option) => option.textContent);
if (runs.options.length > 1) input(runs, "1");
answers.other = text("run-facts");
answers.table = column(0);
all("#runs th button")[3].click();
answers.losses = column(3);
all("#runs th button")[3].click();
answers.descending = column(3);
answers.shown = text("runs-shown");
answers.differences = all("#differences tbody tr").map((row) => [...row.cells].map((cell) => cell.textContent));
document.getElementById("more").open = true;
setTimeout(() => {
  answers.more = all("#more-curves figure").map((figure) => figure.dataset.key);
  answers.title = text("title");
  answers.scripts = all("script").length;
  answers.requests = performance.getEntriesByType("resource").map((entry) => entry.name)
    .filter((name) => !name.startsWith("data:"));
  answers.width = [document.documentElement.scrollWidth, document.documentElement.clientWidth];
  parent.postMessage(JSON.stringify(answers), "*");
}, 50);
"""


def png(width, height):
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@needs_browser
class Browser(ReportTest):
    def ask(self, width):
        return ask(self.directory / "report.html", CLICKS, width)

    def test_two_runs_are_drawn_compared_and_read(self):
        lines = [line_of(step, 8 / step) for step in range(1, 3001)]
        lines[99]["straggler"] = "rank 3 on host n1 computes 40% longer"
        lines[9]["validation_loss"] = 1.25
        self.write_run("a", lines, starts=[start_of(0), start_of(500), start_of(1500)],
                       samples={"step-000100.png": png(5, 3), "step-000100.txt": b"once\nupon"})
        other = start_of(0)
        other["configuration"]["train"]["batch"] = 16
        self.write_run("b", [line_of(step, 9 / step) for step in range(1, 101)], starts=[other], state="running")
        self.run_report("a", "b")
        for width in WIDTHS:
            said, console = self.ask(width)
            with self.subTest(width):
                self.assertEqual((console, said["requests"]), ([], []))
                self.assertEqual(said["keys"][:3], ["loss", "validation_loss", "tokens_per_second"])
                self.assertIn("peak_memory_bytes", said["keys"])
                self.assertEqual(said["points"], [750, 100])
                self.assertGreater(said["bands"], 0)
                self.assertEqual(said["restarts"], 2)
                self.assertEqual(said["axes"], ["steps", "tokens", "hours"])
                self.assertIn("0.4", said["hours"])
                self.assertTrue(said["moved"])
                self.assertIn("over=seconds+so+far", said["hash"])
                self.assertIn("log=true", said["hash"])
                self.assertEqual(said["filtered"], ["loss", "validation_loss"])
                self.assertRegex(said["read"], r"^a [\d.]+ at [\d.]+, b [\d.]+ at [\d.]+$")
                self.assertEqual(said["time"], [["forward", "0.100", "20.0%"], ["backward", "0.200", "40.0%"],
                                                ["optimizer", "0.100", "20.0%"], ["other", "0.100", "20.0%"],
                                                ["a step", "0.500", "100.0%"]])
                row = ["0.020000", "0.060000", "1.00 KiB", "4"]
                self.assertEqual(said["communication"], [["all-reduces of activations", *row], ["all", *row]])
                self.assertEqual(said["memory"][-2:], [["predicted", "4.70 KiB"], ["measured peak", "4.00 KiB"]])
                self.assertEqual(said["starts"], 3)
                self.assertIn("rank 3 on host n1 computes 40% longer", said["stragglers"])
                self.assertEqual((said["samples"], said["texts"]), ([[5, 3]], ["once\nupon"]))
                self.assertEqual(said["problems"], "")
                self.assertIn("done; step 3000 of 1000", said["facts"])
                self.assertEqual(said["runs"], ["a", "b"])
                self.assertIn("running; step 100 of 1000", said["other"])
                self.assertEqual(said["table"], ["a", "b"])
                self.assertEqual((said["losses"], said["descending"]), (["0.002667", "0.09"], ["0.09", "0.002667"]))
                self.assertEqual(said["differences"], [["train.batch", "8", "16"]])
                self.assertIn("seconds.forward", said["more"])
                self.assertIn("communication.all_reduce.bytes", said["more"])
                self.assertEqual(*said["width"])

    def test_a_long_run_has_few_points(self):
        self.write_run("long", [line_of(step, 2 + step % 7) for step in range(1, 100001)])
        self.run_report("long")
        said, console = self.ask(WIDTHS[0])
        self.assertEqual((console, said["requests"]), ([], []))
        self.assertLessEqual(said["points"][0], 1024)

    def test_whatever_is_missing_or_hostile_is_shown_and_does_nothing(self):
        bad = "<img onerror=alert(1) src=x><script>document.body.remove()</script>"
        odd = start_of(0, machine=bad, command=[bad, 7], hosts=[None, 5], time=[], grid={"a": 1}, axonn=None, device=3,
                       predicted_memory={"total": bad, "weights": {}})
        odd["configuration"] = {"train": {"steps": bad, "x": [bad]}, "y": None}
        odd["step"] = bad
        lines = [{"step": 1, "loss": None, bad: 1, "__proto__": 2, "seconds": {"step": None}}]
        self.write_run("odd", lines, starts=[{"environment": [], "configuration": []}, odd], state=bad,
                       samples={"step-000001.txt": bad.encode(), "step-000002.png": b"no image"})
        self.write_run("empty", [], starts=[start_of(0)])
        self.run_report("odd", "empty", "nowhere")
        for width in WIDTHS:
            said, console = self.ask(width)
            self.assertEqual((console, said["scripts"], said["title"]), ([], 3, "odd, empty"))
            self.assertEqual(said["keys"], ["__proto__"])
            self.assertIn(bad, said["more"])  # as it has points, as names of parts do
            self.assertEqual(said["texts"], [bad])
            self.assertIn("loss is not finite in 1 step, first in step 1", said["problems"])
            self.assertEqual(*said["width"])


if __name__ == "__main__":
    unittest.main()
