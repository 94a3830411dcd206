#!/usr/bin/env python3
# ===- check_plans.py - What the planner says of plans, and what is built --===#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ===-----------------------------------------------------------------------===#
"""Plans random clusters of host and GPU types, some of which cannot be built:
ZeRO stages 0 to 3, hybrid plans and geo plans, with interleaved stages,
recomputation, fast and slow links, and types of unlike formats. For each plan,
compares

  simulated_seconds of the plan with what `poplar simulate` says,
and, but for geo plans, of which the planner does not say it,

  the memory of ranks by the planner with what `poplar build` prints,
  the bytes that collectives and messages carry by the planner with those of
  the programs.

`poplar build` must take every plan that `poplar plan -o` writes. Quits at the
first plan that breaks a bound; --keep-going reports all of them. COUNT plans
must be of all kinds where there are 100 or more."""

import argparse
import collections
import json
import math
import os
import random
import re
import subprocess
import sys

# Of the last, no program can be built.
FORMATS = ["bf16", "f32"]
TYPES = [
    {"kind": "bf16", "device": "a100-80"},
    {"kind": "bf16", "device": "h100"},
    {"kind": "bf16", "device": "l4"},
    {"kind": "f16", "device": "t4"},
    {"kind": "f16", "device": "v100-32"},
    {"kind": "f32", "device": "v100-32", "precision": "f32"},
    {"kind": "f32", "target": "host", "precision": "f32", "memory": "1GiB",
     "threads": 1, "flops": {"f32": 5e10}, "bandwidth": 1e10},
    {"kind": "f32", "target": "host", "precision": "f32", "memory": "1GiB",
     "threads": 1, "flops": {"f32": 8e10}, "bandwidth": 2e10},
    {"kind": "", "device": "mi300x"},
]  # fmt: skip
# Where there is no plan that can be built, one line says what would help.
REFUSED = [
    "--hypothetical plans",
    "has no plan in any stage",
    "has no plan in stage",
    "exceeds the memory of its devices",
]
KINDS = [
    ("exact", []),
    ("hybrid", []),
    ("exact", ["--zero", "0"]),
    ("hybrid", ["--zero", "1"]),
    ("exact", ["--zero", "1"]),
    ("hybrid", ["--zero", "2"]),
    ("exact", ["--zero", "2"]),
    ("hybrid", ["--chunks", "2"]),
    ("exact", ["--zero", "3"]),
    ("hybrid", ["--zero", "3"]),
    ("geo", []),
    # Fewer samples than devices.
    ("hybrid", ["--tensor-degree", "4"]),
]
# What there must be of many plans.
WANTED = [
    *(f"zero {stage}" for stage in range(4)),
    *(f"group of zero {stage}" for stage in range(4)),
    "hybrid", "hybrid of one stage", "hybrid of unlike types", "interleaved",
    "recomputing", "geo", "geo of unlike types", "hybrid of shared units",
    "hybrid of unlike sharers", "hybrid of whole and shared units",
]  # fmt: skip
MANY = 100
# Least and most of what is planned, in parts of what is built. What is planned
# must fit.
SECONDS = BYTES = 0.97, 1.03
# Parts of unlike devices are rounded to whole heads.
LEAST_OF_PARTS = 0.9
MEMORY = 0.99, 1.8
PARAMETER = re.compile(r"nn\.parameter @\S+ : tensor<([0-9x]+)xf32>")
RANK = re.compile(r"^rank (\d+) .* of ([0-9.]+) MiB \((\d+) bytes\)$", re.MULTILINE)


def get_state_mib(model):
    """Of all parameters on one device."""
    elements = 0
    with open(model) as file:
        for shape in PARAMETER.findall(file.read()):
            elements += math.prod(map(int, shape.split("x")))
    return 16 * elements / (1 << 20)


def make_cluster(rng, model_mib, least=1):
    """Of `least` to three types on up to four nodes. Where one device is too small
    for the model, it takes several."""
    if rng.random() < 0.5:
        # Of one format.
        kind = rng.choice(FORMATS)
        names = [i for i, type in enumerate(TYPES) if type["kind"] == kind]
    else:
        names = range(len(TYPES))
    names = rng.sample(list(names), min(len(names), rng.randint(least, 3)))
    types = {}
    for name in names:
        own = {key: value for key, value in TYPES[name].items() if key != "kind"}
        if rng.random() < 0.6:
            # Scratch of libraries takes the rest.
            scratch = 0 if "target" in own else 34
            own["memory"] = f"{int(scratch + model_mib * rng.uniform(0.5, 2))}MiB"
        if rng.random() < 0.2:
            own["recompute"] = "recompute-attention"
        types[f"t{name}"] = own
    nodes = [
        {"name": f"n{i}", "devices": {rng.choice(list(types)): rng.randint(1, 4)}}
        for i in range(rng.randint(1, 4))
    ]
    used = {name for node in nodes for name in node["devices"]}
    between = {"between": "nodes", "latency": 1e-5,
               # Where links are slow, stages are faster than ZeRO.
               "bandwidth": rng.choice([1e6, 1e7, 1e8, 1e10])}  # fmt: skip
    inside = {"inside": "nodes", "latency": 1e-5, "bandwidth": rng.choice([1e7, 2.5e10])}
    if rng.random() < 0.3:
        between["overhead"] = rng.choice([1e-11, 1e-9])
    return {
        "device_types": {name: types[name] for name in types if name in used},
        "nodes": nodes,
        "links": [inside, between],
    }


def make_node(rng, model_mib):
    """Devices that are slow, beside how they are linked; unlike ones in a node."""
    types = {}
    for type in TYPES:
        if type.get("target") == "host":
            own = {key: value for key, value in type.items() if key != "kind"}
            if rng.random() < 0.5:
                own["memory"] = f"{int(model_mib * rng.uniform(0.7, 2))}MiB"
            types[f"t{len(types)}"] = own
    if rng.random() < 0.5:
        del types["t0"]
    counts = {name: 2 if len(types) == 1 else 1 for name in types}
    if rng.random() < 0.5:
        counts = {name: 2 * count for name, count in counts.items()}
    return {
        "device_types": types,
        "nodes": [
            {"name": f"n{i}", "devices": counts} for i in range(rng.randint(1, 2))
        ],
        "links": [
            {"inside": "nodes", "latency": 1e-6, "bandwidth": 2.5e10},
            {"between": "nodes", "latency": 1e-5, "bandwidth": rng.choice([1e8, 1e10])},
        ],
    }


def make_pairs(rng, model_mib):
    """Nodes of two devices that are small for the model, and one of larger ones."""
    small, big = (type for type in TYPES if type.get("target") == "host")
    types = {"big": big | {"memory": f"{int(model_mib * rng.uniform(1.6, 2.6))}MiB"},
             "small": small | {"memory": f"{int(model_mib * rng.uniform(0.55, 0.8))}MiB"}}  # fmt: skip
    for type in types.values():
        del type["kind"]
    if rng.random() < 0.3:
        types["big"] |= {"precision": "bf16", "flops": {"bf16": 8e10}}
        types["big"]["target"] = "host:avx512-f32"
    if rng.random() < 0.3:
        types["small"]["recompute"] = "recompute-attention"
    nodes = [{"name": "n", "devices": {"big": rng.randint(1, 2)}}]
    nodes += [
        {"name": f"n{i}", "devices": {"small": 2}} for i in range(rng.randint(1, 2))
    ]
    return {
        "device_types": types,
        "nodes": nodes,
        "links": [
            {"inside": "nodes", "latency": 1e-6, "bandwidth": 2.5e10},
            {"between": "nodes", "latency": 1e-5, "bandwidth": rng.choice([1e9, 1e10])},
        ],
    }


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def list_planned(policy, plan):
    """Of each rank in the order of the plan: memory, and what its collectives and
    messages carry in an iteration; and whether it is the first of those that share
    units, of which the plan says it."""
    if policy == "exact":
        carried = plan["collective_bytes_per_iteration"]
        return [(rank["memory"]["peak"], (carried, 0), True) for rank in plan["ranks"]]
    return [
        (
            lane["peak_bytes"],
            (lane["collective_bytes"], lane["message_bytes"]),
            number % lane["tensor_degree"] == 0 and "parts" not in lane,
        )
        for group in plan["groups"]
        for lane in group["lanes"]
        for number in range(len(lane["ranks"]))
    ]


class Checker:
    def __init__(self, arguments):
        self.arguments = arguments
        self.counts = collections.Counter()
        self.ratios = collections.defaultdict(list)
        self.failures = []

    def fail(self, text):
        if not self.arguments.keep_going:
            sys.exit(text)
        self.failures.append(text)
        print(text, flush=True)

    def compare(self, what, where, planned, built, least, most):
        """Of what was planned to what is."""
        ratio = planned / built if built else 1.0 if planned == built else 99.0
        self.ratios[what].append(ratio)
        if not least <= ratio <= most:
            self.fail(f"{where}: {what}: planned {planned}, built {built}, {ratio:.3f}")

    def check(self, name, model, batch, policy, options, cluster):
        path = os.path.join(self.arguments.directory, name)
        with open(path + ".cluster.json", "w") as file:
            json.dump(cluster, file)
        command = [
            "poplar", "plan", "--model", model, "--cluster", path + ".cluster.json",
            "--global-batch", str(batch), "--policy", policy, *options,
            "-o", path + ".mlir", "--json", path + ".json",
        ]  # fmt: skip
        planned = run(*command)
        if planned.returncode:
            lines = planned.stderr.splitlines()
            if len(lines) != 1 or not any(text in lines[0] for text in REFUSED):
                self.fail(f"{' '.join(command)}: {planned.stderr}")
            self.counts["refused"] += 1
            return
        if "hypothetical:" in planned.stdout:
            self.fail(f"{' '.join(command)}: {planned.stdout}")
        with open(path + ".json") as file:
            plan = json.load(file)
        kind = self.count(policy, plan)
        simulated = run("poplar", "simulate", path + ".mlir", "--json", "-")
        built = run("poplar", "build", path + ".mlir", "-o", path + ".job")
        for result in simulated, built:
            if result.returncode:
                self.fail(f"{path}: {result.stderr}")
                return
        simulated = json.loads(simulated.stdout)
        self.compare("seconds", path, plan["simulated_seconds"],
                     simulated["simulated_seconds"], *SECONDS)  # fmt: skip
        if policy == "geo":
            return
        peaks = {}
        for rank, memory, peak in RANK.findall(built.stdout):
            peaks[int(rank)] = int(peak)
            if int(peak) > (float(memory) + 0.05) * (1 << 20):
                self.fail(f"{path} rank {rank} has {memory} MiB, and needs {peak} bytes")
        carried = {
            rank: (part["collective_bytes"], part["message_bytes"])
            for part in simulated["rank_classes"]
            for rank in part["ranks"]
        }
        for rank, (peak, sent, is_first) in enumerate(list_planned(policy, plan)):
            where = f"{path} rank {rank}"
            most = MEMORY[1] if is_first else math.inf
            has_parts = kind.endswith("unlike sharers")
            least = LEAST_OF_PARTS if has_parts else MEMORY[0]
            self.compare("memory, " + kind, where, peak, peaks[rank], least, most)
            for what, by_plan, by_program in zip(
                ("collectives", "messages"), sent, carried[rank]
            ):
                least = LEAST_OF_PARTS if has_parts else BYTES[0]
                most = BYTES[1] if is_first else math.inf
                self.compare(f"{what}, {kind}", where, by_plan, by_program, least, most)

    def count(self, policy, plan):
        """What the plan is, in a word."""
        if policy == "exact":
            self.counts[f"zero {plan['stage']}"] += 1
            return policy
        groups = plan["groups"]
        kind = policy if len(groups) > 1 else policy + " of one stage"
        if plan.get("chunks", 1) > 1:
            kind = "interleaved"
        self.counts[kind] += 1
        lanes = [lane for group in groups for lane in group["lanes"]]
        for group in groups:
            self.counts[f"group of zero {group['zero_stage']}"] += 1
        if len({lane["device_type"] for lane in lanes}) > 1:
            self.counts[policy + " of unlike types"] += 1
        if any(lane["tensor_degree"] > 1 for lane in lanes):
            kind = policy + " of shared units"
            self.counts[kind] += 1
            if any("parts" in lane for lane in lanes):
                kind = policy + " of unlike sharers"
                self.counts[kind] += 1
        if any(len({lane["tensor_degree"] for lane in group["lanes"]}) > 1 for group in groups):
            self.counts[policy + " of whole and shared units"] += 1
        if any(lane["recompute"] != "keep" for lane in lanes):
            self.counts["recomputing"] += 1
        return kind


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory")
    parser.add_argument("models", nargs="+", help="from poplar import")
    parser.add_argument(
        "--count", type=int, default=int(os.environ.get("POPLAR_TEST_PLANS", 10)),
        help="plans (default: POPLAR_TEST_PLANS, or 10)",
    )  # fmt: skip
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true")
    arguments = parser.parse_args()
    os.makedirs(arguments.directory, exist_ok=True)
    checker = Checker(arguments)
    for index in range(arguments.first, arguments.first + arguments.count):
        rng = random.Random(f"{arguments.seed}/{index}")
        policy, options = KINDS[index % len(KINDS)]
        # Each model with plans of all kinds.
        model = arguments.models[(index + index // len(KINDS)) % len(arguments.models)]
        shares = "--tensor-degree" in options
        if shares:
            cluster = make_node(rng, get_state_mib(model))
        else:
            least = 2 if policy == "geo" else 1
            cluster = make_cluster(rng, get_state_mib(model), least)
        batch = rng.choice([1, 2, 4] if shares else [8, 12, 24])
        if shares and rng.random() < 0.5:
            options = [*options, "--zero", rng.choice(["2", "3"])]
        checker.check(f"{index}", model, batch, policy, options, cluster)
    for index in range(max(1, arguments.count // len(KINDS))):
        rng = random.Random(f"{arguments.seed}/pairs/{index}")
        model = arguments.models[index % len(arguments.models)]
        cluster, batch = make_pairs(rng, get_state_mib(model)), rng.choice([4, 6, 8])
        options = ["--chunks", "1"]
        checker.check(f"pairs{index}", model, batch, "hybrid", options, cluster)
    print("plans:", ", ".join(f"{n} {k}" for k, n in sorted(checker.counts.items())))
    for what, ratios in sorted(checker.ratios.items()):
        print(f"{what}: {len(ratios)} within {min(ratios):.3f} and {max(ratios):.3f}")
    missing = [kind for kind in WANTED if checker.counts[kind] == 0]
    if arguments.count >= MANY and missing:
        checker.fail("there is no plan of: " + ", ".join(missing))
    return len(checker.failures) > 0


if __name__ == "__main__":
    sys.exit(main())
