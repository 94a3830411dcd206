#!/usr/bin/env python3
# ===- geo.py - Plans over unlike links, by simulation and by the clock ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Four nodes of two host types, each a network namespace, with a link of its own
between each two, which tc shapes (scripts/start-ranks.py --links). In one run, in
turns, this trains

  geo      the plan of poplar plan --policy geo
  hybrid   that of --policy hybrid
  equal    pipeline stages of equally many units, in the order of the cluster
  zero     ZeRO on all devices
  choice   ZeRO on the devices that the planner chooses
  random   the geo plan with its devices in other places, drawn at random: what
           DT-FM (Yuan et al., NeurIPS 2022) compares its scheduled places with

and prints the simulated and the measured seconds of a step side by side. Every rank
gets --cpu-share of a core, in its profile, too: four ranks would else wait for each
other on fewer cores. Where the kernel has no netem,
links have bandwidths but no latency, and the cluster file says none.

Needs a build, root and iproute2; without namespaces the exit status is 3.

  bench/geo.py --rounds 3"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import sys

from commands import ROOT
from workshop import Workshop, add_options

NODES = ["paris", "london", "ohio", "oregon"]
# Mbit/s: two places of two nodes, and slower links between them.
RATES = {
    ("paris", "london"): 200, ("ohio", "oregon"): 150, ("paris", "ohio"): 40,
    ("paris", "oregon"): 25, ("london", "ohio"): 15, ("london", "oregon"): 60,
}  # fmt: skip
# Of a link that is not measured: what a message through a namespace takes.
LATENCY = 1e-4


class Geo(Workshop):
    def __init__(self, arguments):
        super().__init__(arguments)
        known = self.get_types()
        self.types = [known[0], known[-1]] if len(known) > 1 else known * 2
        self.share = ["--cpu-share", str(arguments.cpu_share)]
        self.make_model()
        self.cluster = self.write_cluster()
        ranks = [sys.executable, ROOT + "/scripts/start-ranks.py", "--ranks", "1"]
        self.profile(
            sorted(set(self.types)), self.cluster, under=[*ranks, *self.share, "--"]
        )

    def write_cluster(self):
        scale = self.arguments.rate
        cluster = {
            "device_types": self.describe_types(sorted(set(self.types))),
            "nodes": [
                {"name": name, "devices": [self.types[i % 2]]}
                for i, name in enumerate(NODES)
            ],
            "links": [
                {"between": list(pair), "latency": LATENCY, "bandwidth": rate * scale / 8 * 1e6}
                for pair, rate in RATES.items()
            ],
        }  # fmt: skip
        with open(self.path("cluster.json"), "w") as file:
            json.dump(cluster, file, indent=1)
        return self.path("cluster.json")

    def plan(self, name, *flags):
        self.poplar(
            "plan", "--model", self.path("model.mlir"), "--cluster", self.cluster,
            "--profiles", self.path("profiles"), "--global-batch", self.arguments.batch,
            *flags, "-o", self.path(name + ".mlir"),
        )  # fmt: skip

    def plan_all(self):
        """The names of the plans."""
        units = "+".join(self.types[i % 2] for i in range(len(NODES)))
        self.plan("geo", "--policy", "geo")
        self.plan("hybrid", "--policy", "hybrid")
        self.plan("equal", "--pipeline", units, "--micro-batch", self.arguments.micro_batch)
        self.plan("zero", "--leave-out", "none")
        self.plan("choice", "--policy", "exact")
        names = ["geo", "hybrid", "equal", "zero", "choice"]
        with open(self.path("geo.mlir")) as file:
            text = file.read()
        places = re.findall(r"zero\.rank (@\S+ node \"\S+\")", text)
        seen, draw = {tuple(places)}, random.Random(self.arguments.seed)
        for number in range(20 * self.arguments.random):
            drawn = draw.sample(places, len(places))
            if len(seen) > self.arguments.random or tuple(drawn) in seen:
                continue
            seen.add(tuple(drawn))
            order = iter(drawn)
            moved = re.sub(r"(zero\.rank )@\S+ node \"\S+\"",
                           lambda match, order=order: match[1] + next(order), text)  # fmt: skip
            moved = re.sub(r" attributes \{predicted_seconds[^}]*\}", "", moved)
            names.append(f"random{len(seen) - 1}")
            with open(self.path(names[-1] + ".mlir"), "w") as file:
                file.write(moved)
        return names

    def prepare(self, name):
        if name in self.state:
            return
        path = self.path(name + ".mlir")
        self.poplar("build", path, "-o", self.path(name))
        simulated = json.loads(self.poplar("simulate", path, "--json", "-"))
        self.state[name] = {"simulated": simulated["simulated_seconds"], "steps": []}
        self.save()

    def take_turn(self, name):
        record, out = self.state[name], self.path("run")
        shutil.rmtree(out, ignore_errors=True)
        steps = max(3, int(self.arguments.turn / record["simulated"]))
        # One rank alone, a plan that leaves all others out, has no links.
        with open(self.path(name, "ranks.txt")) as file:
            ranks = [line for line in file if not line.startswith("#")]
        options = ["--links", self.cluster] if len(ranks) > 1 else []
        self.start(name, options + self.share, *self.get_words(steps, out))
        record["steps"] += self.read_steps(out, self.arguments.batch)
        record["turns"] = record.get("turns", 0) + 1
        self.save()

    def print_table(self, names):
        measured = {name: statistics.median(self.state[name]["steps"]) for name in names}
        best = self.state["geo"]["simulated"], measured["geo"]
        print("| plan | simulated [s] | measured [s] | error | simulated, to geo | "
              "measured, to geo |\n|" + " --- |" * 6)  # fmt: skip
        for name in names:
            simulated = self.state[name]["simulated"]
            print(f"| {name} | {simulated:.4f} | {measured[name]:.4f} | "
                  f"{100 * (simulated / measured[name] - 1):+.1f} % | "
                  f"{simulated / best[0]:.2f}x | {measured[name] / best[1]:.2f}x |")  # fmt: skip
        drawn = [measured[name] for name in names if name.startswith("random")]
        if drawn:
            print(f"places drawn at random take {min(drawn) / best[1]:.2f} to "
                  f"{max(drawn) / best[1]:.2f}x the scheduled ones, "
                  f"{statistics.median(drawn) / best[1]:.2f}x in the median")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "bench-geo")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step")
    parser.add_argument("--micro-batch", type=int, default=4, help="of the equal stages")
    parser.add_argument("--rate", type=float, default=1, help="of all links, times this")
    parser.add_argument("--cpu-share", type=float, default=0.45, help="of a core, of a rank")
    parser.add_argument("--random", type=int, default=4, help="so many drawn places")
    parser.add_argument("--seed", type=int, default=1)
    workshop = Geo(parser.parse_args())
    names = workshop.plan_all()
    for name in names:
        workshop.prepare(name)
    for number in range(1, workshop.arguments.rounds + 1):
        for name in names:
            if workshop.state[name].get("turns", 0) < number:
                print(f"turn {number}: {name}", flush=True)
                workshop.take_turn(name)
    workshop.print_table(names)


if __name__ == "__main__":
    main()
