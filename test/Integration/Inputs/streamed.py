#!/usr/bin/env python3
# ===- streamed.py - Text is printed as it comes ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: streamed.py LEAST COMMAND...

Runs a command and takes what it prints write by write. There have to be LEAST writes,
each of whole UTF-8 characters."""

import os
import subprocess
import sys


def main():
    least, command = int(sys.argv[1]), sys.argv[2:]
    # Of such a pipe, a read gives what one write has written.
    end, other = os.pipe2(os.O_DIRECT)
    process = subprocess.Popen(command, stdout=other)
    os.close(other)
    pieces = []
    while piece := os.read(end, 1 << 16):
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
