#!/usr/bin/env python3
# ===- hybrid.py - Hybrid plans of many clusters ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tables of docs/hybrid-results.md, all simulated from estimates, of plans that need not
be buildable (--hypothetical).

  140b    Llama 140B on 128 + 640 accelerators of two types, as HETHUB
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


def plan(model, cluster, batch, *options):
    """The plan as JSON, with the processor time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    text = run(
        POPLAR, "plan", "--model", model, "--cluster", cluster,
        "--global-batch", str(batch), "--policy", "hybrid", "--hypothetical", "--json",
        "-", *options,
    ).stdout  # fmt: skip
    result = json.loads(text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result["cpu_seconds"] = after - before
    return result


def get_columns(result):
    """Whatever is planned by itself has a schedule, chunks and groups."""
    return result.get("columns", [result])


def describe(result):
    """The shape of a plan in a few words."""
    return "; ".join(map(describe_column, get_columns(result)))


def describe_column(column):
    lanes = []
    for index in range(len(column["groups"][0]["lanes"])):
        stages = [group["lanes"][index] for group in column["groups"]]
        counts = {}
        for stage in stages:
            kind = f"{stage['device_type']}/{stage['tensor_degree']}"
            counts[kind] = counts.get(kind, 0) + 1
        kinds = " + ".join(f"{n} {kind}" for kind, n in counts.items())
        lanes.append(
            f"{stages[0]['pipelines']} x ({kinds}), "
            f"{stages[0]['micro_batches']} x {stages[0]['micro_batch']}"
        )
    chunks = f" of {column['chunks']} chunks" if column["chunks"] > 1 else ""
    return f"{column['schedule']}{chunks}: " + ", ".join(lanes)


CAUSES = [
    "communication",
    "pipeline bubble",
    "imbalance of stages",
    "modes that fit in memory",
    "idle devices",
]


def print_head(*first):
    names = [*first, "the others bring, of what they do alone", "samples/s",
             "best type alone", "the others bring", "U", "of U",
             "no plan reaches, of U", "plan", *CAUSES, "CPU s"]  # fmt: skip
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names), flush=True)


def print_row(problem, *first):
    """Of a model, a cluster and a batch."""
    result = plan(*problem)
    bound = result["sum_of_types_samples_per_second"]
    most = result["global_batch"] / result["lower_bound_of_kinds_seconds"]
    alone = sorted(result["alone_samples_per_second"].values())
    brought = result["samples_per_second"] - alone[-1]
    cells = [
        *first,
        f"{100 * brought / sum(alone[:-1]):.0f} %",
        f"{result['samples_per_second']:.2f}",
        f"{alone[-1]:.2f}",
        f"{brought:.2f}",
        f"{bound:.2f}",
        f"{100 * result['samples_per_second'] / bound:.2f} %",
        f"{100 * most / bound:.2f} %",
        describe(result),
        *(f"{100 * result['gap_samples_per_second'][c] / bound:.2f}" for c in CAUSES),
        f"{result['cpu_seconds']:.1f}",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def show_140b(directory):
    model = import_model(directory, "llama-140b")
    print_head("with", "samples an iteration")
    for other in ("mi250x", "mi300x"):
        cluster = f"{ROOT}/examples/clusters/{other}-and-a800.json"
        for batch in (512, 1536, 3072, 6144):
            print_row((model, cluster, batch), other, str(batch))


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
        print_row((model, cluster, 1024), f"64 {fast} + 64 {slow}")


def show_links(directory):
    model = import_model(directory, "llama-2-7b")
    batch = 256
    print("| GB/s | ZeRO alone | closed form s | simulated s | hybrid | closed form "
          "s | simulated s | choice |")  # fmt: skip
    print("|" + "---|" * 8, flush=True)
    for link in (0.3, 1, 3, 10, 30, 100, 300):
        cluster = make_cluster(
            directory, "a100-80", 300, "v100-32", 150, nodes=2, each=8, link=link
        )
        hybrid = plan(model, cluster, batch)
        pure = hybrid["without_pipelines"]
        cells = [
            f"{link:g}",
            f"stage {pure['zero_stage']}",
            f"{pure['predicted_seconds']:.3f}",
            f"{pure['simulated_seconds']:.3f}",
            describe(hybrid),
            f"{hybrid['predicted_seconds']:.3f}",
            f"{hybrid['simulated_from_costs_seconds']:.3f}",
            hybrid["choice"],
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


def draw_cases(directory, count):
    """A name, a model, a cluster and a batch each: the same whenever asked for."""
    cases = []
    for other in ("mi250x", "mi300x"):
        cluster = f"{ROOT}/examples/clusters/{other}-and-a800.json"
        for batch in (512, 1536, 3072, 6144):
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
    tables = {"140b": show_140b, "pairs": show_pairs, "links": show_links}
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
