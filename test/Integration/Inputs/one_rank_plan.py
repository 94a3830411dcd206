# ===- one_rank_plan.py - A model with a plan for one rank ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: one_rank_plan.py MODEL OUTPUT"""

import sys

import jobs

with open(sys.argv[1]) as file:
    module = file.read()
with open(sys.argv[2], "w") as file:
    file.write(jobs.add_plan(module, jobs.Plan("gpt2", 0, (jobs.Rank(3, 2, 3),))))
