# ===- same_losses.py - Compares the losses of two runs ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Fails unless the losses of all steps are within 1e-5 of each other."""

import csv
import os
import sys


def read(run):
    with open(os.path.join(run, "metrics.csv")) as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


ours, theirs = (read(run) for run in sys.argv[1:])
same = all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(ours, theirs))
if not ours or len(ours) != len(theirs) or not same:
    sys.exit(f"the losses differ: {ours} and {theirs}")
