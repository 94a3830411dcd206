# ===- cpu_share.py - Ranks that get a share of a core ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Starts two ranks that compute for a second, with a fifth of a core each."""

import subprocess
import sys

SHARE, CANNOT = 0.2, 3
RANK = """
import time
begin = time.monotonic()
while time.monotonic() - begin < 1:
    pass
print(time.process_time() / (time.monotonic() - begin))
"""


def main():
    result = subprocess.run(
        [sys.executable, sys.argv[1], "--ranks", "2", "--cpu-share", str(SHARE), "--",
         sys.executable, "-c", RANK],
        capture_output=True, text=True,
    )  # fmt: skip
    if result.returncode == CANNOT:
        if "start-ranks: cannot limit the share of a core: " not in result.stderr:
            sys.exit(f"error: no reason is given: {result.stderr}")
        return print(result.stderr.strip())
    shares = list(map(float, result.stdout.split()))
    print(shares)
    # Python has started with the rank's share, too, before it takes the time.
    if result.returncode or len(shares) != 2 or max(shares) > 2 * SHARE:
        sys.exit(f"error: {result.returncode}, shares {shares}: {result.stderr}")


main()
