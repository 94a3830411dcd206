# ===- safetensors_reader.py - Safetensors with the standard library -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads and writes safetensors with the standard library, so that tests and checks need
nothing but python3. A file whose tensors do not cover its data exactly is refused."""

import array
import json
import math
import struct
import sys

SIZES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "U8": 1}
# Of the array module.
FORMATS = {"F32": "f", "U8": "B"}


def read_bytes(path):
    """Returns ({name: (dtype, shape, bytes)} in the order of the data, metadata)."""
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
        if end > len(data):
            raise ValueError(f"{path}: truncated in {name}")
        if begin != covered:
            raise ValueError(f"{path}: a hole or an overlap before {name}")
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        if dtype not in SIZES:
            raise ValueError(f"{path}: {name} is {dtype}, expected one of {', '.join(SIZES)}")
        if end - begin != math.prod(shape) * SIZES[dtype]:
            raise ValueError(f"{path}: {name} has {end - begin} bytes, which are not its shape's")
        covered = end
        tensors[name] = (dtype, shape, data[begin:end])
    if covered != len(data):
        raise ValueError(f"{path}: {len(data) - covered} bytes belong to no tensor")
    return tensors, metadata


def read(path):
    """Returns ({name: (shape, array)}, metadata) of tensors in FORMATS."""
    tensors, metadata = read_bytes(path)
    arrays = {}
    for name, (dtype, shape, data) in tensors.items():
        if dtype not in FORMATS:
            raise ValueError(f"{path}: {name} is {dtype}, expected {' or '.join(FORMATS)}")
        values = array.array(FORMATS[dtype])
        values.frombytes(data)
        if sys.byteorder == "big":
            values.byteswap()
        arrays[name] = (shape, values)
    return arrays, metadata


def write(path, tensors):
    """Writes {name: (dtype, shape, bytes)}, in this order."""
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)
