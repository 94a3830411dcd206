# ===- make_tokens.py - Write the bytes of a text as token files -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes a token file whose tokens are the bytes of a text: nanogpt (u16), or
llm.c's format of version 1 (u16) or 2 (u32)."""

import argparse
import array
import struct

LLMC_MAGIC = 20240520


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format", choices=["nanogpt", "llmc1", "llmc2"])
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--end", type=int)
    parser.add_argument("--replace", help="POSITION=TOKEN")
    arguments = parser.parse_args()
    with open(arguments.text, "rb") as file:
        text = file.read()[arguments.begin : arguments.end]
    wide = arguments.format == "llmc2"
    tokens = array.array("I" if wide else "H", list(text))
    assert tokens.itemsize == (4 if wide else 2)
    if arguments.replace:
        position, token = arguments.replace.split("=")
        tokens[int(position)] = int(token)
    with open(arguments.out, "wb") as file:
        if arguments.format != "nanogpt":
            header = [LLMC_MAGIC, 2 if wide else 1, len(tokens)]
            file.write(struct.pack("<256i", *header, *[0] * (256 - len(header))))
        file.write(tokens.tobytes())


main()
