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
import time

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


def sample(command, count):
    """Samples `count` tokens by the command; returns the seconds between the first
    and the last of them, and the text's words."""
    process = subprocess.Popen([*command, "--tokens", str(count)], stdout=subprocess.PIPE)
    text, times = b"", []
    while piece := os.read(process.stdout.fileno(), 1 << 16):
        times.append(time.perf_counter())
        text += piece
    if process.wait():
        sys.exit(f"error: {' '.join(command)} failed")
    return times[-1] - times[0], text.decode().split()


def seconds_per_token(sampling, count):
    """Of the last three fourths of `count` tokens, and their text. `sampling` returns
    what sample() does for a number of tokens."""
    few, _ = sampling(count // 4)
    many, text = sampling(count)
    return (many - few) / (count - count // 4), text
