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
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "goldens"))
import safetensors_reader  # noqa: E402


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir()
    for path in source.iterdir():
        if path.is_file() and path.name != "model.safetensors":
            shutil.copy(path, target)
    tensors, _ = safetensors_reader.read_bytes(source / "model.safetensors")
    parts, weight_map = [{}, {}], {}
    for number, name in enumerate(sorted(tensors)):
        parts[number % 2][name] = tensors[name]
        weight_map[name] = f"model-{number % 2 + 1:05}-of-00002.safetensors"
    for number, part in enumerate(parts):
        safetensors_reader.write(target / f"model-{number + 1:05}-of-00002.safetensors", part)
    total = sum(len(data) for _, _, data in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))


main()
