#!/usr/bin/env python3
"""Draws the images of the documentation: scripts/pictures.py [--check | --all] [ROOT] writes
docs/pictures/*.svg. With --check it writes nothing, and fails if a file is out of date. The map of
the modules follows the includes, so a new module appears automatically; the losses are those of
bench/results/losses.json. With --all it also makes the PNG images: it trains what they show, which
takes a quarter of an hour, and needs Chromium."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parent / folder) for folder in ("checks", "lib")]
import layers  # noqa: E402: the module table and the includes
import losses_of_grids  # noqa: E402
import screenshots  # noqa: E402
from picture import BLUE, GREEN, GREY, INK, ORANGE, PALE, VIOLET, Picture  # noqa: E402


def below(module, arrows):
    """All modules below `module`: its direct and indirect dependencies."""
    found, ahead = set(), list(arrows[module])
    while ahead:
        other = ahead.pop()
        if other not in found:
            found.add(other)
            ahead += arrows.get(other, ())
    return found


def layered(rows, edges, width, sizes):
    """The centre of each item of the rows (top to bottom), chosen so that edges between consecutive
    rows are steep and rarely cross."""
    place = {}

    def spread(row, wish):
        row.sort(key=lambda item: (wish[item], item))
        x = []
        for item in row:  # items do not overlap
            before = x[-1] + (sizes[row[len(x) - 1]] + sizes[item]) / 2 + 26 if x else sizes[item] / 2 + 6
            x.append(max(wish[item], before))
        limit = width - 6
        for i in range(len(row) - 1, -1, -1):  # and stay inside the image
            x[i] = min(x[i], limit - sizes[row[i]] / 2)
            limit = x[i] - sizes[row[i]] / 2 - 26
        place.update(zip(row, x))

    def mean(item, others, otherwise):
        known = [place[other] for other in others if other in place]
        return sum(known) / len(known) if known else otherwise

    above = {item: [a for a, b in edges if b == item] for row in rows for item in row}
    under = {item: [b for a, b in edges if a == item] for row in rows for item in row}
    for number, item in enumerate(rows[0]):
        place[item] = width * (number + 0.5) / len(rows[0])
    for _ in range(12):
        for row in rows[1:]:
            spread(row, {item: mean(item, above[item], width / 2) for item in row})
        for row in rows[-2::-1]:
            spread(row, {item: mean(item, under[item] + above[item], width / 2) for item in row})
    return place


def module_map(root):
    arrows = layers.module_arrows(root)
    needed = {module: {other for other in others
                       if not any(other in below(third, arrows) for third in others - {other})}
              for module, others in arrows.items()}
    users = {module: {user for user in needed if module in needed[user]} for module in needed}
    depth = {}  # rows below the programs: as high as the users of a module allow
    for module in sorted(arrows, key=lambda name: (-len(below(name, arrows)), name)):
        depth[module] = 1 + max((depth[user] for user in users[module]), default=-1)
    rows = [sorted(m for m in depth if depth[m] == row) for row in range(max(depth.values()) + 1)]
    widths = {m: 124 if m.startswith("apps/") else 176 for m in depth}
    boxes, sizes, edges, chains = set(depth), dict(widths), [], []
    for module in sorted(needed):
        for other in sorted(needed[module]):  # a line crosses the rows between in its own gaps
            gaps = [(module, other, row) for row in range(depth[module] + 1, depth[other])]
            for gap in gaps:
                rows[gap[2]].append(gap)
                sizes[gap] = 10
            chains.append([module, *gaps, other])
            edges += list(zip(chains[-1], chains[-1][1:]))
    width, step = max(900, *(sum(sizes[item] + 26 for item in row) for row in rows)), 78
    names = {item: item if item in boxes else "/".join(map(str, item)) for row in rows for item in row}
    rows = [[names[item] for item in row] for row in rows]
    place = layered(rows, [(names[a], names[b]) for a, b in edges], width,
                    {names[item]: size for item, size in sizes.items()})
    row_of = {item: number for number, row in enumerate(rows) for item in row}
    picture = Picture(width, step * len(rows) + 4, "Modules of axonn; an arrow leads to what a module includes")
    for chain in chains:
        points = []
        for item in (names[i] for i in chain):
            top = step * row_of[item] + 14
            points += [(place[item], top), (place[item], top + 46)]
        picture.path([points[1], *points[2:-1]])
    for module in sorted(boxes):
        fill = (GREY if module.startswith("apps/")
                else GREEN if module in layers.BELOW_TORCH + ["config", "perfmodel"] else BLUE)
        picture.box(place[module] - widths[module] / 2, step * row_of[module] + 14, widths[module], 46, fill,
                    module.removeprefix("apps/"), [layers.PURPOSE.get(module, "")])
    return picture


def grid(_):
    picture = Picture(880, 300, "A weight on a grid of 2 x 2 x 2 x 2 ranks")
    side, top = 150, 70
    picture.text(105, 32, "weight matrix", 15, bold=True)
    picture.text(105, 52, "X and Y split it into blocks", 12, PALE)
    fills = {(0, 0): BLUE, (1, 0): GREEN, (0, 1): ORANGE, (1, 1): VIOLET}
    for (x, y), fill in fills.items():
        picture.box(30 + x * side / 2, top + y * side / 2, side / 2, side / 2, fill, f"x={x}", [f"y={y}"])
    picture.arrow(185, top + side / 4, 255, top + side / 4, "one block")
    picture.text(340, 32, "block of ranks (x=1, y=0)", 15, bold=True)
    picture.text(340, 52, "Z shards it into ranges", 12, PALE)
    for z in range(2):
        picture.box(265, top + z * 42, 150, 38, GREEN, f"z={z}", ["half of the elements"])
    picture.text(340, top + 106, "before a layer computes,", 12, PALE)
    picture.text(340, top + 122, "its block is gathered over Z", 12, PALE)
    picture.arrow(425, top + 40, 495, top + 40, "copies")
    picture.text(620, 32, "data", 15, bold=True)
    picture.text(620, 52, "replicas of everything, each with rows of its own", 12, PALE)
    for copy in range(2):
        left = 505 + copy * 125
        picture.box(left, top, 115, 84, "white")
        picture.text(left + 57, top + 100, f"data={copy}", 12)
        for z in range(2):
            picture.box(left + 8, top + 6 + z * 38, 99, 34, GREEN, f"z={z}")
    lines = ["X, Y: tensor parallelism in two dimensions. Ranks of one (z, data) see the same rows and "
             "exchange activations.",
             "Z: parameters sharded as in FSDP or ZeRO-3, inside each tensor-parallel block. Ranks along Z "
             "see different rows.",
             "data: data parallelism, as in DDP. Gradients are summed over data, after they were "
             "reduce-scattered over Z."]
    for number, line in enumerate(lines):
        picture.text(30, 250 + 18 * number, line, 12, INK, "start")
    return picture


def parameter(_):
    picture = Picture(880, 330, "The life of a parameter")
    width, height = 176, 58

    def column(x, y, fill, name, *lines):
        picture.box(x, y, width, height, fill, name, lines)

    picture.text(30, 28, "once, by Context::materialize", 13, PALE, "start")
    for number, (name, *lines) in enumerate([("global tensor", "laid out by ShardSpec"),
                                             ("block of (x, y)", "flattened, row-major"),
                                             ("range of z", "the shard of this rank"),
                                             ("slot of the arena", "weights, gradients, master")]):
        column(30 + 212 * number, 40, BLUE, name, *lines)
        if number < 3:
            picture.arrow(30 + 212 * number + width, 69, 30 + 212 * (number + 1) - 3, 69)
    picture.text(30, 140, "in every step", 13, PALE, "start")
    column(30, 155, GREEN, "weight shard", "fp32, bf16 or fp16")
    column(242, 155, GREEN, "gathered block", "WeightGatherer, over Z")
    column(454, 155, GREEN, "forward, backward", "Operation of the layer")
    column(666, 155, ORANGE, "gradient block", "contributions counted")
    column(666, 255, ORANGE, "gradient shard", "reduce-scatter over Z")
    column(454, 255, ORANGE, "bucket", "all-reduce over data")
    column(242, 255, VIOLET, "Optimizer::step", "master weights, moments")
    column(30, 255, VIOLET, "master shard", "round_master()")
    for x in (206, 418, 630):
        picture.arrow(x, 184, x + 33, 184)
    picture.arrow(754, 213, 754, 252)
    for x in (666, 454, 242):
        picture.arrow(x, 284, x - 33, 284)
    picture.arrow(118, 255, 118, 216)
    return picture


def step(_):
    picture = Picture(880, 256, "One step: communication behind computation")
    rows = {"compute": 30, "over X or Y": 78, "over Z": 126, "over data": 174}
    for name, y in rows.items():
        picture.text(100, y + 21, name, 12, INK, "end")
        picture.shapes.append(f'<line x1="110" y1="{y + 34}" x2="860" y2="{y + 34}" stroke="{GREY}"/>')

    def work(row, begin, length, fill, name):
        picture.box(110 + begin, rows[row], length - 3, 32, fill, "")
        picture.text(110 + begin + length / 2 - 1, rows[row] + 20, name, 11)

    for number, name in enumerate(["fwd 1", "fwd 2", "fwd 3"]):
        work("compute", 40 + 72 * number, 72, BLUE, name)
    work("compute", 256, 36, GREY, "loss")
    for number, name in enumerate(["bwd 3", "bwd 2", "bwd 1"]):
        work("compute", 292 + 120 * number, 120, GREEN, name)
    work("compute", 680, 70, VIOLET, "update")
    for number, begin in enumerate((70, 142, 214)):
        work("over X or Y", begin, 40, ORANGE, f"ar {number + 1}")
    for number, begin in enumerate((350, 470, 590)):
        work("over X or Y", begin, 50, ORANGE, f"ar {3 - number}")
    work("over Z", 0, 40, BLUE, "g 1")
    work("over Z", 44, 60, BLUE, "g 2")
    work("over Z", 116, 60, BLUE, "g 3")
    for number, begin in enumerate((412, 532, 640)):
        work("over Z", begin, 44, GREEN, f"rs {3 - number}")
    work("over data", 476, 90, ORANGE, "bucket 1")
    work("over data", 596, 84, ORANGE, "bucket 2")
    picture.text(110, 228, "g: all-gather of weights, prefetched; backward takes them from the cache.  "
                 "ar: all-reduce of partial sums.", 11, PALE, "start")
    picture.text(110, 244, "rs: reduce-scatter of weight gradients.  bucket: all-reduce of a range of the arena.", 11,
                 PALE, "start")
    return picture


def programs(_):
    picture = Picture(880, 300, "What a training program does, from flags to the last step")
    width, height = 190, 58
    texts = [[("flags, TOML, checkpoint", "OptionTable: one line each"),
              ("ProgramOptions", "RunOptions, network sizes"),
              ("RunPlan", "plan_run(): checked, const"), ("Environment", "MPI, TCP or one process")],
             [("Context", "grid, policy, devices"), ("network", "layers register parameters"),
              ("Parameters", "Context::materialize"), ("Optimizer, TrainTask", "make_optimizer(), samples")],
             [("Trainer", "every step:"), ("run_passes()", "forward and backward"),
              ("Optimizer::step", "clip, update, round"), ("reports", "metrics, checkpoint, images")]]
    for row, boxes in enumerate(texts):
        for number, (name, line) in enumerate(boxes):
            x, y = 20 + 216 * number, 26 + 96 * row
            picture.box(x, y, width, height, (BLUE, GREEN, ORANGE)[row], name, [line])
            if number < 3:
                picture.arrow(x + width, y + height / 2, x + 213, y + height / 2)
        if row < 2:
            picture.arrow(763, 26 + 96 * row + height, 115, 26 + 96 * (row + 1) - 3)
    return picture


def rows(_):
    picture = Picture(880, 330, "Rows of queries divided over Y, for y = 0 and 1 of 2 ranks")
    side, left, top = 48, 110, 60
    picture.text(left + 2 * side, 28, "scores under the causal mask", 15, bold=True)
    picture.text(left + 2 * side, 48, "keys and values: all of them on every rank", 12, PALE)
    for part, (rank, fill) in enumerate(((0, BLUE), (1, ORANGE), (1, ORANGE), (0, BLUE))):
        y = top + side * part
        picture.text(left - 10, y + side / 2 + 4, f"part {part}", 12, PALE, "end")
        picture.shapes.append(f'<path d="M{left} {y}L{left + side * part} {y}L{left + side * (part + 1)} {y + side}'
                              f'L{left} {y + side}z" fill="{fill}" stroke="{PALE}"/>')
        picture.text(left + 8, y + side / 2 + 12, f"y={rank}", 12, INK, "start", bold=True)
    picture.text(left + 2 * side, top + 4 * side + 22, "rank y has parts y and 2Y - 1 - y:", 12, PALE)
    picture.text(left + 2 * side, top + 4 * side + 38, "as many scores as every other rank", 12, PALE)
    width, height = 158, 54
    boxes_in_rows(picture, width, height, (
        (70, "forward", (("my rows", "queries of two parts"), ("attention", "first part, then second"),
                         ("gather over Y", "first beside second"))),
        (180, "backward", (("my rows", "of the outputs' gradient"), ("attention", "gradients of my rows"),
                           ("gather over Y", "gradients of queries")))))
    picture.box(698, 250, width, height, GREEN, "sum over Y", ["gradients of keys, values"])
    picture.path([(601, 234), (601, 277), (695, 277)])
    return picture


def boxes_in_rows(picture, width, height, rows):
    """Rows of three steps at the right of the scores: (y, name, (title, line) of each)."""
    for y, name, texts in rows:
        picture.text(346, y - 8, name, 13, PALE, "start")
        for number, (title, line) in enumerate(texts):
            x = 346 + 176 * number
            picture.box(x, y, width, height, (GREY, BLUE, GREEN)[number], title, [line])
            if number:
                picture.arrow(x - 18, y + height / 2, x - 3, y + height / 2)


def stream(_):
    picture = Picture(880, 250, "A branch of a block with divided rows: what a rank along X does with 1/X of them")
    width, height, step = 112, 54, 124
    forward = (("norm", "my rows", BLUE), ("gather over X", "all rows", GREEN), ("qkv or up", "sum over Y", GREY),
               ("attention", "or activation", GREY), ("out or down", "part of a sum", GREY),
               ("scatter over X", "my rows of the sum", GREEN), ("add to stream", "bias, dropout", BLUE))
    backward = (("norm", "weights: sum over X", BLUE), ("scatter over X", "my rows of dI", GREEN),
                ("qkv or up", "gathers its input", ORANGE), ("attention", "or activation", GREY),
                ("out or down", "sum over Y", GREY), ("gather over X", "all rows", GREEN),
                ("stream", "my rows, dropout", BLUE))
    for row, (name, boxes) in enumerate((("forward", forward), ("backward", backward))):
        y = 40 + 104 * row
        picture.text(12, y - 10, name, 13, PALE, "start")
        for number, (title, line, fill) in enumerate(boxes):
            x = 12 + step * number
            picture.box(x, y, width, height, fill, title, [line])
            if number and row == 0:
                picture.arrow(x - step + width, y + height / 2, x - 3, y + height / 2)
            elif number:
                picture.arrow(x, y + height / 2, x - step + width + 3, y + height / 2)
    picture.text(12, 228, "Blue: 1/X of the rows, which is all that is kept of the stream.  Green: half of an "
                 "all-reduce.  Orange: the same half once more.", 11, PALE, "start")
    return picture


def ring(_):
    picture = Picture(880, 330, "Sequences divided over two ranks along Z: who computes which scores, and when")
    side, left, top = 48, 110, 60
    picture.text(left + 2 * side, 28, "scores under the causal mask", 15, bold=True)
    picture.text(left + 2 * side, 48, "columns: keys and values of parts 0 to 3", 12, PALE)
    ranks = (0, 1, 1, 0)
    for part, rank in enumerate(ranks):
        y = top + side * part
        picture.text(left - 10, y + side / 2 + 4, f"part {part}, z={rank}", 12, PALE, "end")
        for keys in range(part + 1):
            x = left + side * keys
            corner = "" if keys == part else f"L{x + side} {y}"
            picture.shapes.append(f'<path d="M{x} {y}{corner}L{x + side} {y + side}L{x} {y + side}z" '
                                  f'fill="{(BLUE, ORANGE)[rank]}" stroke="{PALE}"/>')
            picture.text(x + side * (0.3 if keys == part else 0.5), y + side * (0.8 if keys == part else 0.6),
                         str((rank - ranks[keys]) % 2), 12, INK, bold=True)
    picture.text(left + 2 * side, top + 4 * side + 22, "number: step of the ring, from 0;", 12, PALE)
    picture.text(left + 2 * side, top + 4 * side + 38, "in each, both ranks have as many scores", 12, PALE)
    width, height = 158, 54
    steps = (("attend", "the keys that are here"), ("pass on", "keys and values"))
    for y, name, mine in ((70, "forward", "queries, keys, values"), (190, "backward", "and gradients of outputs")):
        boxes_in_rows(picture, width, height, [(y, name, (("my tokens", mine), *steps))])
        picture.path([(777, y + height), (777, y + height + 22), (601, y + height + 22), (601, y + height + 3)])
        picture.text(689, y + height + 18, "N - 1 times, at once", 11, PALE)
    picture.box(698, 268, width, height, GREEN, "pass on, behind", ["their gradients"])
    picture.path([(560, 244), (560, 295), (695, 295)])
    return picture


def tiles(_):
    picture = Picture(880, 300, "Attention in tiles: which scores are computed, and what a tile goes through")
    wide, high, left, top = 76, 34, 84, 60
    middle = left + 1.5 * wide
    picture.text(middle, 28, "a head's scores, causal", 15, bold=True)
    picture.text(middle, 48, "columns: 256 keys and values each", 12, PALE)
    for row in range(6):
        picture.text(left - 10, top + high * (row + 0.6), "128 rows", 12, PALE, "end")
        for column in range(3):
            fill = "none" if 2 * column > row else ORANGE if (row, column) == (3, 0) else BLUE
            picture.shapes.append(f'<rect x="{left + wide * column}" y="{top + high * row}" width="{wide}" '
                                  f'height="{high}" fill="{fill}" stroke="{PALE}"/>')
    picture.text(middle, top + 6 * high + 22, "white ones are never computed", 12, PALE)
    width, height = 158, 54
    boxes_in_rows(picture, width, height, [
        (70, "forward", (("product", "queries with keys"), ("two passes", "greatest, exp, sum"),
                         ("product", "with values, added"))),
        (170, "backward", (("two products", "scores, and dP"), ("one pass", "exp and dS"),
                           ("three products", "dQ, dK, dV, added")))])
    picture.text(577, 255, "A tile, as the orange one, stays in the cache; no scores are kept.", 12, PALE)
    return picture


PICTURES = {"losses": losses_of_grids.draw, "map": module_map, "grid": grid, "parameter": parameter, "step": step,
            "programs": programs, "ring": ring, "rows": rows, "stream": stream, "tiles": tiles}


def main(arguments):
    check = "--check" in arguments
    root = pathlib.Path(next((a for a in arguments if a not in ("--check", "--all")), ".")).resolve()
    stale = False
    for name, draw in PICTURES.items():
        file, svg = root / f"docs/pictures/{name}.svg", draw(root).svg()
        if not check:
            file.write_text(svg)
        elif not file.exists() or file.read_text() != svg:
            print(f"docs/pictures/{name}.svg:1: older than what scripts/pictures.py draws; run scripts/pictures.py and "
                  "look at it")
            stale = True
    if "--all" in arguments:
        screenshots.make_all(root)
    if not stale:
        print(f"{len(PICTURES)} pictures {'are what the script draws' if check else 'in docs/pictures'}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
