#!/usr/bin/env python3
# ===- compare_weights.py - A model with more rows has the same others ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""compare_weights.py OLD NEW: fails unless each tensor of NEW/model.safetensors begins
with the bytes of OLD's; a head that OLD lacks, with those of its embedding."""

import json
import pathlib
import sys

EMBEDDING = "model.embed_tokens.weight"


def read(directory):
    data = (pathlib.Path(directory) / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        name: (entry["shape"], data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def main():
    old, new = read(sys.argv[1]), read(sys.argv[2])
    missing = set(old) - set(new)
    assert not missing, missing
    for name, (shape, data) in new.items():
        old_shape, old_data = old.get(name, old[EMBEDDING])
        assert data[: len(old_data)] == old_data, name
        assert shape[1:] == old_shape[1:] and shape[0] >= old_shape[0], (name, shape)
        print(name, old_shape, shape)


if __name__ == "__main__":
    main()
