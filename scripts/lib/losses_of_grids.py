"""Draws the losses of one training on several grids, and their differences from the first grid:
bench/results/losses.json, which `bench/loss_curves.py grids --keep` writes."""
import json
import math

from picture import GREY, INK, PALE, Picture

COLORS, WIDTHS = ("#9cc0e7", "#5aa469", "#d9822b", "#3b2a6b"), (11, 7.5, 4.5, 1.5)
LEFT, RIGHT = 70, 860
LEAST, GREATEST = 1e-9, 2e-5  # equal losses are drawn at the least difference
TOLERANCE = 1e-5              # that loss_curves.py allows


class Panel:
    """A part of the image between two heights, with a scale of its own. Losses go down in it."""

    def __init__(self, picture, steps, top, bottom, least, greatest):
        self.picture, self.steps, self.top, self.bottom = picture, steps, top, bottom
        self.least, self.greatest = least, greatest

    def x(self, step):
        return LEFT + (RIGHT - LEFT) * (step - 1) / (self.steps - 1)

    def y(self, value):
        return self.bottom - (self.bottom - self.top) * (value - self.least) / (self.greatest - self.least)

    def mark(self, value, text, color=GREY):
        self.picture.line([(LEFT, self.y(value)), (RIGHT, self.y(value))], color, 1)
        self.picture.text(LEFT - 8, self.y(value) + 4, text, 11, PALE, "end")

    def curve(self, values, color, width):
        self.picture.line([(self.x(step), self.y(value)) for step, value in enumerate(values, 1)], color, width)


def ranks_of(grid):
    return math.prod(map(int, grid.split("x")))


def draw(root):
    stored = json.loads((root / "bench/results/losses.json").read_text())
    losses = stored["losses"]
    reference = next(iter(losses.values()))
    picture = Picture(880, 380, f"Losses of one training on {len(losses)} grids")
    steps = len(reference)

    low, high = math.floor(min(reference)), math.ceil(max(reference))
    above = Panel(picture, steps, 40, 240, low, high)
    for value in range(low, high + 1):
        above.mark(value, f"{value}.0")
    picture.text(LEFT, 24, "loss, four grids on one line", 13, INK, "start", bold=True)
    for number, (grid, values) in enumerate(losses.items()):
        above.curve(values, COLORS[number], WIDTHS[number])
        y = 58 + 22 * number
        picture.line([(640, y), (680, y)], COLORS[number], WIDTHS[number])
        picture.text(690, y + 4, f"{grid}, {ranks_of(grid)} rank{'s' * (ranks_of(grid) > 1)}", 12, INK, "start")

    below = Panel(picture, steps, 280, 350, math.log10(LEAST), math.log10(GREATEST))
    picture.text(LEFT, 266, "relative difference from one rank", 13, INK, "start", bold=True)
    for difference in (LEAST, 1e-7, TOLERANCE):
        below.mark(math.log10(difference), f"{difference:.0e}", "#c0392b" if difference == TOLERANCE else GREY)
    for number, values in enumerate(losses.values()):
        if number > 0:
            gaps = [abs(a - b) / abs(b) for a, b in zip(values, reference)]
            below.curve([math.log10(max(gap, LEAST)) for gap in gaps], COLORS[number], 1.5)
    picture.text(LEFT, 368, "step 1", 11, PALE, "start")
    picture.text(RIGHT, 368, f"step {steps}", 11, PALE, "end")
    return picture
