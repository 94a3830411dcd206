#!/usr/bin/env python3
#===- check_gradient.py - The example's kernels against finite differences -===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
"""Runs the compiled kernels of softcap.mlir, and compares their values with
math.tanh and their gradients with finite differences of the forward kernel:

  check_gradient.py softcap.so
"""

import ctypes
import math
import random
import subprocess
import sys

CAP, BATCH, ROWS, COLUMNS = 3.0, 2, 4, 16
SIZE = BATCH * ROWS * COLUMNS
Array = ctypes.c_float * SIZE


def find_kernel(library, suffix):
    """The first function whose name ends so."""
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in symbols.stdout.splitlines()]
    found = sorted(name for name in names if name.endswith(f"{suffix}.body"))
    if not found:
        sys.exit(f"error: {library} has no kernel *{suffix}.body")
    return getattr(ctypes.CDLL(library), found[0])


def run(kernel, *inputs):
    """Runs all rows of a kernel that has one result."""
    result = Array()
    arrays = [Array(*values) for values in inputs] + [result]
    pointers = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
    kernel(pointers, *map(ctypes.c_int64, (BATCH, 0, BATCH * ROWS)))
    return list(result)


def compare(what, values, expected, tolerance):
    error = max(abs(a - b) for a, b in zip(values, expected))
    print(f"{what}: largest error {error:.1e}, allowed {tolerance:.0e}")
    if not error <= tolerance:
        sys.exit(f"error: {what} is wrong")


def main():
    library = sys.argv[1]
    forward, backward = find_kernel(library, "_softcap"), find_kernel(library, "_softcap_grad")
    generator = random.Random(1)
    x = [generator.gauss(0, 3) for _ in range(SIZE)]
    dy = [generator.gauss(0, 1) for _ in range(SIZE)]
    y = run(forward, x)
    compare("value", y, [CAP * math.tanh(value / CAP) for value in x], 1e-5)
    step = 1e-2
    above = run(forward, [value + step for value in x])
    below = run(forward, [value - step for value in x])
    slopes = [d * (a - b) / (2 * step) for d, a, b in zip(dy, above, below)]
    compare("gradient", run(backward, dy, y), slopes, 1e-3)


main()
