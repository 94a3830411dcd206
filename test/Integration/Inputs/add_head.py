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
import os
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "goldens"))
import safetensors_reader  # noqa: E402


def main():
    source, target, embedding, how = sys.argv[1:]
    shutil.copytree(source, target)
    path = os.path.join(target, "model.safetensors")
    tensors, _ = safetensors_reader.read_bytes(path)
    dtype, shape, head = tensors[embedding]
    if how == "other":
        head = head[:-4] + struct.pack("<f", 0.25)
    elif how == "bf16":
        # To nearest, ties to even.
        words = array.array("I", head)
        head = array.array("H", ((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words)).tobytes()
        dtype = "BF16"
    safetensors_reader.write(path, {**tensors, "lm_head.weight": (dtype, shape, head)})


main()
