# ===- check_links.py - Links as they were measured ------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_links.py FILE LATENCY BANDWIDTH

Both directions between two nodes must have been found to be about that, seconds
and bytes per second: no faster, and slower by what a busy machine adds. What
they take away from computation is no more than a microsecond a byte."""

import json
import sys


def main():
    path, latency, bandwidth = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    with open(path) as file:
        links = json.load(file)["links"]
    ends = sorted((link["from"], link["to"]) for link in links)
    if ends != [("left", "right"), ("right", "left")]:
        sys.exit(f"error: links of {ends}")
    for link in links:
        if not 0.9 * latency < link["latency"] < 10 * latency:
            sys.exit(f"error: latency of {link}")
        if not 0.3 * bandwidth < link["bandwidth"] < 1.2 * bandwidth:
            sys.exit(f"error: bandwidth of {link}")
        if not 0 <= link["overhead"] < 1e-6:
            sys.exit(f"error: overhead of {link}")


main()
