#!/usr/bin/env python3
# ===- same_curve.py - Compare the losses of two runs ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: same_curve.py REFERENCE_RUN RUN TOLERANCE

Fails unless both have the same steps, with losses that differ by at most the
relative tolerance.
"""

import sys

from jobs import Run, compare_losses


def main():
    reference, run = Run(sys.argv[1]), Run(sys.argv[2])
    tolerance = float(sys.argv[3])
    worst, failures = compare_losses(run, reference, tolerance)
    print(f"largest difference {worst:.2e}, of {tolerance:.2e} allowed")
    if failures or run.column("step") != reference.column("step"):
        sys.exit(f"same_curve: the curves differ: {', '.join(failures)}")


if __name__ == "__main__":
    main()
