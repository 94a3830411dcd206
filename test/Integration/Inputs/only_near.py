# ===- only_near.py - A cluster without its far node -----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: only_near.py CLUSTER_JSON OUTPUT_JSON"""

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        cluster = json.load(file)
    cluster["nodes"] = [n for n in cluster["nodes"] if n["name"] != "far"]
    with open(sys.argv[2], "w") as file:
        json.dump(cluster, file)


main()
