# ===- check_timeline.py - Is the timeline of a page drawn? ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_timeline.py PAGE CHARTS CLASSES

The page holds so many timelines of so many classes of ranks. Bars lie within the
chart and do not overlap; every class computes and communicates; from its begin to
its end the upper lane, of what a rank does, has no gap worth seeing."""

import re
import sys

COMPUTES, COMMUNICATES = "c0", "c1"


def main():
    path, charts, classes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open(path) as file:
        page = file.read()
    found = re.findall(r'<svg class="timeline".*?</svg>', page, re.DOTALL)
    if len(found) != charts:
        sys.exit(f"error: {len(found)} timelines, expected {charts}")
    for svg in found:
        width = float(re.search(r'viewBox="0 0 (\S+) ', svg).group(1))
        lanes = {}
        for kind, x, y, bar in re.findall(
            r'<rect class="(\S+)" x="(\S+)" y="(\S+)" width="(\S+)"', svg
        ):
            lanes.setdefault(float(y), []).append((float(x), float(bar), kind))
        if len(lanes) != 2 * classes:
            sys.exit(f"error: {len(lanes)} lanes for {classes} classes")
        for place, (_, bars) in enumerate(sorted(lanes.items())):
            end = 0
            for x, bar, _ in bars:
                if x < end or x + bar > width:
                    sys.exit(f"error: a bar at {x} overlaps, or leaves the chart")
                end = x + bar
            kind = COMMUNICATES if place % 2 else COMPUTES
            if not any(bar[2] == kind for bar in bars):
                sys.exit(f"error: lane {place} has no {kind}")
            if place % 2 == 0 and sum(bar for _, bar, _ in bars) < 0.98 * width:
                sys.exit(f"error: lane {place} has gaps")


main()
