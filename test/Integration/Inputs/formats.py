# ===- formats.py - Pipelines of stages in unlike number formats ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: formats.py WORK MODEL_CONFIG CORPUS TYPES PIPELINE...

Trains pipelines whose stages keep activations in f16 (`half`), bf16 (`brain`)
and f32 (`full`), and holds their losses to those of one device in f32. An
overflow in one stage skips the step on all ranks, and halves the one loss scale
there is."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys

STEPS = 6
# f16 and bf16 round activations to 2^-11 and 2^-8 of their size.
TOLERANCE = 1e-3
TYPES = {
    "half": {"target": "host:f16-storage"},
    "brain": {"target": "host", "precision": "bf16"},
    "full": {"target": "host"},
}
COMMON = {"memory": "1GiB", "threads": 1, "bandwidth": 1e9,
          "flops": {"f32": 1e9}}  # fmt: skip
# 2^40 overflows in f16 however small a gradient is; it takes 11 halvings or more
# until none does.
TOO_LARGE, MANY = 2.0**40, 40


def run(*command):
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True,
                            env={**os.environ, "POPLAR_LOCAL": "1"})  # fmt: skip
    if result.returncode:
        sys.exit(f"{' '.join(words)}:\n{result.stdout}{result.stderr}")
    return result.stdout


def train(job, out, corpus, steps, *flags):
    shutil.rmtree(out, ignore_errors=True)
    text = run("poplar", "train", job, "--data", corpus, "--steps", steps, "--eval-every",
               0, "--log-every", 1, "--out", out, *flags)  # fmt: skip
    with open(os.path.join(out, "metrics.csv")) as file:
        return text, [float(row["loss"]) for row in csv.DictReader(file)]


def write_cluster(path, names):
    types = {}
    for name in names:
        formats = {"half": "f16", "brain": "bf16"}.get(name, "f32")
        types[name] = {**COMMON, **TYPES[name], "flops": {formats: 1e9}}
    with open(path, "w") as file:
        json.dump({
            "device_types": types,
            "nodes": [{"name": "localhost", "devices": {name: 3 for name in names}}],
            "links": [{"inside": "nodes", "latency": 1e-6, "bandwidth": 1e9}],
        }, file)  # fmt: skip


def main():
    work, config, corpus, names, *pipelines = sys.argv[1:]
    model, cluster = work + "/model.mlir", work + "/cluster.json"
    with open(config) as file:
        text = re.sub(r'("num_hidden_layers"|"n_layer"): \d+', r"\1: 4", file.read())
    with open(work + "/config.json", "w") as file:
        file.write(text)
    run("poplar", "import", work + "/config.json", "--seq-len", 32, "-o", model)
    run("poplar", "build", model, "-o", work + "/one")
    _, expected = train(work + "/one", work + "/alone", corpus, STEPS,
                        "--global-batch", 8, "--batch", 8)  # fmt: skip
    write_cluster(cluster, names.split(","))
    for number, pipeline in enumerate(pipelines):
        stages, *flags = pipeline.split()
        plan, job = f"{work}/plan{number}.mlir", f"{work}/job{number}"
        run("poplar", "plan", "--model", model, "--cluster", cluster, "--global-batch", 8,
            "--pipeline", stages, "--micro-batch", 2, *flags, "-o", plan)  # fmt: skip
        run("poplar", "build", plan, "-o", job)
        _, losses = train(job, work + "/run", corpus, STEPS, "--check-replicas",
                          "--check-allocations")  # fmt: skip
        worst = max(abs(a / b - 1) for a, b in zip(losses, expected))
        print(f"{pipeline}: losses of {len(losses)} steps within {worst:.1e} of f32")
        if len(losses) != STEPS or not worst <= TOLERANCE:
            sys.exit(f"error: {losses}, expected {expected}")
        if "half" not in pipeline:
            continue
        text, losses = train(job, work + "/run", corpus, MANY, "--loss-scale", TOO_LARGE)
        skipped = text.count("skipped by all ranks: gradients have overflowed in f16")
        print(f"{pipeline}: {skipped} of {MANY} steps skipped from scale 2^40 on")
        # Skipped steps change nothing but the batch; then it learns.
        if not 11 <= skipped < MANY - 5 or not losses[-1] < losses[0]:
            sys.exit(f"error: {text}")


main()
