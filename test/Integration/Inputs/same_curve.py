#!/usr/bin/env python3
# ===- same_curve.py - Compare the losses of two runs ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: same_curve.py METRICS_CSV METRICS_CSV TOLERANCE

Fails unless both have the same steps, with losses that differ by at most the
relative tolerance.
"""

import csv
import sys


def read(path):
    with open(path, newline="") as file:
        return {row["step"]: float(row["loss"]) for row in csv.DictReader(file)}


def main():
    first, second = read(sys.argv[1]), read(sys.argv[2])
    tolerance = float(sys.argv[3])
    if not first or first.keys() != second.keys():
        sys.exit("same_curve: the runs have not the same steps")
    worst = max(abs(second[step] / loss - 1) for step, loss in first.items())
    print(f"largest difference {worst:.2e}, of {tolerance:.2e} allowed")
    if not worst <= tolerance:
        sys.exit("same_curve: the curves differ")


if __name__ == "__main__":
    main()
