# ===- check_tensor_plan.py - Is a plan what the planner says? -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_tensor_plan.py PLAN_MLIR PLAN_JSON CLUSTER_JSON

Compares the groups and ranks that `poplar plan --policy hybrid -o` wrote with
what `--json` says of the plan, and with the cluster: who shares units, on which
node, and that the samples add up."""

import json
import re
import sys

text = open(sys.argv[1]).read()
plan = json.load(open(sys.argv[2]))
cluster = json.load(open(sys.argv[3]))

node_of = []
for node in cluster["nodes"]:
    count = node.get("count", 1)
    for index in range(count):
        name = node["name"] + (str(index) if count > 1 else "")
        node_of += [name] * sum(node["devices"].values())

written = [
    {
        "units": [int(unit) for unit in units.split(",")],
        "stage": int(stage),
        # One number for all pipelines, or one for each.
        "tensor": [int(degree) for degree in re.findall(r"\d+", tensor or "1")],
        "ranks": [],
    }
    for units, stage, tensor in re.findall(
        r"zero\.group units \[([\d, ]+)\] stage (\d)(?: tensor (\d+|\[[\d, ]+\]))?\n", text
    )
]
for device_type, node, group, *batch, recompute in re.findall(
    r'zero\.rank @(\S+) node "(\S+)"(?: group (\d+))? '
    r'micro_batch (\d+) steps (\d+) last (\d+)(?:.* recompute "(\S+)")?',
    text,
):
    policy = recompute or cluster["device_types"][device_type].get("recompute", "keep")
    written[int(group or 0)]["ranks"].append((device_type, node, *map(int, batch), policy))

assert len(written) == len(plan["groups"]), len(written)
assert f"global_batch {plan['global_batch']} " in text
batches = []  # by group and pipeline
for mine, said in zip(written, plan["groups"]):
    assert mine["units"] == said["units"] and mine["stage"] == said["zero_stage"]
    degrees = [lane["tensor_degree"] for lane in said["lanes"] for _ in range(lane["pipelines"])]
    assert mine["tensor"] == (degrees[:1] if len(set(degrees)) == 1 else degrees), mine["tensor"]
    assert len(mine["ranks"]) == sum(degrees)
    ranks, batches_of_group = iter(mine["ranks"]), []
    for lane in said["lanes"]:
        numbers, samples = iter(lane["ranks"]), 0
        for _ in range(lane["pipelines"]):
            share = [next(ranks) for _ in range(lane["tensor_degree"])]
            assert len(set(share)) == 1, share
            device_type, node, micro_batch, steps, last, recompute = share[0]
            assert (device_type, recompute) == (lane["device_type"], lane["recompute"])
            assert {node_of[next(numbers)] for _ in share} == {node}, node
            assert 1 <= micro_batch <= lane["micro_batch"] and steps <= lane["micro_batches"]
            samples += (steps - 1) * micro_batch + last
            batches_of_group.append((micro_batch, steps, last))
        assert samples == lane["samples"], samples
    batches.append(batches_of_group)
assert all(group == batches[0] for group in batches)
total = sum((steps - 1) * micro_batch + last for micro_batch, steps, last in batches[0])
assert total == plan["global_batch"], total
assert any(degree > 1 for group in written for degree in group["tensor"])
