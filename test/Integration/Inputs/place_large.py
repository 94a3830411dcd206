# ===- place_large.py - A network of 1,000 devices -------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: place_large.py SCRATCH_DIR

Places 8 stages on 1,000 devices in a minute of one core, which ends the search
otherwise, and prices the placement, and one by chance, from the definitions."""

import json
import math
import os
import random
import resource
import subprocess
import sys

DEVICES, STAGES, SECONDS = 1000, 8, 60


def make_network():
    chance = random.Random(1)
    centers = [(chance.random(), chance.random()) for _ in range(12)]
    places = [
        tuple(c + 0.02 * chance.random() for c in chance.choice(centers))
        for _ in range(DEVICES)
    ]
    far = [[math.dist(a, b) for b in places] for a in places]
    return {
        "c_dp": 0.65,
        "c_pp": 0.47,
        "delay_ms": [[1 + 100 * d for d in row] for row in far],
        "bandwidth_gbps": [[1 / (0.1 + 2 * d) for d in row] for row in far],
    }


def price(network, stages):
    """DATAP and PIPELINEP in the order and pairs given."""
    delay, bandwidth = network["delay_ms"], network["bandwidth_gbps"]

    def send(d, e, size):
        return 2 * (delay[d][e] / 1e3 + 8 * size / bandwidth[d][e])

    share = network["c_dp"] / len(stages[0])
    data = max(
        sum(send(d, e, share) for e in group if e != d)
        for group in stages
        for d in group
    )
    pipeline = sum(
        max(send(d, e, network["c_pp"]) for d, e in zip(a, b))
        for a, b in zip(stages, stages[1:])
    )
    return data, pipeline


def main():
    network = make_network()
    source = os.path.join(sys.argv[1], "large.json")
    with open(source, "w") as file:
        json.dump(network, file)
    text = subprocess.run(
        ["poplar", "place", "--network", source, "--stages", str(STAGES), "--out", "-"],
        check=True,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
    ).stdout
    result = json.loads(text)
    stages, cost = result["stages"], result["cost"]
    assert sorted(d for group in stages for d in group) == list(range(DEVICES))
    assert len(stages) == STAGES
    data, pipeline = price(network, stages)
    assert math.isclose(data, cost["data_parallel_seconds"], rel_tol=1e-9), data
    assert math.isclose(pipeline, cost["pipeline_seconds"], rel_tol=1e-9), pipeline
    assert 0 < cost["lower_bound_seconds"] <= data + pipeline
    size = DEVICES // STAGES
    order = random.Random(2).sample(range(DEVICES), DEVICES)
    by_chance = [order[j * size : (j + 1) * size] for j in range(STAGES)]
    ratio = sum(price(network, by_chance)) / (data + pipeline)
    print(f"{ratio:.1f} times as good as by chance")
    assert ratio > 2


if __name__ == "__main__":
    main()
