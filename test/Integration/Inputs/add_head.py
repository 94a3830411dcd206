# ===- add_head.py - Copy a checkpoint and give it a head of its own -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: add_head.py FROM TO EMBEDDING same|bf16|other

Copies the checkpoint FROM to TO and adds a tensor lm_head.weight with the values of
EMBEDDING to its weights: as they are, rounded to bf16, or with one of them
changed."""

import array
import json
import os
import shutil
import struct
import sys


def main():
    source, target, embedding, how = sys.argv[1:]
    shutil.copytree(source, target)
    path = os.path.join(target, "model.safetensors")
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    entry = header[embedding]
    begin, end = entry["data_offsets"]
    head, dtype = data[begin:end], entry["dtype"]
    if how == "other":
        head = head[:-4] + struct.pack("<f", 0.25)
    elif how == "bf16":
        # To nearest, ties to even.
        words = array.array("I", head)
        head = array.array("H", ((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words)).tobytes()
        dtype = "BF16"
    offsets = [len(data), len(data) + len(head)]
    header["lm_head.weight"] = {"dtype": dtype, "shape": entry["shape"], "data_offsets": offsets}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data + head)


main()
