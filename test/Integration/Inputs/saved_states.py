# ===- saved_states.py - What moments in 8 bits save, planned and built -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: saved_states.py DIRECTORY

Plans and builds f32.mlir and int8.mlir for large.json, which are all in DIRECTORY,
with the stages 0 to 2 of ZeRO."""

import json
import os
import re
import subprocess
import sys

RANK = re.compile(r"^rank \d+ .*\((\d+) bytes\)$", re.MULTILINE)
# Where each buffer begins, and of how many a plan may be off.
ALIGNMENT, BUFFERS = 64, 16
directory = sys.argv[1]


def measure(model, stage):
    """Bytes of each rank as planned and as built."""
    path = os.path.join(directory, f"{model}.{stage}")
    subprocess.run(
        ["poplar", "plan", "--model", f"{directory}/{model}.mlir", "--cluster",
         f"{directory}/large.json", "--global-batch", "8", "--zero", str(stage),
         "--leave-out", "none", "-o", path + ".mlir", "--json", path + ".json"],
        check=True,
    )  # fmt: skip
    built = subprocess.run(
        ["poplar", "build", path + ".mlir", "-o", path + ".job"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    with open(path + ".json") as file:
        planned = [rank["memory"]["peak"] for rank in json.load(file)["ranks"]]
    return planned, list(map(int, RANK.findall(built)))


# Which blocks a rank holds, their borders decide: shards of all ranks are compared.
for stage in range(3):
    wide, narrow = measure("f32", stage), measure("int8", stage)
    planned, built = (sum(wide[i]) - sum(narrow[i]) for i in range(2))
    print(f"stage {stage}: saved {planned} planned, {built} built")
    assert built > 0
    assert abs(planned - built) <= BUFFERS * ALIGNMENT
