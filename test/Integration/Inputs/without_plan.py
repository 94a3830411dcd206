# ===- without_plan.py - A planned module before it was planned ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: without_plan.py PLAN_MLIR OUT_MLIR

Takes the plan, the buckets and the estimated profiles out of a file that `poplar
plan` wrote: what is left is the model and the cluster."""

import re
import sys

with open(sys.argv[1]) as file:
    text = file.read()
text, plans = re.subn(r"^  zero\.plan .*?^  \}\n", "", text, flags=re.M | re.S)
if plans != 1:
    sys.exit(f"{sys.argv[1]} has {plans} plans, expected one")
lines = text.splitlines(keepends=True)
with open(sys.argv[2], "w") as file:
    for line in lines:
        words = line.split()
        if words[:1] == ["zero.bucket"]:
            continue
        if words[:1] == ["cluster.profile"] and "estimate" in words:
            continue
        file.write(line)
