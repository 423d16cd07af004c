"""An SVG image of boxes, texts, arrows and lines, for scripts/pictures.py."""
import html

INK, PALE, ARROW = "#1f2933", "#616e7c", "#9aa5b1"
BLUE, GREEN, ORANGE, VIOLET, GREY = "#d6e4f5", "#d9efdc", "#fbe3cb", "#e5dcf3", "#eceff2"


class Picture:
    def __init__(self, width, height, title):
        self.size = (width, height)
        self.title = title
        self.shapes = []

    def text(self, x, y, words, size=13, color=INK, anchor="middle", bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}"'
                           f"{weight}>{html.escape(words)}</text>")

    def box(self, x, y, width, height, fill, name="", lines=(), size=13):
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" '
                           f'stroke="{PALE}"/>')
        below = [line for line in lines if line]
        top = y + height / 2 + (5 if not below else 5 - 8 * len(below))
        if name:
            self.text(x + width / 2, top, name, size, bold=True)
        for number, line in enumerate(below, 1 if name else 0):
            self.text(x + width / 2, top + 16 * number, line, size - 2, PALE)

    def arrow(self, x1, y1, x2, y2, label=""):
        self.path([(x1, y1), (x2, y2)])
        if label:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 6, label, 11, PALE)

    def path(self, points):
        """An arrow with straight lines between the points."""
        (first_x, first_y), *others = points
        way = f"M{first_x:g} {first_y:g}" + "".join(f"L{x:g} {y - (2 if (x, y) == points[-1] else 0):g}"
                                                    for x, y in others)
        self.shapes.append(f'<path d="{way}" fill="none" stroke="{ARROW}" stroke-width="1.5" marker-end="url(#head)"/>')

    def line(self, points, color, width):
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.shapes.append(f'<path d="{way}" fill="none" stroke="{color}" stroke-width="{width}"/>')

    def svg(self):
        width, height = self.size
        head = ('<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                f'<path d="M0 0L8 4L0 8z" fill="{ARROW}"/></marker>')
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                          f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">',
                          f"<title>{html.escape(self.title)}</title>", f"<defs>{head}</defs>",
                          f'<rect width="{width}" height="{height}" fill="white"/>', *self.shapes, "</svg>", ""])
