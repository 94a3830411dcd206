#!/usr/bin/env python3
# ===- build-time.py - Processor time of compiling the project -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles one in --every of the project's files again, without ccache, and
estimates the processor time of all: what a fresh machine needs. Commands are
those of compile_commands.json; precompiled headers are used as they are built.
Linking and table generation are not counted.

  bench/build-time.py --build build/release --every 8"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile

from commands import ROOT


def get_processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compile_again(entry, out):
    """Processor seconds."""
    words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = out
    begin = get_processor_seconds()
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {entry['file']}: {done.stderr}")
    return get_processor_seconds() - begin


def get_part(entry):
    path = os.path.relpath(entry["file"], ROOT)
    part = path.split(os.sep)[0]
    if part == "build":
        return "precompiled headers"
    return {"unittests": "tests", "bench": "tests", "examples": "tests"}.get(part, part)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", default=ROOT + "/build/release")
    parser.add_argument("--every", type=int, default=8)
    arguments = parser.parse_args()
    with open(os.path.join(arguments.build, "compile_commands.json")) as file:
        entries = sorted(json.load(file), key=lambda entry: entry["file"])
    parts = {}
    for entry in entries:
        parts.setdefault(get_part(entry), []).append(entry)
    total = without_tests = 0
    with tempfile.TemporaryDirectory() as directory:
        for part, files in sorted(parts.items()):
            # The few precompiled headers are no sample of each other.
            every = 1 if part == "precompiled headers" else arguments.every
            sample = files[every // 2 :: every] or files[:1]
            seconds = sum(compile_again(entry, directory + "/out") for entry in sample)
            estimate = seconds * len(files) / len(sample)
            total += estimate
            without_tests += estimate * (part != "tests")
            print(f"{part}: {len(files)} files, {len(sample)} compiled, "
                  f"{estimate:.0f} s of processor time (estimate)", flush=True)  # fmt: skip
    print(f"all: {total:.0f} s, without tests: {without_tests:.0f} s (estimates)")


if __name__ == "__main__":
    main()
