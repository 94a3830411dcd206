# ===- safetensors_reader.py - Safetensors with the standard library -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads f32 tensors of a safetensors file into arrays, so that checking the
goldens needs nothing but python3."""

import array
import json
import struct
import sys


# Of the array module.
FORMATS = {"F32": "f", "U8": "B"}


def read(path):
    """Returns ({name: (shape, array)}, metadata)."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8:
        raise ValueError(f"{path}: truncated before the header")
    (size,) = struct.unpack_from("<Q", data)
    if size > len(data) - 8:
        raise ValueError(f"{path}: truncated in the header")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors, covered = {}, 8 + size
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] not in FORMATS:
            raise ValueError(
                f"{path}: {name} is {entry['dtype']}, expected {' or '.join(FORMATS)}"
            )
        if end > len(data):
            raise ValueError(f"{path}: truncated in {name}")
        if begin != covered:
            raise ValueError(f"{path}: a hole or an overlap before {name}")
        covered = end
        values = array.array(FORMATS[entry["dtype"]])
        values.frombytes(data[begin:end])
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name] = (tuple(entry["shape"]), values)
    if covered != len(data):
        raise ValueError(f"{path}: {len(data) - covered} bytes belong to no tensor")
    return tensors, metadata
