# ===- check_peft_goldens.py - A run against PEFT's values ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""check_peft_goldens.py GOLDEN RUN: losses within 1e-4 of PEFT's, and what
training added to each adapter within 1 %, in 2-norms."""

import csv
import json
import os
import sys

import jobs


def main():
    golden, run = sys.argv[1:]
    with open(os.path.join(golden, "expected.json")) as file:
        expected = json.load(file)["losses"]
    with open(os.path.join(run, "metrics.csv")) as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    if len(losses) != len(expected):
        sys.exit(f"error: {len(losses)} losses, expected {len(expected)}")
    worst = max(abs(x - y) / y for x, y in zip(losses, expected))
    print(f"losses within {worst:.1e}")
    if not worst <= 1e-4:
        sys.exit("error: expected 1e-4")

    def read(*path):
        path = os.path.join(*path, "adapter_model.safetensors")
        return jobs.safetensors_reader.read(path)[0]

    start, theirs = read(golden, "adapter"), read(golden, "trained")
    ours = read(run, "latest")
    if set(ours) != set(theirs):
        sys.exit(f"error: other tensors: {sorted(set(ours) ^ set(theirs))}")
    worst = 0.0
    for name, (shape, values) in theirs.items():
        if ours[name][0] != shape:
            sys.exit(f"error: {name} is {ours[name][0]}, expected {shape}")
        update = jobs.difference(values, start[name][1])
        error = jobs.norm(jobs.difference(ours[name][1], values))
        worst = max(worst, error / jobs.norm(update))
    print(f"updates within {worst:.1e}")
    if not worst <= 1e-2:
        sys.exit("error: expected 1e-2")


main()
