"""A picture of growth as SVG: jobs in history to the right, times that of a home with none upwards, a line a measure.
Both axes are logarithmic. It has the colours of the reader's scheme, light or dark."""

import html
import math

import growth

WIDTH, HEIGHT = 960, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 640, 60, 410
# Room at both ends of a line, and from there to the legend.
EDGE = 20
LEGEND = RIGHT + 30

# One of each for a line: who cannot tell the colours apart has the marks.
LIGHT = ["#1f6fb4", "#c2410c", "#15803d", "#a21caf", "#854d0e", "#be123c", "#0f766e", "#4338ca", "#475569", "#65720b"]
DARK = ["#6cb6ff", "#fb923c", "#4ade80", "#e879f9", "#facc15", "#fb7185", "#2dd4bf", "#a5b4fc", "#cbd5e1", "#bef264"]
MARKS = ["circle", "square", "diamond", "up", "down"]

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: currentColor; }
  .head { font-size: 16px; font-weight: 600; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  .none { stroke: currentColor; stroke-opacity: 0.6; }
  .line { fill: none; stroke-width: 2; }
  .mark { stroke-width: 1.5; }
  svg { color: #1c2024; }
  .page { fill: #ffffff; }
"""
STYLE_DARK = """
    svg { color: #e6e9ec; }
    .page { fill: #14171a; }
"""


def svg(found, bench):
    sizes = [size for size in found["sizes"] if size]
    titles = [title.format(bench) for title, _ in growth.MEASURES.values()]
    ratios = [[growth.ratio(found, measure, str(size)) for size in sizes] for measure in growth.MEASURES]
    # A measure has the same colour and mark in every picture.
    lines = [line for line in zip(range(len(titles)), titles, ratios) if None not in line[2]]
    # In the legend as they stand at the right end.
    lines.sort(key=lambda line: -line[2][-1])
    across, up = Across(sizes), Up([share for *_, shares in lines for share in shares])
    drawn = [*frame(sizes, across, up)]
    for place, (number, title, shares) in enumerate(lines):
        points = [(across.at(size), up.at(share)) for size, share in zip(sizes, shares)]
        drawn += line(number, points) + legend(number, place, f"{shares[-1]:.2f} ×  {title}")
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, f"<style>{style()}</style>", *drawn, "</svg>"]) + "\n"


def style():
    colours = lambda palette: "".join(f"  .c{number} {{ color: {colour}; }}\n" for number, colour in enumerate(palette))
    dark = STYLE_DARK + colours(DARK)
    return f"{STYLE}{colours(LIGHT)}  @media (prefers-color-scheme: dark) {{{dark}  }}\n"


class Across:
    def __init__(self, sizes):
        self.least, self.most = math.log10(sizes[0]), math.log10(sizes[-1])

    def at(self, size):
        return LEFT + EDGE + (math.log10(size) - self.least) / (self.most - self.least) * (RIGHT - LEFT - 2 * EDGE)


class Up:
    """From a power of two to another, with half and twice in it."""

    def __init__(self, shares):
        self.least = min(-1, math.floor(math.log2(min(shares))))
        self.most = max(1, math.ceil(math.log2(max(shares))))

    def at(self, share):
        return BOTTOM - (math.log2(share) - self.least) / (self.most - self.least) * (BOTTOM - TOP)

    def ticks(self):
        return [2.0**power for power in range(self.least, self.most + 1)]


def frame(sizes, across, up):
    yield f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>'
    yield text(LEFT, 30, "What a history costs, times the same with none", "start", "head")
    for share in up.ticks():
        y, kind = up.at(share), "none" if share == 1 else "grid"
        yield f'<path class="{kind}" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
        yield text(LEFT - 10, y + 4, f"{share:g} ×", "end")
    for size in sizes:
        x = across.at(size)
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{BOTTOM}"/>'
        yield text(x, BOTTOM + 22, f"{size:,}", "middle")
    yield text((LEFT + RIGHT) / 2, BOTTOM + 48, "jobs in history", "middle")


def text(x, y, words, anchor, kind=""):
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def line(number, points):
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    drawn = f'<path class="line c{number}" stroke="currentColor" d="{path}"/>'
    return [drawn, *(mark(number, x, y) for x, y in points)]


def mark(number, x, y):
    shapes = {
        "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
        "square": "m-4-4h8v8h-8z",
        "diamond": "m0-5l5 5l-5 5l-5-5z",
        "up": "m0-5l5 9h-10z",
        "down": "m0 5l5-9h-10z",
    }
    shape = shapes[MARKS[number % len(MARKS)]]
    # The second five are hollow.
    fill = "currentColor" if number < len(MARKS) else "none"
    return f'<path class="mark c{number}" stroke="currentColor" fill="{fill}" d="M{x:.1f} {y:.1f}{shape}"/>'


def legend(number, place, words):
    y = TOP + 10 + place * 26
    drawn = f'<path class="line c{number}" stroke="currentColor" d="M{LEGEND} {y}h28"/>'
    return [drawn, mark(number, LEGEND + 14, y), text(LEGEND + 38, y + 4, words, "start")]
