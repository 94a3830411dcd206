# ===- place_networks.py - Placements, priced a second time ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: place_networks.py NETWORKS_DIR SCRATCH_DIR MOST_SECONDS

Places DT-FM's five networks with 8 stages, each in at most MOST_SECONDS of one core, and
computes what the placements cost from the definitions alone: all matchings by
thresholds and augmenting paths, all orders of the stages by recursion."""

import functools
import json
import os
import resource
import subprocess
import sys

# Seconds, rounded up in the last place given.
LIMITS = {
    "datacenter": 3.440,
    "spot": 31.64,
    "multi-datacenter": 16.09,
    "regional": 34.81,
    "worldwide": 49.22,
}


def match(cost):
    """The least possible greatest entry of a perfect matching."""
    size = len(cost)

    def augment(row, limit, seen, row_of):
        for column in range(size):
            if cost[row][column] <= limit and column not in seen:
                seen.add(column)
                other = row_of.get(column)
                if other is None or augment(other, limit, seen, row_of):
                    row_of[column] = row
                    return True
        return False

    values = sorted({entry for row in cost for entry in row})
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        row_of = {}
        if all(augment(row, values[middle], set(), row_of) for row in range(size)):
            high = middle
        else:
            low = middle + 1
    return values[low]


def price(network, stages):
    """DATAP, PIPELINEP, and the pipeline in the order and pairs given."""
    delay, bandwidth = network["delay_ms"], network["bandwidth_gbps"]
    pipelines = len(stages[0])
    data = max(
        sum(
            2 * (delay[d][e] / 1e3 + 8 * network["c_dp"] / (pipelines * bandwidth[d][e]))
            for e in group
            if e != d
        )
        for group in stages
        for d in group
    )

    def send(d, e):
        return 2 * (delay[d][e] / 1e3 + 8 * network["c_pp"] / bandwidth[d][e])

    w = [[match([[send(d, e) for e in b] for d in a]) for b in stages] for a in stages]

    @functools.lru_cache(maxsize=None)
    def shortest(last, rest):
        if not rest:
            return 0
        return min(w[last][j] + shortest(j, rest - {j}) for j in rest)

    everything = frozenset(range(len(stages)))
    path = min(shortest(j, everything - {j}) for j in everything)
    as_given = sum(max(map(send, a, b)) for a, b in zip(stages, stages[1:]))
    return data, path, as_given


def run(networks, scratch, most_seconds, name):
    out = os.path.join(scratch, name + ".json")
    path = os.path.join(networks, name + ".json")
    command = ["poplar", "place", "--network", path, "--stages", "8", "--out", out]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with open(path) as file:
        network = json.load(file)
    with open(out) as file:
        placement = json.load(file)
    stages, cost = placement["stages"], placement["cost"]
    assert sorted(sum(stages, [])) == list(range(64)), "not every device once"
    assert [len(stage) for stage in stages] == [8] * 8, "stages of unlike size"
    data, path, as_given = price(network, stages)
    for key, expected in (
        ("data_parallel_seconds", data),
        ("pipeline_seconds", path),
        ("pipeline_seconds", as_given),
        ("total_seconds", data + path),
    ):
        assert abs(cost[key] - expected) <= 1e-9 * expected, (name, key, expected)
    assert cost["lower_bound_seconds"] <= cost["total_seconds"]
    assert cost["total_seconds"] <= LIMITS[name], (name, cost)
    assert seconds < most_seconds, f"{name}: {seconds:.2f} s of computation"
    print(f"{name}: {cost['total_seconds']:.4f} s, at least {cost['lower_bound_seconds']:.4f} s")


def main():
    for name in LIMITS:
        run(sys.argv[1], sys.argv[2], float(sys.argv[3]), name)


main()
