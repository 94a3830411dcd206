# ===- split_checkpoint.py - Divide a checkpoint into parts ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: split_checkpoint.py FROM TO

Copies the files of checkpoint FROM to TO, the tensors in two parts and the list of
parts that transformers writes."""

import json
import pathlib
import shutil
import struct
import sys


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir()
    for path in source.iterdir():
        if path.is_file() and path.name != "model.safetensors":
            shutil.copy(path, target)
    content = (source / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    header.pop("__metadata__", None)
    parts, weight_map = [{}, {}], {}
    for number, (name, entry) in enumerate(sorted(header.items())):
        parts[number % 2][name] = entry
        weight_map[name] = f"model-{number % 2 + 1:05}-of-00002.safetensors"
    for number, part in enumerate(parts):
        described, bytes_of_part = {}, b""
        for name, entry in part.items():
            begin, end = entry["data_offsets"]
            described[name] = {**entry, "data_offsets": [len(bytes_of_part), len(bytes_of_part) + end - begin]}
            bytes_of_part += data[begin:end]
        text = json.dumps(described).encode()
        path = target / f"model-{number + 1:05}-of-00002.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes_of_part)
    index = {"metadata": {"total_size": len(data)}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))


main()
