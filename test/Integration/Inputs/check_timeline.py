# ===- check_timeline.py - Is the timeline of a page drawn? ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_timeline.py PAGE CHARTS CLASSES

The page holds so many timelines of so many classes of ranks, simulated or
measured. Bars lie within their lane and do not overlap; every class computes and
communicates; from its begin to its end the upper lane, of what a rank does, has no
gap worth seeing, and a simulated one begins with the iteration. Labels of an axis are round numbers at equal distances."""

import re
import sys

WIDTH = 1200


def get_bars(lane):
    return [
        (kind, float(x), float(width))
        for kind, x, width in re.findall(
            r'<rect class="(\S+)" x="(\S+)" y="0" width="(\S+)"', lane
        )
    ]


def check_axis(labels):
    values = [float(label.replace(",", "")) for label in labels]
    steps = {round(b - a, 9) for a, b in zip(values, values[1:])}
    if len(values) < 2 or len(steps) != 1:
        sys.exit(f"error: labels of an axis at unlike distances: {labels}")
    digits = f"{steps.pop():.12g}".replace(".", "").strip("0")
    if digits not in ("1", "2", "5"):
        sys.exit(f"error: labels of an axis are not round: {labels}")


def main():
    path, charts, classes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open(path, encoding="utf-8") as file:
        page = file.read()
    found = re.findall(r'<div class="timeline">.*?</figure>', page, re.DOTALL)
    if len(found) != charts:
        sys.exit(f"error: {len(found)} timelines, expected {charts}")
    for chart in found:
        axis = re.search(r'<div class="xlabels">(.*?)</div>', chart).group(1)
        check_axis(re.findall(r">([^<]+)</span>", axis))
        lanes = re.findall(
            r'<svg class="lane (above|below)".*?</svg>', chart, re.DOTALL
        )
        if lanes != ["above", "below"] * classes:
            sys.exit(f"error: lanes {lanes} for {classes} classes")
        for match in re.finditer(
            r'<svg class="lane (above|below)".*?</svg>', chart, re.DOTALL
        ):
            bars, end = get_bars(match.group(0)), 0
            for _, x, width in bars:
                if x < end or x + width > WIDTH:
                    sys.exit(f"error: a bar at {x} overlaps, or leaves its lane")
                end = x + width
            kind = "compute" if match.group(1) == "above" else "communicate"
            if not any(bar[0] == kind for bar in bars):
                sys.exit(f"error: a lane has no '{kind}'")
            begin = bars[0][1]
            if match.group(1) == "below":
                continue
            if sum(bar[2] for bar in bars) < 0.98 * (end - begin):
                sys.exit("error: a lane has gaps")
            # Ranks that are measured may begin a step one after the other.
            measured = chart.find("<h3>measured</h3>")
            if begin > 0.02 * WIDTH and not 0 <= measured < match.start():
                sys.exit("error: a lane begins late")


main()
