# ===- compare_played.py - A hybrid plan against its programs ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: compare_played.py PLAN.json SIMULATED.json BUILT.txt

Whether the seconds, the memory and the bytes of collectives of each lane's largest rank
are those of the programs."""

import json
import re
import sys

with open(sys.argv[1]) as plan, open(sys.argv[2]) as simulated, open(sys.argv[3]) as built:
    plan, simulated = json.load(plan), json.load(simulated)
    peaks = re.findall(r"^rank \d+ .*\((\d+) bytes\)$", built.read(), re.MULTILINE)
assert abs(plan["simulated_seconds"] / simulated["simulated_seconds"] - 1) < 0.001
carried = {
    rank: part["collective_bytes"]
    for part in simulated["rank_classes"]
    for rank in part["ranks"]
}
lanes = [
    lane
    for group in plan["groups"]
    for lane in group["lanes"]
    for _ in range(len(lane["ranks"]))
]
assert len(lanes) == len(peaks)
for rank, lane in enumerate(lanes):
    ratio = lane["collective_bytes"] / carried[rank]
    print(rank, lane["peak_bytes"], peaks[rank], ratio)
    assert lane["peak_bytes"] >= int(peaks[rank])
    assert abs(ratio - 1) < 0.03
