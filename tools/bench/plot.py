"""Shares of the floor as bars, Strata's beside the others'; an SVG made by hand.

usage   python plot.py ROWS.json FILE.svg   draws what `kernels.py --json ROWS.json` wrote; of a case measured twice the later
"""

import html
import sys

import measure

COLORS = {"eager": "#bbbbbb", "inductor": "#e69f00", "strata": "#0072b2"}
BAR, GAP, LEFT, WIDTH, TOP = 9, 8, 260, 460, 46


def draw(rows, file):
    """One block of bars a case, one bar a backend that was measured."""
    shares = {}
    for r in rows:
        if "share" in r:
            name = " ".join(filter(None, (r["case"], r["layout"])))
            shares.setdefault((name, r["dtype"]), {})[r["backend"]] = r["share"]
    present = [b for b in COLORS if any(b in by for by in shares.values())]
    block = BAR * len(present) + GAP
    height = TOP + block * len(shares) + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 70} {height}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, backend in enumerate(present):
        x = LEFT + 110 * i
        out.append(f'<rect x="{x}" y="8" width="12" height="10" fill="{COLORS[backend]}"/><text x="{x + 17}" y="17">{backend}</text>')
    # A share above 1 (the data fitted into a cache, or the rate was measured on a busy machine) widens the scale.
    most = max([1.0] + [s for by in shares.values() for s in by.values()])
    for percent in range(0, int(100 * most) + 1, 25):
        x = LEFT + WIDTH * percent / 100 / most
        dark = "#666666" if percent == 100 else "#dddddd"
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 18}" stroke="{dark}"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP - 10}" text-anchor="middle">{percent} %</text>')
    for i, ((name, dtype), by) in enumerate(shares.items()):
        y = TOP + block * i
        out.append(f'<text x="{LEFT - 8}" y="{y + block / 2}" text-anchor="end">{html.escape(name)} {dtype}</text>')
        for k, backend in enumerate(present):
            if backend in by:
                length, at = WIDTH * by[backend] / most, y + BAR * k
                out.append(f'<rect x="{LEFT}" y="{at}" width="{length:.1f}" height="{BAR - 1}" fill="{COLORS[backend]}"/>')
                out.append(f'<text x="{LEFT + length + 4:.1f}" y="{at + BAR - 1}" font-size="9">{100 * by[backend]:.0f}</text>')
    out.append("</svg>")
    with open(file, "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw([r for r in measure.load(sys.argv[1]) if "case" in r], sys.argv[2])
