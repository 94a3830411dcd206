#!/usr/bin/env python3
# ===- choice_biases.py - What is added where experts are chosen -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains programs of a golden model and compares the biases that they write with those
that they read, bit for bit; before, a layer behind the last one is added."""

import json
import os
import shutil
import struct
import subprocess
import sys

BIAS = ".e_score_correction_bias"


def read(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def write(path, tensors):
    header, offset = {}, 0
    for name, (kind, shape, data) in tensors.items():
        end = offset + len(data)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def main():
    golden, work, *programs = sys.argv[1:]
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(golden, f"{work}/model")
    tensors = read(f"{golden}/model.safetensors")
    with open(f"{golden}/config.json") as file:
        layer = f"model.layers.{json.load(file)['num_hidden_layers']}."
    for leaf in ("eh_proj.weight", "enorm.weight"):
        tensors[layer + leaf] = ("F32", [2], bytes(8))
    os.chmod(f"{work}/model/model.safetensors", 0o644)
    write(f"{work}/model/model.safetensors", tensors)
    for number, program in enumerate(programs):
        run = f"{work}/run{number}"
        command = ["poplar", "train", program, "--init", f"{work}/model", "--out", run]
        command += ["--data-ids", f"{golden}/batch3.tokens", "--batch", "2"]
        command += ["--global-batch", "3", "--threads", "2", "--weight-decay", "0.5"]
        for last in ([], ["--resume"]):
            subprocess.run(command + last + ["--steps", str(2 + 2 * len(last))], check=True)
        ours = read(f"{run}/latest/model.safetensors")
        biases = [name for name in tensors if name.endswith(BIAS)]
        assert biases and not any(name.startswith(layer) for name in ours)
        for name in biases:
            assert ours[name] == tensors[name], f"{program}: {name} is another one"
        moved = sum(ours[name] != tensors[name] for name in ours)
        assert moved > len(ours) // 2, f"{program}: only {moved} tensors are trained"
        print(f"{program}: {len(biases)} biases as they were, {moved} tensors trained")


if __name__ == "__main__":
    main()
