# ===- check_hybrid.py - Is a hybrid plan one? -----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_hybrid.py PLAN_JSON UNITS RANKS_OF_TYPE...

Holds what `poplar plan --policy hybrid --json` wrote to what every plan must
be. RANKS_OF_TYPE is TYPE=FIRST-LAST, the ranks of the cluster."""

import json
import math
import sys

plan = json.load(open(sys.argv[1]))
units = int(sys.argv[2])
types = {}
for argument in sys.argv[3:]:
    name, _, ranks = argument.partition("=")
    first, _, last = ranks.partition("-")
    types[name] = range(int(first), int(last) + 1)

# A plan says by another name what is simulated from costs.
kind = "simulated_seconds"
if plan["simulated_from"] == "costs":
    assert kind not in plan
    kind = "simulated_from_costs_seconds"
seconds = plan[kind]
# Of the plans that are fastest by costs, the one is taken that is fastest when its
# programs are played.
if plan["simulated_from"] == "programs":
    finalists = plan["finalists"]
    costs = [finalist["simulated_from_costs_seconds"] for finalist in finalists]
    # The eight best, and those of five parts of all plans.
    assert 1 <= len(costs) <= 13 and costs == sorted(costs), costs
    best = min(finalists, key=lambda finalist: finalist["simulated_seconds"])
    assert best["simulated_seconds"] == seconds, finalists
    assert (best["schedule"], best["chunks"]) == (plan["schedule"], plan["chunks"])
    assert best["stages"] == len(plan["groups"])
else:
    assert "finalists" not in plan

# Whatever is planned by itself has groups of its own.
columns = plan.get("columns", [plan])
used = []
for column in columns:
    # Chunk by chunk, groups own units one after the other.
    next_unit = 0
    lanes = len(column["groups"][0]["lanes"])
    assert (column["chunks"] > 1) == (column["schedule"] == "interleaved")
    for chunk in range(column["chunks"]):
        for group in column["groups"]:
            assert len(group["units"]) == 2 * column["chunks"]
            first, end = group["units"][2 * chunk :][:2]
            assert first == next_unit < end, group["units"]
            next_unit = end
    for group in column["groups"]:
        assert group["zero_stage"] in ((0, 1) if len(columns) > 1 else (0, 1, 2, 3))
        assert len(group["lanes"]) == lanes
        for lane in group["lanes"]:
            assert len(lane["ranks"]) == lane["pipelines"] * lane["tensor_degree"]
            assert all(rank in types[lane["device_type"]] for rank in lane["ranks"])
            used += lane["ranks"]
            each = math.ceil(lane["samples"] / lane["pipelines"])
            assert lane["micro_batches"] == math.ceil(each / lane["micro_batch"])
            spent = sum(
                lane[k + "_seconds"] for k in ("computing", "waiting", "exchanging")
            )
            if column["chunks"] > 1:
                assert lane["micro_batches"] >= len(column["groups"])
            assert math.isclose(spent, seconds, rel_tol=1e-9)
    assert next_unit == units, next_unit
    for index in range(lanes):
        same = {tuple(g["lanes"][index][k] for k in ("pipelines", "micro_batch", "samples"))
                for g in column["groups"]}
        assert len(same) == 1, same
assert len(used) == len(set(used)), "a rank is in two groups"
samples = sum(l["samples"] for c in columns for l in c["groups"][0]["lanes"])
assert samples == plan["global_batch"]
if "columns" in plan:
    assert len(columns) == len(types) and not plan["buildable"]
# The fastest plan when simulated need not be that of least predicted time.
assert plan["lower_bound_seconds"] <= plan["predicted_seconds"] * (1 + 1e-9)
assert plan["proven"] == math.isclose(
    plan["lower_bound_seconds"], plan["predicted_seconds"], rel_tol=1e-9
)
assert plan["lower_bound_of_kinds_seconds"] <= plan["lower_bound_seconds"]
throughput = plan["global_batch"] / seconds
assert math.isclose(plan["samples_per_second"], throughput, rel_tol=1e-9)
bound = sum(plan["alone_samples_per_second"].values())
assert math.isclose(plan["sum_of_types_samples_per_second"], bound, rel_tol=1e-9)
assert throughput <= plan["upper_bound_samples_per_second"] * (1 + 1e-9)
gap = sum(plan["gap_samples_per_second"].values())
assert math.isclose(gap, bound - throughput, rel_tol=1e-6, abs_tol=1e-9 * bound)
