#!/usr/bin/env python3
# ===- lossy.py - Lossy collectives beside exact ones ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures what collectives in bf16 and in blocks of int8 save, and cost.

Two ranks on two nodes that are faked on this machine. Each plan is built with
exact collectives, and with lossy ones.

  curves   all train on the same text for as many steps, without a link. Printed:
           the loss at the end (mean of the last steps), its difference from the
           exact one, and the largest difference of any step's loss. Means over a
           window are compared, too: single steps differ by the noise of their
           batches as soon as two runs are not the same to the bit. As a scale:
           exact collectives with another seed of the weights and the data.
  times    all run in turns on a slow link that is injected in the communicator
           (--link-delay). Printed: the median time of a step, as a ratio to that
           of the exact job; and what poplar simulate predicts for it.

Needs a build, two cores and mpirun:
  bench/lossy.py --poplar build/release/bin/poplar
  bench/lossy.py --only times --gbps 0.02
"""

import argparse
import csv
import json
import os
import re
import statistics
import sys
import tempfile

from commands import ROOT, run
from workshop import WARMUP_STEPS, FakedJob, write_equal_hosts

EXACT = "exact"
FORMATS = {
    EXACT: "",
    "bf16": "gradient_wire bf16 parameter_wire bf16",
    "i8": "gradient_wire i8",
    "i8, parameters bf16": "gradient_wire i8 parameter_wire bf16",
    "i8, parameters i8": "gradient_wire i8 parameter_wire i8",
}


class Job(FakedJob):
    def __init__(self, arguments, directory, stage, name):
        self.arguments, self.directory = arguments, directory
        exact = os.path.join(directory, f"plan-{stage}.mlir")
        if not os.path.exists(exact):
            run(
                arguments.poplar, "plan", "--model", directory + "/model.mlir",
                "--cluster", directory + "/cluster.json", "--global-batch",
                str(arguments.batch), "--zero", str(stage), "--leave-out", "none",
                *(["--state", "equal"] if stage > 0 else []), "-o", exact,
            )  # fmt: skip
        wires = FORMATS[name]
        if stage == 0:
            wires = re.sub(r" ?parameter_wire \w+", "", wires)
        with open(exact) as file:
            text = file.read()
        place = re.compile(r'(zero\.plan [^{]*?policy "\w+")')
        assert len(place.findall(text)) == 1
        self.plan = os.path.join(directory, f"{name}-{stage}.mlir".replace(" ", ""))
        with open(self.plan, "w") as file:
            file.write(place.sub(rf"\1 {wires}", text))
        path = self.plan.removesuffix(".mlir")
        run(arguments.poplar, "build", self.plan, "-o", path)
        super().__init__(path, arguments.batch, arguments.seq_len)

    def losses(self, *flags):
        self.train(self.arguments.steps, *flags)
        with open(os.path.join(self.out, "metrics.csv"), newline="") as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]

    def seconds(self, link):
        """Median of a step."""
        self.train(WARMUP_STEPS + self.arguments.timed, link=link)
        return self.get_step_seconds(WARMUP_STEPS)

    def simulated(self):
        path = os.path.join(self.directory, "simulated.json")
        run(self.arguments.poplar, "simulate", self.plan, "--json", path)
        with open(path) as file:
            return json.load(file)["simulated_seconds"]


def windows(losses, size):
    return [
        statistics.fmean(losses[end - size : end])
        for end in range(size, len(losses) + 1)
    ]


def print_table(columns):
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns), flush=True)


def compare_curves(arguments, jobs):
    print(f"\nLosses over {arguments.steps} steps, windows of {arguments.window}.")
    print_table(
        ["stage", "collectives", "last window", "difference", "largest difference of a window", "of a step"]
    )  # fmt: skip
    for stage, formats in jobs.items():
        exact = formats[EXACT].losses()
        runs = {EXACT: exact, "exact, another seed": formats[EXACT].losses("--seed", "2")}  # fmt: skip
        for name, job in formats.items():
            if name != EXACT:
                runs[name] = job.losses()
        theirs = windows(exact, arguments.window)
        for name, losses in runs.items():
            ours = windows(losses, arguments.window)
            most = max(abs(a - b) for a, b in zip(ours, theirs))
            step = max(abs(a - b) for a, b in zip(losses, exact))
            print(
                f"| {stage} | {name} | {ours[-1]:.4f} | {ours[-1] - theirs[-1]:+.1e} "
                f"| {most:.1e} | {step:.1e} |",
                flush=True,
            )
            if arguments.curves:
                path = f"{arguments.curves}-{stage}-{name}.csv".replace(", ", "-")
                with open(path.replace(" ", "-"), "w") as file:
                    file.writelines(f"{i + 1},{x}\n" for i, x in enumerate(losses))


def compare_times(arguments, jobs, link):
    print(f"\nTime of a step on a link of {arguments.gbps} GB/s, exact = 1.")
    print_table(["stage", "collectives", "measured", "simulated", "speed-up"])
    for stage, formats in jobs.items():
        times = {name: [] for name in formats}
        for _ in range(arguments.rounds):
            for name, job in formats.items():
                times[name].append(job.seconds(link))
        median = {name: statistics.median(list) for name, list in times.items()}
        exact = formats[EXACT].simulated()
        for name, job in formats.items():
            ratio = median[name] / median[EXACT]
            print(
                f"| {stage} | {name} | {ratio:.2f} | {job.simulated() / exact:.2f} "
                f"| {1 / ratio:.2f} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--config", default=ROOT + "/examples/models/tiny-llama.json")
    parser.add_argument("--target", default="host")
    parser.add_argument("--stages", default="0,2")
    parser.add_argument("--formats", help="some of: " + "; ".join(FORMATS))
    parser.add_argument("--batch", type=int, default=8, help="samples of a step")
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--steps", type=int, default=500, help="of a curve")
    parser.add_argument("--window", type=int, default=25)
    parser.add_argument("--curves", help="prefix of files for the curves")
    parser.add_argument("--timed", type=int, default=10, help="steps of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-us", type=float, default=200)
    parser.add_argument("--gbps", type=float, default=0.01, help="1e9 bytes/s")
    parser.add_argument("--only", choices=["curves", "times"])
    arguments = parser.parse_args()
    arguments.poplar = os.path.abspath(arguments.poplar)
    names = arguments.formats.split(";") if arguments.formats else list(FORMATS)
    with tempfile.TemporaryDirectory() as directory:
        write_equal_hosts(
            directory + "/cluster.json", arguments.target,
            arguments.latency_us * 1e-6, arguments.gbps * 1e9, 0.005,
        )  # fmt: skip
        run(arguments.poplar, "import", arguments.config, "--seq-len",
            str(arguments.seq_len), "-o", directory + "/model.mlir")  # fmt: skip
        jobs = {}
        for stage in map(int, arguments.stages.split(",")):
            jobs[stage] = {}
            for name in dict.fromkeys([EXACT, *map(str.strip, names)]):
                # In stage 0 parameters are not sent.
                if stage > 0 or "," not in name:
                    jobs[stage][name] = Job(arguments, directory, stage, name)
        if arguments.only != "times":
            compare_curves(arguments, jobs)
        if arguments.only != "curves":
            compare_times(
                arguments, jobs, f"{arguments.latency_us},{arguments.gbps}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
