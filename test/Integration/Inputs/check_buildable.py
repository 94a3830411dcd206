#!/usr/bin/env python3
# ===- check_buildable.py - Plans are built --------------------------------===#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===#
"""usage: check_buildable.py MODEL_MLIR DIR COUNT [SEED]

Plans COUNT random clusters of host and GPU types, some of which cannot be
built, by --policy exact and hybrid. What `poplar plan -o` writes, `poplar build`
must take, and `poplar simulate` must find to take as long as the planner says."""

import json
import os
import random
import re
import subprocess
import sys

# Of the last, no program can be built; of those in f16, no pipeline stage.
TYPES = [
    {"device": "a100-80"},
    {"device": "t4"},
    {"device": "v100-32"},
    {"device": "v100-32", "precision": "f32"},
    {"target": "host", "precision": "f32", "memory": "1GiB",
     "threads": 1, "flops": {"f32": 5e10}, "bandwidth": 1e10},
    {"device": "mi300x"},
]  # fmt: skip
# Where there is no plan that can be built, one line says what would help.
REFUSED = [
    "--hypothetical plans",
    "has no plan in any stage",
    "exceeds the memory of its devices",
]


def make_cluster(rng):
    types = {f"t{i}": t for i, t in enumerate(rng.sample(TYPES, rng.randint(1, 3)))}
    # Where one device is too small for the model, it takes several stages.
    for name in types:
        if rng.random() < 0.5:
            small = "14MiB" if "target" in types[name] else "56MiB"
            types[name] = {**types[name], "memory": small}
    nodes = [
        {"name": f"n{i}", "devices": {rng.choice(list(types)): rng.randint(1, 2)}}
        for i in range(rng.randint(1, 3))
    ]
    used = {name for node in nodes for name in node["devices"]}
    return {
        "device_types": {name: types[name] for name in types if name in used},
        "nodes": nodes,
        "links": [
            {"inside": "nodes", "latency": 1e-5, "bandwidth": 2.5e10},
            # Where links are slow, stages are faster than ZeRO.
            {"between": "nodes", "latency": 1e-5,
             "bandwidth": rng.choice([1e6, 1e8, 1e10])},
        ],
    }  # fmt: skip


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def check_seconds(plan):
    with open(plan) as file:
        planned = float(re.search(r"simulated_seconds = (\S+)", file.read())[1])
    result = run("poplar", "simulate", plan, "--json", "-")
    simulated = json.loads(result.stdout)["simulated_seconds"]
    if abs(simulated / planned - 1) > 0.03:
        sys.exit(f"{plan}: planned {planned} s, simulated {simulated} s")


def main():
    model, directory, count = sys.argv[1:4]
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    os.makedirs(directory, exist_ok=True)
    built = {"exact": 0, "hybrid": 0}
    for index in range(int(count)):
        cluster = os.path.join(directory, f"cluster{index}.json")
        with open(cluster, "w") as file:
            json.dump(make_cluster(rng), file)
        for policy in built:
            plan = os.path.join(directory, f"plan{index}.{policy}.mlir")
            planned = run("poplar", "plan", "--model", model, "--cluster", cluster,
                          "--global-batch", "8", "--policy", policy, "-o", plan)  # fmt: skip
            if planned.returncode:
                lines = planned.stderr.splitlines()
                if len(lines) != 1 or not any(text in lines[0] for text in REFUSED):
                    sys.exit(f"{cluster}, {policy}: {planned.stderr}")
                continue
            job = os.path.join(directory, f"job{index}.{policy}")
            result = run("poplar", "build", plan, "-o", job)
            if result.returncode or "hypothetical:" in planned.stdout:
                sys.exit(f"{plan}: {planned.stdout}{result.stderr}")
            check_seconds(plan)
            built[policy] += 1
    print("built", ", ".join(f"{n} of --policy {p}" for p, n in built.items()))


if __name__ == "__main__":
    main()
