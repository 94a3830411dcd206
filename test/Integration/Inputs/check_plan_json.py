# ===- check_plan_json.py - Does the JSON of a plan add up? ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_plan_json.py PLAN_JSON [PLAN_MLIR]

Checks what has to hold of any plan, and that the JSON says what the MLIR says."""

import json
import re
import sys


def check(condition, text):
    if not condition:
        sys.exit(f"error: {text}")


def same(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def check_plan(plan):
    ranks = plan["ranks"]
    check(ranks, "there are no ranks")
    check([rank["rank"] for rank in ranks] == list(range(len(ranks))), "order")
    check(
        sum(rank["samples"] for rank in ranks) == plan["global_batch"],
        "samples do not add up to the global batch",
    )
    held = sum(rank["state_share"] for rank in ranks)
    check(same(held, plan["replicas"]), "shares of the state")
    for rank in ranks:
        samples = (rank["steps"] - 1) * rank["micro_batch"] + rank["last"]
        check(samples == rank["samples"], f"samples of {rank}")
        check(rank["limited_by"] in ("memory", "profile", "speed", "remainder"), "limit")
        memory = rank["memory"]
        largest = max(rank["last"], rank["micro_batch"] if rank["steps"] > 1 else 0)
        peak = memory["fixed"] + largest * memory["per_sample"]
        check(peak == memory["peak"] <= memory["available"], f"memory of {rank}")
        # Everybody is done at the same time. What is left of the iteration is
        # communication that computation has not hidden.
        busy = rank["busy_seconds"] + rank["waiting_seconds"]
        sync = plan["sync_seconds_per_iteration"]
        sync += plan["sync_seconds_per_step"] * plan["steps"]
        meetings = plan["steps"] if plan["stage"] >= 2 else 1
        exposed = plan["predicted_seconds"] - busy - sync
        rounding = 1e-9 * plan["predicted_seconds"]
        hideable = plan["hideable_sync_seconds"] * meetings
        check(-rounding <= exposed <= hideable + rounding, f"time of {rank}")
    devices = sum(type["devices"] for type in plan["device_types"])
    check(devices == len(ranks) + sum(plan["left_out"].values()), "devices")
    check(len(plan["what_if"]) == len(plan["device_types"]), "what_if")
    check({a["stage"] for a in plan["alternatives"]} == {0, 1, 2, 3}, "stages")
    simulated = plan["simulated"]
    check(simulated, "nothing was simulated")
    least = min(other["simulated_seconds"] for other in simulated)
    check(
        simulated[0]["simulated_seconds"] == plan["simulated_seconds"]
        and plan["simulated_seconds"] <= least * (1 + 1e-9),
        "the plan is not the best that was simulated",
    )
    for other in simulated:
        gap = other["simulated_seconds"] / other["predicted_seconds"] - 1
        check(abs(gap - other["gap"]) < 1e-9, f"gap of {other}")
    for other in plan["alternatives"]:
        check(("seconds" in other) != ("error" in other), f"alternative {other}")


def check_text(plan, text):
    stage, batch = re.search(r"zero.plan stage (\d) global_batch (\d+)", text).groups()
    check((int(stage), int(batch)) == (plan["stage"], plan["global_batch"]), "plan")
    pattern = r'zero.rank @(\S+) node "(\S+)" micro_batch (\d+) steps (\d+) last (\d+)'
    keys = ("device_type", "node", "micro_batch", "steps", "last")
    ours = [tuple(str(rank[key]) for key in keys) for rank in plan["ranks"]]
    check(ours == re.findall(pattern, text), "ranks differ from the MLIR")


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    check_plan(plan)
    for path in sys.argv[2:]:
        with open(path) as file:
            check_text(plan, file.read())


main()
