# ===- damage_case.py - Spoils what a kernel should compute -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Changes the first number that the first case of a directory expects; with
--kernel, lets the second case ask for a kernel that there is not, and prints
its name; with --product, changes what a bundle recorded of the fifth product of
its programs, in turn its result and what it is given."""

import json
import struct
import sys

directory = sys.argv[-1]
if "--product" in sys.argv:
    with open(directory + "/bundle.json") as file:
        bundle = json.load(file)
    changed = 2
    for program in bundle["programs"]:
        if "products" in program:
            program["products"][4][changed] = 1000
            changed = 3 - changed
    with open(directory + "/bundle.json", "w") as file:
        json.dump(bundle, file)
    sys.exit()
with open(directory + "/cases.json") as file:
    description = json.load(file)
if "--kernel" in sys.argv:
    case = description["cases"][1]
    case["kernel"] = "lost"
    print("damaged", case["name"])
    with open(directory + "/cases.json", "w") as file:
        json.dump(description, file)
else:
    case = description["cases"][0]
    with open(directory + "/cases.bin", "r+b") as file:
        file.seek(case["buffers"][-1]["after"])
        file.write(struct.pack("<f", 1e6))
