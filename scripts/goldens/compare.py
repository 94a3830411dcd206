#!/usr/bin/env python3
# ===- compare.py - Compare the tensors of two files -----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Succeeds if two safetensors files hold the same tensors, up to
|a - b| <= R |a| + R/1000 |all a| in 2-norms for every tensor, R being given by
--relative (0: the same bits); with --differs, if none of them is that close.
Needs nothing but python3."""

import argparse
import math
import sys

import safetensors_reader


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--relative", type=float, default=0.0)
    parser.add_argument("--differs", action="store_true")
    arguments = parser.parse_args()
    first, _ = safetensors_reader.read(arguments.first)
    second, _ = safetensors_reader.read(arguments.second)
    if not first or first.keys() != second.keys():
        print(f"error: other tensors: {sorted(first.keys() ^ second.keys())}")
        return 1
    total = norm(x for _, values in first.values() for x in values)
    failures, worst = [], 0.0
    for name, (shape, a) in first.items():
        other_shape, b = second[name]
        if shape != other_shape:
            failures.append(f"{name}: {shape} against {other_shape}")
            continue
        error = norm([x - y for x, y in zip(a, b)])
        bound = arguments.relative * (norm(a) + total / 1000)
        worst = max(worst, error / (norm(a) or 1.0))
        # Written so that a NaN is not close.
        close = a == b if arguments.relative == 0 else error <= bound
        if close == arguments.differs:
            failures.append(f"{name}: off by {error:.3g}, bound {bound:.3g}")
    for failure in failures:
        print(f"error: {failure}")
    print(
        f"{len(first) - len(failures)} of {len(first)} tensors as expected; "
        f"largest relative difference {worst:.3g}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
