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

Needs no accelerator. POPLAR is the command, build/release/bin/poplar by
default."""

import argparse
import json
import os
import resource
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


def import_model(directory, name):
    path = os.path.join(directory, name + ".mlir")
    run(POPLAR, "import", f"{ROOT}/examples/models/{name}.json", "--seq-len",
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


def make_cluster(directory, fast, fast_link, slow, slow_link, nodes, each, link):
    """`nodes` nodes of each type; links in GB/s."""
    inside = [
        {"inside": [f"{name}{i}"], "latency": 1e-5, "bandwidth": speed * 1e9}
        for name, speed in (("f", fast_link), ("s", slow_link))
        for i in range(nodes)
    ]
    between = {"between": "nodes", "latency": 1e-5, "bandwidth": link * 1e9}
    cluster = {
        "device_types": {fast: {"device": fast}, slow: {"device": slow}},
        "nodes": [
            {"name": "f", "count": nodes, "devices": {fast: each}},
            {"name": "s", "count": nodes, "devices": {slow: each}},
        ],
        "links": [*inside, between],
    }
    if nodes == 1:
        for entry, name in zip(inside, "fs"):
            entry["inside"] = [name]
        for node in cluster["nodes"]:
            del node["count"]
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


def main():
    tables = {"140b": show_140b, "pairs": show_pairs, "links": show_links}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=tables, nargs="+")
    with tempfile.TemporaryDirectory() as directory:
        for table in parser.parse_args().table:
            tables[table](directory)


if __name__ == "__main__":
    main()
