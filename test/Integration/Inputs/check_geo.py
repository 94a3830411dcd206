# ===- check_geo.py - Is a plan over distant devices one? ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_geo.py PLAN_JSON UNITS CLUSTER_JSON

Holds what `poplar plan --policy geo --json` wrote to what every plan must be.
CLUSTER_JSON has nodes without counts, of one device type each."""

import json
import math
import sys

plan = json.load(open(sys.argv[1]))
units = int(sys.argv[2])
nodes = json.load(open(sys.argv[3]))["nodes"]

places = []  # by rank: device type and node
for node in nodes:
    ((kind, count),) = node["devices"].items()
    places += [(kind, node["name"])] * count

# What is simulated from costs has another name.
kind = "simulated_seconds"
if plan["simulated_from"] == "costs":
    kind = "simulated_from_costs_seconds"
assert kind in plan

next_unit, used = 0, []
pipelines = len(plan["groups"][0]["lanes"])
for group in plan["groups"]:
    assert group["units"][0] == next_unit < group["units"][1], group["units"]
    next_unit = group["units"][1]
    assert group["zero_stage"] == 1
    assert len(group["lanes"]) == pipelines
    for lane in group["lanes"]:
        assert lane["pipelines"] == 1
        assert len(lane["ranks"]) == lane["tensor_degree"]
        for rank in lane["ranks"]:
            assert places[rank] == (lane["device_type"], lane["node"]), rank
        used += lane["ranks"]
        assert lane["micro_batches"] == math.ceil(lane["samples"] / lane["micro_batch"])
        spent = sum(lane[k + "_seconds"] for k in ("computing", "waiting", "exchanging"))
        assert math.isclose(spent, plan[kind], rel_tol=1e-9)
assert next_unit == units, next_unit
assert len(used) == len(set(used)), "a rank is in two places"
for k in range(pipelines):
    same = {
        tuple(g["lanes"][k][key] for key in ("micro_batch", "micro_batches", "samples"))
        for g in plan["groups"]
    }
    assert len(same) == 1, same
assert sum(lane["samples"] for lane in plan["groups"][0]["lanes"]) == plan["global_batch"]
assert plan["lower_bound_seconds"] <= plan["predicted_seconds"]

# The links are those that stages send over, or exchange gradients.
expected = set()
for j, group in enumerate(plan["groups"]):
    here = [lane["node"] for lane in group["lanes"]]
    expected |= {frozenset((a, b)) for a in here for b in here if a != b}
    if j + 1 < len(plan["groups"]):
        there = [lane["node"] for lane in plan["groups"][j + 1]["lanes"]]
        expected |= {frozenset(pair) for pair in zip(here, there) if len(set(pair)) > 1}
assert {frozenset(link["between"]) for link in plan["links"]} == expected, expected
for link in plan["links"]:
    assert link["activation_bytes"] + link["gradient_bytes"] > 0
    assert link["seconds_if_free"] > -1e-9

seconds = {
    "geo": plan[kind],
    "hybrid": plan["hybrid"].get(kind, math.inf),
    "zero": plan["without_pipelines"].get("simulated_seconds", math.inf),
}
assert seconds[plan["choice"]] == min(seconds.values()), seconds
