# ===- simulations.py - Hold simulations against closed forms --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: simulations.py MODEL_MLIR CLUSTER_JSON DIRECTORY

Two ranks of unlike speed, a node each. For every stage and some batches:
without overlap, simulated seconds are exactly what computation, the traffic
that --zero-report counts, and latencies add up to; with it, they lie between
the bounds that no schedule passes. Figures and trace agree with each other."""

import json
import os
import subprocess
import sys

MODEL, CLUSTER, DIRECTORY = sys.argv[1:]
PLAN = os.path.join(DIRECTORY, "plan.mlir")
# Of units, this model has only four.
MOST_GAP = 0.05
EXCHANGES = {"stop": 8, "targets": 8, "loss": 8, "norm": 16}  # bytes of a rank


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def expect(condition, message):
    if not condition:
        sys.exit(f"error: {message}")


def near(one, other):
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-9)


def simulate(*options):
    return json.loads(run("poplar", "simulate", PLAN, "--json", "-", *options))


def get_traffic():
    report = run(
        "poplar-opt", PLAN,
        "--pass-pipeline=builtin.module(specialize-device-types,builtin.module("
        "nn-differentiate,add-optimizer,zero-materialize),zero-report{json=true})",
        "-o", "/dev/null",
    )  # fmt: skip
    return json.loads(report)["ranks"]


def get_curve(profile, batch):
    """Measured points only."""
    seconds = dict(zip(profile["micro_batches"], profile["seconds"]))
    return 0 if batch == 0 else seconds[batch]


def check_synchronous(cluster, stage):
    profiles = {
        p["device_type"]: p for p in cluster["profiles"] if p["stage"] == stage
    }
    link = cluster["links"][0]
    result = simulate("--synchronous")
    computing, update = 0, 0
    for ranks in result["rank_classes"]:
        profile = profiles[ranks["device_type"]]
        step = get_curve(profile, ranks["micro_batch"])
        own = (ranks["steps"] - 1) * step + get_curve(profile, ranks["last"])
        optimizer = profile["optimizer"] * (1 if stage == 0 else 0.5)
        expect(
            near(ranks["computing_seconds"], own + optimizer),
            f"stage {stage}: {ranks['device_type']} computes "
            f"{ranks['computing_seconds']}, expected {own} + {optimizer}",
        )
        computing, update = max(computing, own), max(update, optimizer)
    traffic = get_traffic()[0]
    # An all-reduce has the latency of two.
    latencies = traffic["collectives"] + traffic["all_reduce"]["collectives"]
    expected = (
        computing
        + update
        + (latencies + len(EXCHANGES)) * link["latency"]
        + (traffic["received_bytes"] + sum(EXCHANGES.values())) / link["bandwidth"]
    )
    expect(
        near(result["simulated_seconds"], expected),
        f"stage {stage}: {result['simulated_seconds']} s simulated without overlap, "
        f"expected {expected}",
    )
    return expected


def check_prediction(result, stage):
    """The planner has simulated the same, and its closed form is close to it."""
    with open(PLAN + ".json") as file:
        plan = json.load(file)
    expect(
        near(plan["simulated_seconds"], result["simulated_seconds"]),
        f"stage {stage}: {result['simulated_seconds']} s simulated, "
        f"{plan['simulated_seconds']} s by the planner",
    )
    expect(plan["predicted_seconds"] == result["predicted_seconds"], "predictions")
    gap = result["simulated_seconds"] / result["predicted_seconds"] - 1
    expect(abs(gap) < MOST_GAP, f"stage {stage}: the closed form is {gap:.1%} off")


def check_figures(result):
    for ranks in result["rank_classes"]:
        parts = [ranks[f"{part}_seconds"] for part in ("computing", "waiting", "exposed")]
        expect(near(sum(parts), result["simulated_seconds"]), f"{ranks}: parts")
        expect(min(parts) >= -1e-12 and ranks["hidden_seconds"] >= -1e-12, f"{ranks}")


def check_trace(result, iterations):
    path = os.path.join(DIRECTORY, "trace.json")
    run("poplar", "simulate", PLAN, "--trace", path, "--iterations", str(iterations))
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    for process, ranks in enumerate(result["rank_classes"]):
        totals = {}
        for thread in (0, 1):
            lane = [
                e for e in events
                if e["ph"] == "X" and (e["pid"], e["tid"]) == (process, thread)
            ]  # fmt: skip
            expect(lane, f"process {process} has no events on thread {thread}")
            end = 0
            for event in lane:
                expect(event["ts"] >= end - 0.01, f"{event} overlaps another one")
                end = event["ts"] + event["dur"]
                kind = event["cat"]
                totals[kind] = totals.get(kind, 0) + event["dur"] * 1e-6 / iterations
        for kind, seconds in (
            ("compute", ranks["computing_seconds"]),
            ("wait for link", ranks["exposed_seconds"]),
            ("collective", ranks["exposed_seconds"] + ranks["hidden_seconds"]),
        ):
            # Times in a trace are rounded to a nanosecond.
            expect(abs(totals.get(kind, 0) - seconds) < 1e-5, f"{kind} in the trace")


def main():
    with open(CLUSTER) as file:
        cluster = json.load(file)
    for stage in range(4):
        for batch in (2, 20):
            run(
                "poplar", "plan", "--model", MODEL, "--cluster", CLUSTER,
                "--global-batch", str(batch), "--zero", str(stage), "--policy",
                "uniform", "--bucket-bytes", "0", "-o", PLAN, "--json",
                PLAN + ".json",
            )  # fmt: skip
            synchronous = check_synchronous(cluster, stage)
            result = simulate()
            check_figures(result)
            check_figures(simulate("--synchronous"))
            scheduled = result["simulated_seconds"]
            check_prediction(result, stage)
            computing = max(r["computing_seconds"] for r in result["rank_classes"])
            expect(
                computing < scheduled < synchronous,
                f"stage {stage}: {scheduled} s simulated with overlap, "
                f"{synchronous} s without, {computing} s of computation",
            )
            three = simulate("--iterations", "3")
            expect(
                near(three["simulated_seconds"], scheduled), "iterations differ"
            )
            check_trace(result, 1)
            check_trace(result, 2)
            print(f"stage {stage}, {batch} samples: {scheduled:.6f} s")


main()
