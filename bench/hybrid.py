#!/usr/bin/env python3
# ===- hybrid.py - Hybrid plans of many clusters ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tables of docs/hybrid-results.md, all simulated from estimates. Plans have only stages
that programs can have; device types need no runtime (--hypothetical=devices). The plan of
all types and those of each type alone are searched alike: all kinds, all recomputation.

  140b    Llama 140B on 128 + 640 accelerators of two types, as HETHUB
  columns the same rows beside plans that no program can hold (--hypothetical)
  pairs   Llama 2 70B on six pairs of accelerator types
  links   Llama 2 7B across link speeds: with pipelines and without
  builds  processor time and simulated throughput of this build and of --old, in
          turns: on the clusters of 140b and pairs, and on --random others

Needs no accelerator. POPLAR is the command, build/release/bin/poplar by
default."""

import argparse
import json
import math
import os
import random
import resource
import statistics
import subprocess
import tempfile

import drawers
from commands import ROOT, run

POPLAR = os.environ.get("POPLAR", os.path.join(ROOT, "build/release/bin/poplar"))

# Of a sample.
TOKENS = 4096

# Of the library (poplar cluster devices); GB/s between devices of a node.
PAIRS = [
    ("a100-80", 300, "v100-32", 150),
    ("h100", 450, "a100-80", 300),
    ("a800-sxm", 200, "mi250x", 50),
    ("h100", 450, "mi300x", 448),
    ("h800", 200, "a800-sxm", 200),
    ("mi300x", 448, "mi250x", 50),
]


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)
    return path


def import_model(directory, name, poplar=POPLAR):
    path = os.path.join(directory, name + ".mlir")
    run(poplar, "import", f"{ROOT}/examples/models/{name}.json", "--seq-len",
        str(TOKENS), "-o", path)  # fmt: skip
    return path


def describe(result):
    """The shape of a plan in a few words."""
    if "groups" not in result:
        return f"ZeRO stage {result['stage']}, {result['steps']} steps"
    if "schedule" not in result:
        return f"{result['policy']}, {len(result['groups'])} stages"
    lanes = []
    for index in range(len(result["groups"][0]["lanes"])):
        stages = [group["lanes"][index] for group in result["groups"]]
        counts = {}
        for stage in stages:
            kind = f"{stage['device_type']}/{stage['tensor_degree']}"
            counts[kind] = counts.get(kind, 0) + 1
        kinds = " + ".join(f"{n} {kind}" for kind, n in counts.items())
        lanes.append(
            f"{stages[0]['pipelines']} x ({kinds}), "
            f"{stages[0]['micro_batches']} x {stages[0]['micro_batch']}"
        )
    chunks = f" of {result['chunks']} chunks" if result["chunks"] > 1 else ""
    return f"{result['schedule']}{chunks}: " + ", ".join(lanes)


def get_rate(report, batch):
    """Samples a second, simulated, of the kind that is chosen; 0 where nothing fits."""
    if not report:
        return 0
    return batch / min(kind.get("simulated_seconds", math.inf) for kind in report["kinds"])


def take_type(directory, cluster, name):
    """The part of a cluster that has one device type."""
    with open(cluster) as file:
        part = json.load(file)
    part["nodes"] = [node for node in part["nodes"] if name in node["devices"]]
    part["device_types"] = {name: part["device_types"][name]}
    kept = set()
    for node in part["nodes"]:
        numbers = range(node["count"]) if "count" in node else [""]
        kept |= {f"{node['name']}{number}" for number in numbers}
    part["links"] = [
        link for link in part["links"]
        if not isinstance(link.get("inside"), list) or set(link["inside"]) <= kept
    ]  # fmt: skip
    return write_json(os.path.join(directory, "part.json"), part)


CAUSES = [
    "communication",
    "pipeline bubble",
    "imbalance of stages",
    "modes that fit in memory",
    "idle devices",
]


# Where types alone are faster by ZeRO alone or over distant devices.
OTHER_KINDS = "other kinds of plans alone"


def print_head(*first):
    names = [*first, "the others bring, of what they do alone", "samples/s",
             "best type alone", "the others bring", "U", "of U",
             "no pipelines reach, of U", "plan", *CAUSES, OTHER_KINDS,
             "CPU s"]  # fmt: skip
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names), flush=True)


def print_row(directory, problem, *first):
    """Of a model, a cluster and a batch."""
    model, cluster, batch = problem
    cpu, result = drawers.plan(POPLAR, *problem, "--hypothetical=devices")
    rate = get_rate(result, batch)
    alone = []
    with open(cluster) as file:
        names = list(json.load(file)["device_types"])
    for name in names:
        part = take_type(directory, cluster, name)
        _, report = drawers.plan(POPLAR, model, part, batch, "--hypothetical=devices")
        alone.append(get_rate(report, batch))
    alone.sort()
    bound = sum(alone)
    brought = rate - alone[-1]
    share = "-"
    gaps = ["-"] * (len(CAUSES) + 1)
    if "gap_samples_per_second" in result:
        share = f"{100 * batch / result['lower_bound_of_kinds_seconds'] / bound:.2f} %"
        lost = [result["gap_samples_per_second"][cause] for cause in CAUSES]
        lost.append(bound - result["sum_of_types_samples_per_second"])
        gaps = [f"{100 * gap / bound:.2f}" for gap in lost]
    cells = [
        *first,
        f"{100 * brought / sum(alone[:-1]):.0f} %" if alone[-2] else "alone: nothing fits",
        f"{rate:.2f}",
        f"{alone[-1]:.2f}",
        f"{brought:.2f}",
        f"{bound:.2f}",
        f"{100 * rate / bound:.2f} %",
        share,
        describe(result),
        *gaps,
        f"{cpu:.1f}",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def list_140b():
    """A type beside the A800, its cluster and a batch each."""
    for other in ("mi250x", "mi300x"):
        for batch in (512, 1536, 3072, 6144):
            yield other, f"{ROOT}/examples/clusters/{other}-and-a800.json", batch


def show_140b(directory):
    model = import_model(directory, "llama-140b")
    print_head("with", "samples an iteration")
    for other, cluster, batch in list_140b():
        print_row(directory, (model, cluster, batch), other, str(batch))


def show_columns(directory):
    model = import_model(directory, "llama-140b")
    print("| with | samples an iteration | samples/s | of pipelines that no program can "
          "hold | bound of those |")  # fmt: skip
    print("|" + "---|" * 5, flush=True)
    for other, cluster, batch in list_140b():
        held, free = (
            drawers.plan(POPLAR, model, cluster, batch, "--policy", "hybrid", option)[1]
            for option in ("--hypothetical=devices", "--hypothetical")
        )
        cells = [
            other,
            str(batch),
            f"{held['samples_per_second']:.2f}",
            f"{free['samples_per_second']:.2f}",
            f"{batch / free['lower_bound_of_kinds_seconds']:.2f}",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


def make_cluster(
    directory, fast, fast_link, slow, slow_link, nodes, each, link, slow_nodes=None
):
    """`nodes` nodes of each type, or `slow_nodes` of the slow one; links in GB/s."""
    counts = {"f": nodes, "s": slow_nodes or nodes}
    inside = [
        {"inside": [f"{name}{i}"], "latency": 1e-5, "bandwidth": speed * 1e9}
        for name, speed in (("f", fast_link), ("s", slow_link))
        for i in range(counts[name])
    ]
    between = {"between": "nodes", "latency": 1e-5, "bandwidth": link * 1e9}
    cluster = {
        "device_types": {fast: {"device": fast}, slow: {"device": slow}},
        "nodes": [
            {"name": "f", "count": counts["f"], "devices": {fast: each}},
            {"name": "s", "count": counts["s"], "devices": {slow: each}},
        ],
        "links": [*inside, between],
    }
    # A node that is the only one of its kind has no number.
    for node in cluster["nodes"]:
        if counts[node["name"]] == 1:
            del node["count"]
            for entry in inside:
                if entry["inside"] == [node["name"] + "0"]:
                    entry["inside"] = [node["name"]]
    if each == 1:
        cluster["links"] = [between]
    return write_json(os.path.join(directory, "cluster.json"), cluster)


def show_pairs(directory):
    model = import_model(directory, "llama-70b")
    print_head("types")
    for fast, fast_link, slow, slow_link in PAIRS:
        cluster = make_cluster(
            directory, fast, fast_link, slow, slow_link, nodes=8, each=8, link=50
        )
        print_row(directory, (model, cluster, 1024), f"64 {fast} + 64 {slow}")


def show_links(directory):
    model = import_model(directory, "llama-2-7b")
    batch = 256
    print("| GB/s | ZeRO alone s | pipelines s | distant devices s | plan | CPU s |")
    print("|" + "---|" * 6, flush=True)
    for link in (0.3, 1, 3, 10, 30, 100, 300):
        cluster = make_cluster(
            directory, "a100-80", 300, "v100-32", 150, nodes=2, each=8, link=link
        )
        cpu, result = drawers.plan(
            POPLAR, model, cluster, batch, "--hypothetical=devices"
        )
        cells = [f"{link:g}"]
        for kind in result["kinds"]:
            seconds = kind.get("simulated_seconds")
            cells.append(f"{seconds:.3f}" if seconds else "no faster one")
        cells += [describe(result), f"{cpu:.1f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def draw_cases(directory, count):
    """A name, a model, a cluster and a batch each: the same whenever asked for."""
    cases = []
    for other, cluster, batch in list_140b():
        cases.append((f"140b, {other}, {batch}", "llama-140b", cluster, batch))
    for number in range(len(PAIRS) + count):
        dice = random.Random(number)
        pair = PAIRS[number % len(PAIRS)]
        folder = os.path.join(directory, str(number))
        os.mkdir(folder)
        if number < len(PAIRS):
            cluster = make_cluster(folder, *pair, nodes=8, each=8, link=50)
            cases.append((f"70b, {pair[0]}, {pair[2]}", "llama-70b", cluster, 1024))
            continue
        nodes, slow_nodes = dice.randint(1, 6), dice.randint(1, 6)
        each, link = dice.choice((1, 2, 4, 8)), dice.choice((1.25, 3, 12.5, 25, 50))
        model = dice.choice(("llama-2-7b", "mistral-7b", "llama-70b"))
        batch = dice.choice((64, 100, 256, 500, 1024))
        cluster = make_cluster(
            folder, *pair, nodes, each, link, slow_nodes=slow_nodes
        )
        devices = f"{nodes} x {each} {pair[0]}, {slow_nodes} x {each} {pair[2]}"
        cases.append((f"{model}, {devices}, {link} GB/s, {batch}", model, cluster, batch))
    return cases


def time_plan(poplar, model, cluster, batch, *options):
    """Processor seconds and the share of U that is reached; none where no plan fits,
    or none of a type alone."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = subprocess.run(
        [poplar, "plan", "--model", model, "--cluster", cluster, "--global-batch",
         str(batch), "--policy", "hybrid", "--json", "-", *options],
        capture_output=True, text=True,
    )  # fmt: skip
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if result.returncode:
        return seconds, None
    found = json.loads(result.stdout)
    # U had another name.
    bound = found.get(
        "sum_of_types_samples_per_second", found["upper_bound_samples_per_second"]
    )
    return seconds, found["samples_per_second"] / bound if bound else None


def show_builds(directory, arguments):
    """Builds before --hypothetical plan what need not be buildable without being asked.
    Costs may be others: throughput is compared as a share of what types do alone."""
    options = ["--hypothetical"]
    builds = {
        "old": (arguments.old, options if arguments.old_hypothetical else []),
        "new": (POPLAR, options),
    }
    models = {}
    print("| cluster | old CPU s | new CPU s | new to old | old, of U | new, of U | "
          "new to old |")  # fmt: skip
    print("|" + "---|" * 7, flush=True)
    times, rates = [], []
    for name, model, cluster, batch in draw_cases(directory, arguments.random):
        found = {}
        for build, (poplar, options) in builds.items():
            if (build, model) not in models:
                folder = os.path.join(directory, build)
                os.makedirs(folder, exist_ok=True)
                models[build, model] = import_model(folder, model, poplar)
            found[build] = time_plan(
                poplar, models[build, model], cluster, batch, *options
            )
        (old_time, old_rate), (new_time, new_rate) = found["old"], found["new"]
        times.append((old_time, new_time))
        cells = [name, f"{old_time:.2f}", f"{new_time:.2f}", f"{new_time / old_time:.2f}"]
        if old_rate and new_rate:
            rates.append(new_rate / old_rate)
            cells += [f"{100 * old_rate:.2f} %", f"{100 * new_rate:.2f} %"]
            cells.append(f"{rates[-1]:.4f}")
        else:
            cells += ["none", "none", ""]
        print("| " + " | ".join(cells) + " |", flush=True)
    ratios = [new / old for old, new in times]
    print(f"\n{len(times)} clusters: processor time in all "
          f"{sum(new for _, new in times) / sum(old for old, _ in times):.2f}x, "
          f"median {statistics.median(ratios):.2f}x, most {max(ratios):.2f}x; "
          f"share of U geometric mean "
          f"{math.exp(statistics.mean(map(math.log, rates))):.4f}x, least "
          f"{min(rates):.4f}x")  # fmt: skip


def main():
    tables = {
        "140b": show_140b,
        "columns": show_columns,
        "pairs": show_pairs,
        "links": show_links,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=[*tables, "builds"], nargs="+")
    parser.add_argument("--old", help="poplar of another build, for builds")
    parser.add_argument(
        "--old-hypothetical", action="store_true", help="the old build has --hypothetical"
    )
    parser.add_argument(
        "--random", type=int, default=50, help="random clusters, for builds (default: 50)"
    )
    arguments = parser.parse_args()
    if "builds" in arguments.table and not arguments.old:
        parser.error("builds needs --old")
    with tempfile.TemporaryDirectory() as directory:
        for table in arguments.table:
            if table == "builds":
                show_builds(directory, arguments)
            else:
                tables[table](directory)


if __name__ == "__main__":
    main()
