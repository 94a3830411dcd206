# ===- refuse.py - Expect a command to refuse its input --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: refuse.py ABSENT TEXT COMMAND...

Succeeds if COMMAND ends with exit status 1 and prints one error, which
contains TEXT, and if the path ABSENT does not exist afterwards ("-": any)."""

import os
import subprocess
import sys


def main():
    absent, text, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    if result.returncode != 1:
        sys.exit(f"refuse: exit status {result.returncode}, expected 1")
    errors = [line for line in result.stderr.splitlines() if "error" in line.lower()]
    if len(errors) != 1:
        sys.exit(f"refuse: {len(errors)} lines tell of errors, expected one")
    if text not in errors[0]:
        sys.exit(f"refuse: the error does not mention '{text}'")
    if absent != "-" and os.path.lexists(absent):
        sys.exit(f"refuse: {absent} was written")


main()
