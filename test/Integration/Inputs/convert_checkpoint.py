# ===- convert_checkpoint.py - Write a checkpoint in another format --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: convert_checkpoint.py FROM TO FORMAT

Copies the files of checkpoint FROM to TO, the tensors in FORMAT (F64, F32, BF16 or
F16; rounded to nearest, ties to even), in the order of their names. config.json
names the format, as transformers has it."""

import json
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "goldens"))
import safetensors_reader  # noqa: E402

NAMES = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def decode(form, data):
    if form == "BF16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        data, form = struct.pack(f"<{len(words)}I", *(word << 16 for word in words)), "F32"
    code, size = {"F32": ("f", 4), "F16": ("e", 2)}[form]
    return struct.unpack(f"<{len(data) // size}{code}", data)


def encode(form, values):
    if form == "BF16":
        words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
        rounded = ((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words)
        return struct.pack(f"<{len(words)}H", *rounded)
    return struct.pack(f"<{len(values)}{ {'F64': 'd', 'F32': 'f', 'F16': 'e'}[form]}", *values)


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    form = sys.argv[3]
    target.mkdir()
    for path in source.iterdir():
        if path.is_file() and path.name != "model.safetensors":
            shutil.copy(path, target)
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "dtype": NAMES[form]}))
    tensors, _ = safetensors_reader.read_bytes(source / "model.safetensors")
    converted = {
        name: (form, shape, encode(form, decode(dtype, data)))
        for name, (dtype, shape, data) in sorted(tensors.items())
    }
    safetensors_reader.write(target / "model.safetensors", converted)


main()
