#!/usr/bin/env python3
# ===- simulate.py - Time to plan and simulate by number of devices --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints how long poplar plan and poplar simulate take for a 70B Llama on ever
more devices of 8 types, whose curves and links are made up. Processor seconds,
best of three; everything is counted, reading and writing files included.

  bench/simulate.py --poplar build/release/bin/poplar
"""

import argparse
import json
import resource
import sys
import tempfile

from commands import ROOT, run

LLAMA_70B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 8192,
    "initializer_range": 0.02,
    "intermediate_size": 28672,
    "max_position_embeddings": 4096,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}
TYPES = 8


def time(*command):
    """Processor seconds of a command, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = run(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = sum(
        getattr(after, part) - getattr(before, part) for part in ("ru_utime", "ru_stime")
    )
    return seconds, result.stdout


def write_cluster(path, devices, stages, latency):
    """Nodes of 8 devices of one type. Type i is i + 1 times as slow as type 0. Links
    have `latency` times what is usual."""
    types, profiles = {}, []
    for i in range(TYPES):
        name = f"type{i}"
        types[name] = {"target": "cuda:sm_80", "memory": "80GiB", "precision": "bf16"}
        profiles += [
            {
                "device_type": name,
                "stage": stage,
                "micro_batches": [1, 2, 4, 8],
                "seconds": [(i + 1) * (0.2 + b) for b in (1, 2, 4, 8)],
                "optimizer": 10.0,
            }
            for stage in stages
        ]
    cluster = {
        "device_types": types,
        "nodes": [
            {"name": f"{name}node", "count": devices // TYPES // 8, "devices": {name: 8}}
            for name in types
        ],
        "links": [
            {"inside": "nodes", "latency": 5e-6 * latency, "bandwidth": 3e11},
            {"between": "nodes", "latency": 2e-5 * latency, "bandwidth": 5e10},
        ],
        "profiles": profiles,
    }
    with open(path, "w") as file:
        json.dump(cluster, file)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--devices", default="128,256,512,1024,2048,4096,8192,16384")
    parser.add_argument("--zero", default="3")
    parser.add_argument("--micro-steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--latency", type=float, default=1, help="of links, a factor (default: 1)"
    )
    arguments = parser.parse_args()
    stages = range(4) if arguments.zero == "auto" else [int(arguments.zero)]
    print(f"{'devices':>8} {'plan [s]':>9} {'simulate [s]':>13} {'s an iteration':>15}")
    with tempfile.TemporaryDirectory() as directory:
        model, plan = directory + "/model.mlir", directory + "/plan.mlir"
        with open(directory + "/config.json", "w") as file:
            json.dump(LLAMA_70B, file)
        run(arguments.poplar, "import", directory + "/config.json", "-o", model)
        for devices in map(int, arguments.devices.split(",")):
            write_cluster(
                directory + "/cluster.json", devices, stages, arguments.latency
            )
            # The fastest types take some samples in each step.
            batch = arguments.micro_steps * 3 * devices
            planning = simulating = float("inf")
            for _ in range(arguments.rounds):
                seconds, _ = time(
                    arguments.poplar, "plan", "--model", model, "--cluster",
                    directory + "/cluster.json", "--global-batch", str(batch),
                    "--policy", "exact", "--zero", arguments.zero, "-o", plan,
                )  # fmt: skip
                planning = min(planning, seconds)
                seconds, text = time(arguments.poplar, "simulate", plan, "--json", "-")
                simulating = min(simulating, seconds)
            result = json.loads(text)["simulated_seconds"]
            print(f"{devices:8} {planning:9.2f} {simulating:13.2f} {result:15.2f}",
                  flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
