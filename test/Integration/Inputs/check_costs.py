# ===- check_costs.py - Are plans by cost the best of all parts? -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_costs.py DIRECTORY MODEL CLUSTER BATCH OPTION...

Plans MODEL by hand on every part of CLUSTER whose devices of each type are all,
half, a quarter, ... or none, prices the plans by the ranks that they have, and
compares the best of them with what `poplar plan` chooses by each objective and
limit, and with the frontier that it lists. Each type is in one node, so that a
part says which devices are left."""

import itertools
import json
import subprocess
import sys

directory, model, path, batch, *given = sys.argv[1:]
cluster = json.load(open(path))
names = sorted(cluster["device_types"])
counts = {name: sum(node["devices"].get(name, 0) for node in cluster["nodes"])
          for name in names}  # fmt: skip


def run(*arguments):
    return subprocess.run(["poplar", *arguments], capture_output=True, text=True)


def plan(cluster_path, *options):
    """Seconds and cost of a plan; none, with the error, where there is none."""
    out, figures = f"{directory}/plan.mlir", f"{directory}/simulated.json"
    done = run("plan", model, "--cluster", cluster_path, "--global-batch", batch,
               *given, "-o", out, *options)  # fmt: skip
    if done.returncode:
        return None, done.stderr
    assert run("simulate", out, "--json", figures).returncode == 0
    seconds = json.load(open(figures))["simulated_seconds"]
    price = 0.0
    for rank in json.load(open(figures))["rank_classes"]:
        device = cluster["device_types"][rank["device_type"]]
        price += len(rank["ranks"]) * device["price"]
    return (seconds, seconds * price / 3600), ""


def halve(count):
    values = [0]
    while count:
        values.append(count)
        count //= 2
    return values


by_hand = []
for choice in itertools.product(*(halve(counts[name]) for name in names)):
    if not any(choice):
        continue
    part = json.loads(json.dumps(cluster))
    left = dict(zip(names, choice))
    for node in part["nodes"]:
        node["devices"] = {name: left[name] for name in node["devices"] if left[name]}
    gone = {node["name"] for node in part["nodes"] if not node["devices"]}
    part["nodes"] = [node for node in part["nodes"] if node["name"] not in gone]
    part["links"] = [it for it in part["links"] if not gone & set(it.get("between", []))]
    with open(f"{directory}/part.json", "w") as file:
        json.dump(part, file)
    found, _ = plan(f"{directory}/part.json")
    if found:
        by_hand.append(found)
assert len(by_hand) > 3, by_hand

fastest, cheapest = min(by_hand), min(by_hand, key=lambda it: it[1])
middle = ((fastest[0] + cheapest[0]) / 2, (fastest[1] + cheapest[1]) / 2)


def expect(best, *options):
    found, error = plan(path, *options)
    assert found, error
    assert all(abs(a / b - 1) < 1e-6 for a, b in zip(found, best)), (options, found, best)


assert cheapest[1] < fastest[1] * 0.99 and fastest[0] < cheapest[0] * 0.99, by_hand
expect(fastest, "--objective", "time")
expect(cheapest, "--objective", "cost")
expect(
    min((it for it in by_hand if it[0] <= middle[0]), key=lambda it: it[1]),
    "--objective", "cost", "--deadline", str(middle[0]),
)  # fmt: skip
expect(min(it for it in by_hand if it[1] <= middle[1]), "--budget", str(middle[1]))

done = run("plan", model, "--cluster", path, "--global-batch", batch, "--objective",
           "cost", *given, "--json", f"{directory}/report.json")  # fmt: skip
assert done.returncode == 0, done.stderr
report = json.load(open(f"{directory}/report.json"))
frontier = [(it["simulated_seconds"], it["cost"]) for it in report["frontier"]]
expected = []
for it in sorted(by_hand):
    if not expected or it[1] < expected[-1][1] * (1 - 1e-9):
        expected.append(it)
assert len(frontier) == len(expected), (frontier, expected)
for own, other in zip(frontier, expected):
    assert all(abs(a / b - 1) < 1e-6 for a, b in zip(own, other)), (frontier, expected)
assert report["parts"] == len(list(itertools.product(
    *(halve(counts[name]) for name in names)))) - 1  # fmt: skip

found, error = plan(path, "--objective", "cost", "--deadline", str(fastest[0] / 100))
assert not found and "no plan is within the limits" in error, error
print(f"{len(by_hand)} parts; from {fastest} to {cheapest}")
