# ===- make_tokens.py - Write the bytes of a text as token files -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes a token file whose tokens are the bytes of a text: nanogpt (u16), u32,
llm.c's format of version 1 (u16) or 2 (u32) or of Llama 3 (u32), or npy (i64)."""

import argparse
import array
import struct

LLMC_MAGIC, LLAMA_MAGIC = 20240520, 20240801
CHOICES = ["nanogpt", "u32", "llmc1", "llmc2", "llama3", "npy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format", choices=CHOICES)
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--end", type=int)
    parser.add_argument("--replace", help="POSITION=TOKEN")
    arguments = parser.parse_args()
    with open(arguments.text, "rb") as file:
        text = file.read()[arguments.begin : arguments.end]
    code = {"nanogpt": "H", "llmc1": "H", "npy": "q"}.get(arguments.format, "I")
    tokens = array.array(code, list(text))
    assert tokens.itemsize == {"H": 2, "I": 4, "q": 8}[code]
    if arguments.replace:
        position, token = arguments.replace.split("=")
        tokens[int(position)] = int(token)
    with open(arguments.out, "wb") as file:
        if arguments.format.startswith("ll"):
            magic = LLAMA_MAGIC if arguments.format == "llama3" else LLMC_MAGIC
            version = {"llmc1": 1, "llmc2": 2, "llama3": 7}[arguments.format]
            header = [magic, version, len(tokens)]
            file.write(struct.pack("<256i", *header, *[0] * (256 - len(header))))
        elif arguments.format == "npy":
            shape = f"({len(tokens)},)"
            header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
            header = header.ljust(117) + "\n"
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)))
            file.write(header.encode())
        file.write(tokens.tobytes())


main()
