# ===- commands.py - Running what is measured ------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the benchmarks of this directory share."""

import csv
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(*command, **environment):
    """Runs a command and returns its result, with .stdout and .stderr as text.
    One that fails ends the benchmark."""
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result


def read_rates(out, skipped):
    """Tokens per second of the steps of a run, without the first ones."""
    with open(os.path.join(out, "metrics.csv"), newline="") as file:
        return [float(row["tokens_per_s"]) for row in csv.DictReader(file)][skipped:]
