#!/usr/bin/env python3
# ===- compile-time.py - From model.mlir to an executable, by depth --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures `poplar build` for a model with its own number of layers and with
multiples of it, by phase, and once more when all kernels are in the cache. A block
is compiled once however many layers call it, so that only the lists of calls grow.

  bench/compile-time.py --poplar build/release/bin/poplar

Exits with status 1 if the model itself takes longer than --limit seconds.
"""

import argparse
import json
import os
import re
import resource
import sys
import tempfile
import time

from commands import ROOT, run

MODELS = ROOT + "/examples/models"
# The number of layers, as each family's config.json names it.
DEPTH_KEYS = ("num_hidden_layers", "n_layer")
# A phase in the report of --timing; the passes within are indented further.
PHASE = re.compile(r"([\d.]+) \( *[\d.]+%\)  (\S.*)$")


def measure(arguments, config, directory):
    """Seconds of the whole build: elapsed, of the processor, and by phase; and of the
    processor when it is built again."""
    config_path = os.path.join(directory, "config.json")
    model = os.path.join(directory, "model.mlir")
    with open(config_path, "w") as file:
        json.dump(config, file)
    import_command = [arguments.poplar, "import", config_path, "-o", model]
    run(*import_command, "--seq-len", str(arguments.seq_len))
    command = [arguments.poplar, "build", model, "-o", directory, "--timing"]
    command += ["--precision", arguments.precision]
    cache = {"POPLAR_CACHE": os.path.join(directory, "cache")}

    def build():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = run(*command, **cache).stderr
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return report, used

    start = time.monotonic()
    report, processor = build()
    total = time.monotonic() - start
    _, again = build()
    phases = {}
    for line in report.splitlines():
        match = PHASE.search(line)
        if match and match[2] not in ("Total", "Rest"):
            phases[match[2]] = float(match[1])
    return total, processor, again, phases


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", required=True, help="the driver to measure")
    parser.add_argument("--model", default="tinyllama-1.1b")
    parser.add_argument("--seq-len", type=int, default=1024)
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--multiples", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--limit", type=float, default=20, help="seconds")
    arguments = parser.parse_args()

    with open(os.path.join(MODELS, arguments.model + ".json")) as file:
        config = json.load(file)
    key = next(key for key in DEPTH_KEYS if key in config)
    depths = [config[key] * multiple for multiple in arguments.multiples]
    totals, processors, repeated, columns = [], [], [], []
    for depth in depths:
        with tempfile.TemporaryDirectory() as directory:
            total, processor, again, phases = measure(
                arguments, {**config, key: depth}, directory
            )
        totals.append(total)
        processors.append(processor)
        repeated.append(again)
        columns.append(phases)

    def show(name, values):
        print(f"{name:50}" + "".join(f"{value:>10}" for value in values))

    print(f"{arguments.model}, {arguments.precision}, {arguments.seq_len} tokens")
    show("layers", depths)
    for phase in columns[0]:
        show(phase, [f"{phases[phase]:.2f} s" for phases in columns])
    show("total", [f"{total:.2f} s" for total in totals])
    # Does not depend on what else the machine is doing.
    show("processor time", [f"{seconds:.2f} s" for seconds in processors])
    show("processor time, again", [f"{seconds:.2f} s" for seconds in repeated])
    if totals[0] > arguments.limit:
        sys.exit(f"{arguments.model} takes longer than {arguments.limit:g} s")


if __name__ == "__main__":
    main()
