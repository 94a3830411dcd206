#!/usr/bin/env python3
# ===- streamed.py - Text is printed as it comes ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: streamed.py LEAST COMMAND...

Runs a command and reads what it prints piece by piece, as a terminal would. There
have to be LEAST pieces, each of whole UTF-8 characters."""

import os
import subprocess
import sys


def main():
    least, command = int(sys.argv[1]), sys.argv[2:]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    pieces = []
    while piece := os.read(process.stdout.fileno(), 1 << 16):
        pieces.append(piece)
    if process.wait():
        sys.exit(f"error: exit status {process.returncode}")
    for piece in pieces:
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            sys.exit(f"error: {piece} in {pieces}: {error}")
    if len(pieces) < least:
        sys.exit(f"error: {len(pieces)} pieces, expected {least}: {pieces}")
    print(b"".join(pieces).decode())


if __name__ == "__main__":
    main()
