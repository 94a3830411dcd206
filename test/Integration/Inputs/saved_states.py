# ===- saved_states.py - What moments in blocks save, planned and built -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: saved_states.py DIRECTORY exact|hybrid

Plans and builds f32.mlir, int8.mlir and int4.mlir, which are in DIRECTORY with the
clusters, by that policy."""

import json
import os
import re
import subprocess
import sys

RANK = re.compile(r"^rank \d+ .*\((\d+) bytes\)$", re.MULTILINE)
# A cluster, the global batch, and options.
CASES = {
    "exact": [
        ("large", 8, ["--zero", str(stage), "--leave-out", "none"]) for stage in range(3)
    ],
    "hybrid": [
        ("replicas", 64, ["--zero", "0"]),
        ("replicas", 64, ["--zero", "1"]),
        ("sharers", 2, ["--tensor-degree", "2", "--zero", "0"]),
        ("sharers", 2, ["--tensor-degree", "2", "--zero", "3"]),
    ],
}
# Which blocks a rank holds, their borders decide: shards of all ranks are compared, and
# may be off by where each of some buffers begins. Of a hybrid plan, the largest rank is:
# its shard of each bucket ends with a block.
COMPARED = {"exact": (sum, 16 * 64), "hybrid": (max, 2048)}
directory, policy = sys.argv[1:]


def list_planned(plan):
    if policy == "exact":
        return [rank["memory"]["peak"] for rank in plan["ranks"]]
    return [lane["peak_bytes"] for group in plan["groups"] for lane in group["lanes"]]


def measure(model, number, cluster, batch, options):
    """Bytes as planned and as built."""
    path = os.path.join(directory, f"{model}.{number}")
    subprocess.run(
        ["poplar", "plan", "--model", f"{directory}/{model}.mlir", "--cluster",
         f"{directory}/{cluster}.json", "--global-batch", str(batch), "--policy", policy,
         *options, "-o", path + ".mlir", "--json", path + ".json"],
        check=True,
    )  # fmt: skip
    built = subprocess.run(
        ["poplar", "build", path + ".mlir", "-o", path + ".job"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    with open(path + ".json") as file:
        planned = list_planned(json.load(file))
    compared, _ = COMPARED[policy]
    return compared(planned), compared(map(int, RANK.findall(built)))


for number, case in enumerate(CASES[policy]):
    wide = measure("f32", number, *case)
    less = 0
    for form in ("int8", "int4"):
        narrow = measure(form, number, *case)
        planned, built = (a - b for a, b in zip(wide, narrow))
        print(f"{case}, {form}: saved {planned} planned, {built} built")
        assert built > less
        assert abs(planned - built) <= COMPARED[policy][1]
        less = built
