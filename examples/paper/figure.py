# ===- figure.py - Bars of throughput --------------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""An SVG with one row of bars per cluster and one group per ZeRO stage."""

COLOURS = (
    "#9aa5b1", "#5f6c7b", "#c98a1b", "#7a5195", "#2f9e63", "#1b6fc9", "#d1495b",
)  # fmt: skip
BAR, GAP, HEIGHT, LEFT, TOP = 16, 26, 150, 46, 46


def draw(rows, names):
    """`rows` by cluster, as run.py's compare() makes them."""
    width = LEFT + 4 * (BAR * len(names) + GAP) + 10
    height = TOP + len(rows) * (HEIGHT + 50)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="16">Throughput over DeepSpeed in the same stage '
        "(simulated)</text>",
    ]
    for index, name in enumerate(names):
        x = LEFT + index * 78
        parts.append(f'<rect x="{x}" y="24" width="9" height="9" fill="{COLOURS[index]}"/>')
        parts.append(f'<text x="{x + 13}" y="33">{name}</text>')
    for place, (cluster, stages) in enumerate(rows.items()):
        base = TOP + (place + 1) * HEIGHT + place * 50
        values = [[*row["over"].values(), row["joint"]] for row in stages]
        most = max(v for row in values for v in row if v) or 1
        parts.append(f'<text x="4" y="{base - HEIGHT + 14}">{cluster}</text>')
        one = base - (HEIGHT - 24) / most
        parts.append(
            f'<line x1="{LEFT}" x2="{width - 8}" y1="{one:.1f}" y2="{one:.1f}" '
            'stroke="#bbb" stroke-dasharray="3 3"/>'
        )
        parts.append(f'<text x="{LEFT - 22}" y="{one + 4:.1f}">1.0</text>')
        for group, (row, bars) in enumerate(zip(stages, values)):
            left = LEFT + group * (BAR * len(names) + GAP)
            for index, value in enumerate(bars):
                if not value:
                    continue
                tall = (HEIGHT - 24) * value / most
                x = left + index * BAR
                parts.append(
                    f'<rect x="{x}" y="{base - tall:.1f}" width="{BAR - 2}" '
                    f'height="{tall:.1f}" fill="{COLOURS[index]}">'
                    f"<title>{names[index]}: {value:.2f}</title></rect>"
                )
                parts.append(
                    f'<text x="{x + BAR / 2 - 1}" y="{base - tall - 3:.1f}" '
                    f'font-size="7" text-anchor="middle">{value:.2f}</text>'
                )
            centre = left + BAR * len(names) / 2
            parts.append(
                f'<text x="{centre}" y="{base + 15}" text-anchor="middle">'
                f"stage {row['stage']}</text>"
            )
    return "\n".join(parts + ["</svg>", ""])
