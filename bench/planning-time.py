#!/usr/bin/env python3
# ===- planning-time.py - Processor seconds of poplar plan -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints how long poplar plan takes, in processor seconds of the whole command, and
how long an iteration of its plan takes when simulated: for clusters of devices of the
library, Llama 3 8B and samples of 2048 tokens. With --old, another build plans in
turns. A build that needs longer than --most seconds is said to.

  bench/planning-time.py
  bench/planning-time.py --old OTHER/bin/poplar 24 16384 exact
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

from commands import ROOT, run

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
EIGHT = ["h100", "a100-80", "a100-40", "v100-32", "l40s", "a10", "l4", "t4"]
# Types with their numbers of nodes, devices of a node, and samples.
CLUSTERS = {
    "16": ({"a100-40": 1, "v100-32": 2, "t4": 1}, 4, 256),
    "24": ({"h100": 1, "a100-80": 1, "v100-32": 1}, 8, 512),
    "256": ({"a100-80": 16, "h100": 16}, 8, 1024),
    "16384": (dict.fromkeys(EIGHT, 256), 8, 65536),
    "100032": (dict.fromkeys(EIGHT, 1563), 8, 400000),
}
CASES = [
    ("16", "auto"),
    ("16", "hybrid"),
    ("24", "hybrid"),
    ("24", "geo"),
    ("256", "exact"),
    ("256", "hybrid"),
    ("256", "auto"),
    ("16384", "exact"),
    ("16384", "auto"),
    ("100032", "exact"),
    ("100032", "auto"),
]


def write_cluster(path, nodes, per_node):
    cluster = {
        "device_types": {name: {"device": name} for name in nodes},
        "nodes": [
            {"name": f"{name}-node", "count": count, "devices": {name: per_node}}
            for name, count in nodes.items()
        ],
        "links": [
            {"inside": "nodes", "latency": 1e-5, "bandwidth": 2e11},
            {"between": "nodes", "latency": 2e-5, "bandwidth": 2.5e10},
        ],
    }
    with open(path, "w") as file:
        json.dump(cluster, file)


def plan(poplar, directory, cluster, batch, policy, most):
    """Processor seconds, and simulated seconds of an iteration; `most` and none where
    that is not enough."""

    def spend():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spend()
    result = subprocess.run(
        [poplar, "plan", "--model", directory + "/model.mlir", "--cluster", cluster,
         "--global-batch", str(batch), "--policy", policy, "-o",
         directory + "/plan.mlir"],
        capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
    )  # fmt: skip
    seconds = spend() - before
    if result.returncode < 0:
        return most, None
    if result.returncode:
        sys.exit(f"error: {poplar} with {policy}\n{result.stderr}")
    return seconds, float(re.search(r"([0-9.]+) s simulated", result.stdout)[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="devices and policies; default: all")
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--old", help="poplar of another build")
    parser.add_argument("--most", type=int, default=120, help="processor seconds")
    arguments = parser.parse_args()
    builds = [arguments.poplar] + ([arguments.old] if arguments.old else [])
    names = ["devices", "types", "policy", "plan [s]", "iteration [s]"]
    if arguments.old:
        names += ["old plan [s]", "old iteration [s]", "plan / old", "iteration / old"]
    print("| " + " | ".join(names) + " |\n" + "|" + "---|" * len(names))

    def is_wanted(case):
        sizes = [each for each in arguments.cases if each.isdigit()]
        policies = [each for each in arguments.cases if not each.isdigit()]
        return (not sizes or case[0] in sizes) and (
            not policies or case[1] in policies
        )

    with tempfile.TemporaryDirectory() as directory:
        config = os.path.join(directory, "config.json")
        with open(config, "w") as file:
            json.dump(LLAMA_8B, file)
        run(arguments.poplar, "import", config, "--seq-len", "2048", "-o",
            directory + "/model.mlir")  # fmt: skip
        for size, policy in filter(is_wanted, CASES):
            nodes, per_node, batch = CLUSTERS[size]
            cluster = os.path.join(directory, size + ".json")
            write_cluster(cluster, nodes, per_node)
            cells, found = [size, str(len(nodes)), policy], []
            for build in builds:
                seconds, iteration = plan(
                    build, directory, cluster, batch, policy, arguments.most
                )
                found.append((seconds, iteration))
                cells += (
                    [f"over {seconds}", ""]
                    if iteration is None
                    else [f"{seconds:.2f}", f"{iteration:.4f}"]
                )
            if arguments.old and all(iteration for _, iteration in found):
                (new, new_iteration), (old, old_iteration) = found
                cells += [f"{new / old:.2f}", f"{new_iteration / old_iteration:.4f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
