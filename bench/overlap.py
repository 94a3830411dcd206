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
exchange. The oracle then exposes only what the link needs beyond all computation:
it hides min(link, computation).

On a machine that is busy with other work, use --priority: without it, ranks are
delayed by what else runs there, more than by the link.

Needs a build, two cores and mpirun:
  bench/overlap.py --poplar build/release/bin/poplar
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile

from commands import ROOT, run
from workshop import FakedJob, come_first, write_equal_hosts

WARMUP_STEPS = 3


class Job(FakedJob):
    def __init__(self, arguments, directory, stage, synchronous):
        self.arguments = arguments
        kind = "synchronous" if synchronous else "scheduled"
        super().__init__(
            os.path.join(directory, f"{kind}-{stage}"), arguments.batch, arguments.seq_len
        )
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
        steps = WARMUP_STEPS + self.arguments.steps
        output = self.train(steps, link=link)
        busy = float(re.search(r"(\S+) s on the link", output).group(1))
        return self.get_step_seconds(WARMUP_STEPS), busy / steps


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


def measure(arguments, directory, stage):
    jobs = {kind: Job(arguments, directory, stage, kind == "synchronous")
            for kind in ("synchronous", "scheduled")}  # fmt: skip
    latency, bandwidth = arguments.latency_us * 1e-6, arguments.gbps * 1e9
    link = f"{arguments.latency_us},{arguments.gbps}"
    median, link_seconds = measure_times(arguments, jobs, link)
    compute = median["scheduled", ""]
    oracle = 0
    if not arguments.shared:
        report = jobs["scheduled"].report
        link_seconds = (
            report["received_bytes"] / bandwidth + report["collectives"] * latency
        )
        oracle = unhideable(jobs["scheduled"], bandwidth, latency)
    oracle = max(oracle, link_seconds - compute)
    for kind in jobs:
        exposed = max(0, median[kind, link] - median[kind, ""])
        hidden = (link_seconds - exposed) / (link_seconds - oracle)
        print(
            f"| {stage} | {kind} | {median[kind, ''] / compute:.2f} "
            f"| {link_seconds / compute:.2f} | {median[kind, link] / compute:.2f} "
            f"| {exposed / compute:.2f} | {oracle / compute:.2f} "
            f"| {100 * hidden:.0f} % |",
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
    parser.add_argument("--priority", action="store_true",
                        help="ranks come before other work; for root")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.priority:
        come_first()
    arguments.poplar = os.path.abspath(arguments.poplar)
    print("All times are per step, relative to the scheduled step without link.")
    columns = ["stage", "collectives", "step without link", "link", "step",
               "exposed", "oracle", "hidden"]  # fmt: skip
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    with tempfile.TemporaryDirectory() as directory:
        write_equal_hosts(
            directory + "/cluster.json", arguments.target,
            arguments.latency_us * 1e-6, arguments.gbps * 1e9, 0.1,
            one_node=arguments.shared,
        )  # fmt: skip
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
