#!/usr/bin/env python3
# ===- overlap.py - Communication hidden behind computation ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures how much of a slow link's time hides behind computation.

Two ranks on two nodes that are faked on this machine, joined by a link that is
injected in the communicator (--link-delay). The same plan is built twice: with
synchronous collectives, and as scheduled. Both run in turns, with the link and
without it. Per step, and as medians over the turns:

  link        seconds that the link is busy, from its bandwidth and latency
  exposed     step time with the link minus without it
  oracle      what even the best schedule of the same graph exposes: nothing can
              hide the first gather and the last reduction, nor what the link
              needs beyond all computation
  hidden      (link - exposed) / (link - oracle) of what can be hidden

With --shared the two ranks share every unit instead, and it is tokens that they
exchange: there is no oracle, and what is hidden is (link - exposed) / link.

Needs a build, two cores and mpirun:
  bench/overlap.py --poplar build/release/bin/poplar
"""

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile

from commands import ROOT, read_rates, run

WARMUP_STEPS = 3


def write_cluster(path, target, shared):
    """Two equal hosts: the profile only has to lead to equal batches. Those that
    share units are of one node."""
    profiles = [
        {
            "device_type": "host",
            "stage": stage,
            "micro_batches": [1, 2, 4, 8, 16],
            "seconds": [0.1, 0.2, 0.4, 0.8, 1.6],
        }
        for stage in range(4)
    ]
    cluster = {
        "device_types": {
            "host": {"target": target, "memory": 4 << 30, "precision": "f32"}
        },
        "nodes": [{"name": "node0", "devices": {"host": 2}}]
        if shared
        else [
            {"name": "node0", "devices": {"host": 1}},
            {"name": "node1", "devices": {"host": 1}},
        ],
        "links": [
            {
                "inside" if shared else "between": "nodes",
                "latency": 1e-4,
                "bandwidth": 1e8,
            }
        ],
        "profiles": profiles,
    }
    with open(path, "w") as file:
        json.dump(cluster, file)


class Job:
    def __init__(self, arguments, directory, stage, synchronous):
        self.arguments, self.directory = arguments, directory
        kind = "synchronous" if synchronous else "scheduled"
        self.path = os.path.join(directory, f"{kind}-{stage}")
        flags = ["--synchronous"] if synchronous else []
        if arguments.overlap_depth:
            flags += ["--overlap-depth", str(arguments.overlap_depth)]
        plan = os.path.join(directory, f"plan-{stage}.mlir")
        kind = ["--leave-out", "none"]
        if arguments.shared:
            kind = ["--pipeline", "host*1/2", "--micro-batch", str(arguments.batch)]
        run(
            arguments.poplar, "plan", "--model", directory + "/model.mlir",
            "--cluster", directory + "/cluster.json", "--global-batch",
            str(arguments.batch), "--zero", str(stage), "--bucket-bytes", "0",
            *kind,
            "-o", plan,
        )  # fmt: skip
        run(arguments.poplar, "build", plan, "-o", self.path, *flags)
        if arguments.shared:
            return
        report = run(
            os.path.join(os.path.dirname(arguments.poplar), "poplar-opt"), plan,
            "--pass-pipeline=builtin.module(specialize-device-types,"
            "builtin.module(nn-differentiate,add-optimizer,zero-materialize),"
            "zero-report{json=true})", "-o", "/dev/null",
        ).stdout  # fmt: skip
        self.report = json.loads(report)["ranks"][0]

    def turn(self, link):
        """Median seconds of a step, and those that the link is busy in one."""
        out = os.path.join(self.directory, "run")
        shutil.rmtree(out, ignore_errors=True)
        flags = ["--link-delay", link] if link else []
        steps = WARMUP_STEPS + self.arguments.steps
        output = run(
            self.path + "/launch.sh", "train", "--data",
            ROOT + "/examples/data/corpus.txt", "--data-format", "bytes", "--steps", str(steps),
            "--eval-every", "0", "--log-every", str(steps), "--out", out, *flags,
            POPLAR_LOCAL="1", POPLAR_FAKE_NODES="0,1",
        ).stdout  # fmt: skip
        tokens = self.arguments.batch * self.arguments.seq_len
        busy = float(re.search(r"(\S+) s on the link", output).group(1))
        return tokens / statistics.median(read_rates(out, WARMUP_STEPS)), busy / steps


def unhideable(job, bandwidth, latency):
    """Link seconds of the first gather and the last reduction: they belong to
    the first unit, the embedding, half of which each rank sends."""
    with open(job.arguments.config) as file:
        config = json.load(file)
    elements = config["vocab_size"] * config["hidden_size"]
    transfer = elements / 2 * 4 / bandwidth + latency
    return 2 * transfer if job.report["all_gather"]["collectives"] else transfer


def measure_times(arguments, jobs, link):
    """Median seconds of a step of each job with and without the link, and the
    link's."""
    turns = {(kind, l): [] for kind in jobs for l in ("", link)}
    for _ in range(arguments.rounds):
        for kind, l in turns:
            turns[kind, l].append(jobs[kind].turn(l))
    times = {key: statistics.median(t for t, _ in value) for key, value in turns.items()}
    busy = statistics.median(b for kind in jobs for _, b in turns[kind, link])
    return times, busy


def measure_shared(arguments, directory, stage):
    jobs = {kind: Job(arguments, directory, stage, kind == "synchronous")
            for kind in ("synchronous", "scheduled")}  # fmt: skip
    link = f"{arguments.latency_us},{arguments.gbps}"
    median, link_seconds = measure_times(arguments, jobs, link)
    compute = median["scheduled", ""]
    for kind in jobs:
        exposed = max(0, median[kind, link] - median[kind, ""])
        print(
            f"| {stage} | {kind} | {link_seconds / compute:.2f} | "
            f"{median[kind, link] / compute:.2f} | {exposed / compute:.2f} | - | "
            f"{100 * (link_seconds - exposed) / link_seconds:.0f} % |",
            flush=True,
        )


def measure(arguments, directory, stage):
    if arguments.shared:
        return measure_shared(arguments, directory, stage)
    jobs = {kind: Job(arguments, directory, stage, kind == "synchronous")
            for kind in ("synchronous", "scheduled")}  # fmt: skip
    latency, bandwidth = arguments.latency_us * 1e-6, arguments.gbps * 1e9
    link = f"{arguments.latency_us},{arguments.gbps}"
    report = jobs["scheduled"].report
    link_seconds = (
        report["received_bytes"] / bandwidth + report["collectives"] * latency
    )
    median, _ = measure_times(arguments, jobs, link)
    compute = median["scheduled", ""]
    oracle = max(
        unhideable(jobs["scheduled"], bandwidth, latency), link_seconds - compute
    )
    for kind in jobs:
        exposed = max(0, median[kind, link] - median[kind, ""])
        hidden = (link_seconds - exposed) / (link_seconds - oracle)
        print(
            f"| {stage} | {kind} | {link_seconds / compute:.2f} | "
            f"{median[kind, link] / compute:.2f} | {exposed / compute:.2f} | "
            f"{oracle / compute:.2f} | {100 * hidden:.0f} % |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--config", default=ROOT + "/examples/models/demo-llama.json")
    parser.add_argument("--target", default="host")
    parser.add_argument("--stages", default="0,1,2,3")
    parser.add_argument("--shared", action="store_true", help="ranks share all units")
    parser.add_argument("--overlap-depth", type=int, help="instead of the default")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8, help="samples of a step")
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10, help="timed, of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-us", type=float, default=200)
    parser.add_argument("--gbps", type=float, default=0.2, help="1e9 bytes/s")
    arguments = parser.parse_args()
    arguments.poplar = os.path.abspath(arguments.poplar)
    print("All times are per step, relative to the scheduled step without link.")
    columns = ["stage", "collectives", "link", "step", "exposed", "oracle", "hidden"]
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    with tempfile.TemporaryDirectory() as directory:
        write_cluster(directory + "/cluster.json", arguments.target, arguments.shared)
        with open(arguments.config) as file:
            config = json.load(file)
        # Wide enough that a step is some tenths of a second, and as deep as
        # models are: the ends of a shallow one are much of its link time.
        config.update(hidden_size=arguments.width, num_hidden_layers=arguments.layers,
                      intermediate_size=11 * arguments.width // 4)  # fmt: skip
        arguments.config = directory + "/config.json"
        with open(arguments.config, "w") as file:
            json.dump(config, file)
        run(arguments.poplar, "import", arguments.config, "--seq-len",
            str(arguments.seq_len), "-o", directory + "/model.mlir")  # fmt: skip
        for stage in map(int, arguments.stages.split(",")):
            measure(arguments, directory, stage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
