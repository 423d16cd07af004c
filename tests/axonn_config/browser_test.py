"""The page of --html in a browser: it sorts, filters and shows a grid by clicks, without an error, a
request or a table of layouts that is too wide."""
import unittest

from browser_pages import WIDTHS, ask, needs_browser
from planner_runs import PlannerTest

CLICKS = r"""
const answers = {};
const all = (selector) => [...document.querySelectorAll(selector)];
const column = (title) => all("#layouts th").findIndex((cell) => cell.textContent === title);
const cells = (title) => all("#layouts tbody tr").map((row) => row.cells[column(title)].textContent);
const click = (title) => all("#layouts th button").find((button) => button.textContent === title).click();
answers.first = cells("step s");
click("step s");
answers.ascending = cells("step s");
answers.marked = all("#layouts th[aria-sort=ascending]").map((cell) => cell.textContent);
click("step s");
answers.descending = cells("step s");
click("grid");
answers.grids = cells("grid");
const axis = document.querySelector("#filters [name=z]");
axis.value = axis.options[axis.options.length - 1].value;
axis.dispatchEvent(new Event("input", {bubbles: true}));
answers.z = axis.value;
answers.filtered = cells("grid");
answers.shown = document.getElementById("shown").textContent;
document.querySelector("#layouts tbody button").click();
answers.title = document.getElementById("grid-title").textContent;
answers.next = document.getElementById("next").textContent;
answers.total = document.querySelector("#time tr.total td:nth-child(2)").textContent;
axis.value = "";
const words = document.querySelector("#filters [name=words]");
words.value = "no such words";
words.dispatchEvent(new Event("input", {bubbles: true}));
answers.none = cells("grid").length;
document.querySelector("#filters [type=reset]").click();
setTimeout(() => {
  answers.again = cells("grid").length;
  answers.points = all("#curve circle").length;
  answers.heading = document.getElementById("title").textContent;
  answers.scripts = all("script").length;
  answers.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  answers.width = [document.documentElement.scrollWidth, window.innerWidth];
  const table = document.getElementById("layouts").parentElement;
  answers.table = [table.scrollWidth, table.clientWidth];
  parent.postMessage(JSON.stringify(answers), "*");
}, 50);
"""


@needs_browser
class Browser(PlannerTest):
    def answers(self, width):
        return ask(self.directory / "page.html", CLICKS, width)

    def open(self, *arguments):
        return self.plan(*arguments, "--html", "page.html")

    def test_it_sorts_filters_and_shows_a_grid(self):
        found = self.open("--gpus", "64", "--model", "gpt5b", "--machine", "dgx-a100")
        layouts = found["layouts"]
        for width in WIDTHS:
            said, console = self.answers(width)
            with self.subTest(width):
                self.assertEqual(console, [])
                self.assertEqual(said["requests"], [])
                self.assertEqual(said["first"], [f"{one['seconds']:.3f}" for one in layouts])
                self.assertEqual(said["ascending"], sorted(said["first"], key=float))
                self.assertEqual(said["descending"], sorted(said["first"], key=float, reverse=True))
                self.assertEqual(said["marked"], ["step s"])
                grids = sorted(one["grid"] for one in layouts)
                self.assertEqual(said["grids"], ["x".join(map(str, grid)) for grid in grids])
                kept = [grid for grid in grids if grid[2] == int(said["z"])]
                self.assertTrue(0 < len(kept) < len(grids))
                self.assertEqual(said["filtered"], ["x".join(map(str, grid)) for grid in kept])
                self.assertEqual(said["shown"], f"{len(kept)} of {len(grids)} layouts")
                self.assertEqual(said["title"], said["filtered"][0])
                self.assertIn(f"axonn-config explain {said['title']} --model gpt5b", said["next"])
                chosen = next(one for one in layouts if one["grid"] == kept[0])
                self.assertAlmostEqual(float(said["total"]), chosen["seconds"], delta=1e-3)
                self.assertEqual((said["none"], said["again"], said["points"]), (0, len(grids), 9))
                self.assertLessEqual(said["width"][0], said["width"][1])
                self.assertLessEqual(said["table"][0], said["table"][1])
                self.assertEqual(said["width"][1], width)

    def test_hostile_names_are_shown_and_do_nothing(self):
        name = "<img onerror=alert(1)><script>document.body.remove()<b>.toml"
        (self.directory / name).write_text("[model]\nlayers = 4\nhidden = 256\nheads = 4\nsequence = 128\n"
                                           "vocab = 512\n")
        self.open("--gpus", "8..64", "--model", name)
        said, console = self.answers(WIDTHS[0])
        self.assertEqual((console, said["heading"], said["scripts"]), ([], f"{name} on perlmutter", 3))
        self.assertLessEqual(said["width"][0], said["width"][1])


if __name__ == "__main__":
    unittest.main()
