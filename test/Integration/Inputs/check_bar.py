# ===- check_bar.py - Is a bar of a report that of poplar plan? ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_bar.py PAGE NAME PLAN_JSON

The bar called NAME says the seconds that poplar plan --json has simulated."""

import json
import re
import sys

FACTORS = {"s": 1, "ms": 1e-3, "µs": 1e-6}


def main():
    path, name, plan = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    with open(plan) as file:
        expected = json.load(file)["simulated_seconds"]
    bar = re.search(
        r'<div class="who">' + re.escape(name) + r".*?<small>([\d.,]+) (\S+?)[,<]",
        page,
        re.DOTALL,
    )
    if not bar:
        sys.exit(f"error: {path}: has no bar '{name}'")
    seconds = float(bar.group(1).replace(",", "")) * FACTORS[bar.group(2)]
    if abs(seconds - expected) > 6e-3 * expected:
        sys.exit(f"error: '{name}' takes {seconds} s, expected {expected} s")


main()
