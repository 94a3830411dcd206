# ===- damage_case.py - Spoils what a kernel should compute -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Changes the first number that the first case of a directory expects."""

import json
import struct
import sys

with open(sys.argv[1] + "/cases.json") as file:
    case = json.load(file)["cases"][0]
with open(sys.argv[1] + "/cases.bin", "r+b") as file:
    file.seek(case["buffers"][-1]["after"])
    file.write(struct.pack("<f", 1e6))
