# ===- production_kernels.py - Kernels at the widths of models -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checks the kernels of models of a directory, each in an order of threads of its
own, on an emulated GPU."""

import glob
import os
import shutil
import subprocess
import sys

QUICK = ["gpt2-124m-bf16", "llama-0.5b-bf16"]
# Tables of hundreds of MiB, which no test machine has the memory for.
HUGE = {"llama-70b", "llama-140b"}

models, directory = sys.argv[1:]
sets = ["library-wide"] + QUICK
if os.environ.get("POPLAR_TEST_ALL_WIDTHS"):
    for path in sorted(glob.glob(os.path.join(models, "*.json"))):
        name = os.path.basename(path)[: -len(".json")]
        for precision in ("bf16", "f32"):
            if name not in HUGE and f"{name}-{precision}" not in sets:
                sets.append(f"{name}-{precision}")
for number, name in enumerate(sets, 1):
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run(["kernel-cases", "sm_90", directory, name], check=True)
    subprocess.run(
        ["check-kernels", os.path.join(directory, name)],
        env=dict(os.environ, POPLAR_EMULATED_ORDER=str(number)),
        check=True,
    )
    sys.stdout.flush()
shutil.rmtree(directory, ignore_errors=True)
print("all cases passed")
