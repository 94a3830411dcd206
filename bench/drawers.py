#!/usr/bin/env python3
# ===- drawers.py - Five drawers of cards, five jobs -----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Plans five jobs on five clusters of unlike cards that people own, without any
option, and compares the plan with those of every other policy and setting. Prints
the simulated seconds of an iteration from estimates, what the best of all other
settings takes, and the processor seconds of the planning:

  bench/drawers.py
  bench/drawers.py --drawers d3 --jobs 1b,8b --settings

Exits with 1 if another setting has a faster plan.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile

from commands import ROOT, run
from simulate import LLAMA_70B

SETTINGS = importlib.import_module("check-plans").SETTINGS


def llama(hidden, layers, intermediate, **fields):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "intermediate_size": intermediate, "vocab_size": 128256,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0, "hidden_act": "silu", **fields,
    }  # fmt: skip


# The sizes of Llama 3.2 and 3.
LLAMA_1B = llama(2048, 16, 8192, tie_word_embeddings=True, head_dim=64)
LLAMA_8B = llama(4096, 32, 14336, tie_word_embeddings=False)
LORA = ("--lora-rank", "16", "--lora-alpha", "32")
# Configuration, options of poplar import, samples of an iteration.
JOBS = {
    "gpt2": (None, ("--seq-len", "1024"), 512),
    "1b": (LLAMA_1B, ("--seq-len", "2048"), 64),
    "8b-lora": (LLAMA_8B, ("--seq-len", "2048", *LORA), 16),
    "8b": (LLAMA_8B, ("--seq-len", "2048"), 32),
    "70b-qlora": (LLAMA_70B, ("--seq-len", "2048", *LORA, "--frozen-format", "nf4"), 8),
}


def link(latency, bandwidth, **ends):
    return {**(ends or {"between": "nodes"}), "latency": latency, "bandwidth": bandwidth}


# Nodes, and links within and between them.
DRAWERS = {
    "d1": ({"box": {"rtx3090": 1, "rtx4090": 1}}, [link(2e-5, 12e9, inside="nodes")]),
    "d2": (
        {"old": {"rtx2080ti": 2}, "mid": {"rtx3090": 1}, "pro": {"a6000": 1}},
        [link(2e-5, 10e9, inside="nodes"), link(5e-5, 1.25e9)],
    ),
    "d3": (
        {"ampere": {"a100-40": 4}, "volta0": {"v100-32": 4}, "volta1": {"v100-32": 4},
         "turing": {"t4": 4}},
        [link(1e-5, 200e9, inside=["ampere"]),
         link(1e-5, 100e9, inside=["volta0", "volta1"]),
         link(2e-5, 10e9, inside=["turing"]), link(1e-5, 12.5e9)],
    ),
    "d4": (
        {"g6": {"l4": 4}, "g5": {"a10": 4}, "g4": {"t4": 4}},
        [link(2e-5, 12e9, inside="nodes"), link(4e-5, 3.125e9)],
    ),
    "d5": ({"home1": {"rtx4090": 1}, "home2": {"rtx4090": 1}}, [link(0.015, 12.5e6)]),
}  # fmt: skip


def write_cluster(path, nodes, links):
    names = {name for devices in nodes.values() for name in devices}
    with open(path, "w") as file:
        json.dump({
            "device_types": {name: {"device": name} for name in sorted(names)},
            "nodes": [{"name": it, "devices": devices} for it, devices in nodes.items()],
            "links": links,
        }, file)  # fmt: skip


def plan(poplar, model, cluster, batch, *options):
    """Processor seconds, and the report of the plan; none where there is none."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [poplar, "plan", model, "--cluster", cluster, "--global-batch", str(batch),
         "--json", "-", *options],
        capture_output=True, text=True,
    )  # fmt: skip
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return seconds, json.loads(done.stdout) if done.returncode == 0 else None


def find_best_setting(*job):
    """The least simulated seconds of all settings, and the setting."""
    best, name = float("inf"), ""
    for policy, options in SETTINGS:
        _, report = plan(*job, "--policy", policy, *options)
        if report and report["simulated_seconds"] < best:
            best, name = report["simulated_seconds"], " ".join((policy, *options))
    return best, name


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--drawers", default=",".join(DRAWERS))
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--settings", action="store_true", help="try all other settings")
    arguments = parser.parse_args()
    failures = 0
    columns = ["drawer", "job", "seconds", "policy", "ZeRO alone", "CPU s"]
    columns += ["best setting", "auto / best"] if arguments.settings else []
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.jobs.split(","):
            config, options, batch = JOBS[name]
            model, path = f"{directory}/{name}.mlir", ROOT + "/examples/models/gpt2-124m.json"
            if config:
                path = directory + "/config.json"
                with open(path, "w") as file:
                    json.dump(config, file)
            run(arguments.poplar, "import", path, *options, "-o", model)
            for drawer in arguments.drawers.split(","):
                cluster = f"{directory}/{drawer}.json"
                write_cluster(cluster, *DRAWERS[drawer])
                job = (arguments.poplar, model, cluster, batch)
                cpu, report = plan(*job)
                seconds = report["simulated_seconds"] if report else float("inf")
                zero = report and report["kinds"][0].get("simulated_seconds")
                row = [drawer, name, f"{seconds:.4g}", report["policy"] if report else "none",
                       f"{zero / seconds:.2f} times" if zero else "none", f"{cpu:.1f}"]  # fmt: skip
                if arguments.settings:
                    best, setting = find_best_setting(*job)
                    failures += best < seconds * (1 - 1e-6)
                    both_none = best == seconds == float("inf")
                    row += [setting or "none", "" if both_none else f"{seconds / best:.4f}"]
                print(f"| {' | '.join(row)} |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
