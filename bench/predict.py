#!/usr/bin/env python3
# ===- predict.py - Simulated against measured ------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Holds poplar simulate against the clock, on pairs of unlike host types with a
core each.

Every type is profiled once per stage, by itself while the other core is busy.
The link of the machine is measured once (poplar cluster links), by a job that is
not among the plans. Then plans of all stages, several policies, batches and pairs
are simulated, built and run in turns; some with a link injected
(--link-delay), which their cluster declares, and in some both types share all
units. Prints, by plan, seconds of a step
by the closed form, simulated and measured (the median of all steps of all
turns), and the bytes that ranks allocate and reside in, against the plan's.

What was done is kept in --dir: run it again to go on, with more --rounds for
more turns. Needs a build, two cores, mpirun and a quiet machine:

  bench/predict.py --poplar build/release/bin/poplar
"""

import argparse
import csv
import glob
import json
import os
import re
import shutil
import statistics
import sys
import threading

from commands import ROOT, read_rates, run
from workshop import WARMUP_STEPS, Workshop, add_options

# Injected between nodes: microseconds, 1e9 bytes/s.
LINK = (200, 0.2)


class Residents(threading.Thread):
    """Watches the largest resident memory of processes by their executables."""

    def __init__(self, executables):
        super().__init__(daemon=True)
        self.executables, self.done = executables, threading.Event()
        self.bytes = {executable: 0 for executable in executables}

    def run(self):
        while not self.done.wait(0.1):
            for link in glob.glob("/proc/[0-9]*/exe"):
                try:
                    executable = os.readlink(link)
                    if executable not in self.bytes:
                        continue
                    with open(os.path.dirname(link) + "/status") as file:
                        peak = re.search(r"VmHWM:\s+(\d+) kB", file.read())
                except OSError:
                    continue  # it has just ended
                if peak:
                    size = int(peak.group(1)) * 1024
                    self.bytes[executable] = max(self.bytes[executable], size)


class Predictions(Workshop):
    def write_cluster(self, pair, linked):
        """Both on this machine, or each on a node of its own."""
        local = self.state.get("link", {"latency": 2e-5, "bandwidth": 5e9, "overhead": 0})
        link = {"inside": "nodes", **local}
        nodes = [{"name": "here", "devices": list(pair)}]
        if linked:
            # A message pays what it costs on this machine, too.
            link = {
                "between": "nodes",
                "latency": LINK[0] * 1e-6 + local["latency"],
                "bandwidth": LINK[1] * 1e9,
                "overhead": local["overhead"],
            }
            nodes = [{"name": f"node{i}", "devices": [t]} for i, t in enumerate(pair)]
        cluster = {
            "device_types": self.describe_types(pair),
            "nodes": nodes,
            "links": [link],
        }
        path = self.path("-".join(pair) + ("-linked" if linked else "") + ".json")
        with open(path, "w") as file:
            json.dump(cluster, file)
        return path

    def measure_link(self, pair):
        """By a job of its own; linked as on this machine."""
        if "link" in self.state:
            return
        print("measuring the link of the machine", flush=True)
        plan, links = self.path("link.mlir"), self.path("links.json")
        self.poplar(
            "plan", "--model", self.path("model.mlir"), "--cluster",
            self.write_cluster(pair, linked=False), "--profiles",
            self.profiles_of(pair), "--zero", 3, "--batch",
            f"{pair[0]}=1,{pair[1]}=1", "--global-batch", 2, "-o", plan,
        )  # fmt: skip
        self.poplar("build", plan, "-o", self.path("link"))
        self.poplar("cluster", "links", self.path("link"), "-o", links)
        with open(links) as file:
            link = json.load(file)["links"][0]
        self.state["link"] = {k: v for k, v in link.items() if k not in ("inside", "source")}
        self.save()

    def train(self, job, steps, flags):
        out = self.path("run")
        shutil.rmtree(out, ignore_errors=True)
        total = WARMUP_STEPS + steps
        run(
            self.path(job, "launch.sh"), "train", "--data",
            ROOT + "/examples/data/corpus.txt", "--steps", str(total),
            "--eval-every", "0", "--log-every", str(total), "--peak-gflops", "100",
            "--out", out, *flags, POPLAR_LOCAL="1",
            **({"POPLAR_FAKE_NODES": "0,1"} if "--link-delay" in flags else {}),
        )  # fmt: skip
        return read_rates(out, WARMUP_STEPS)

    def prepare(self, plan):
        """Plans, simulates and builds, unless that was done."""
        name = plan["name"]
        if name in self.state:
            return
        path, pair = self.path(name + ".mlir"), plan["pair"]
        zero = ["--zero", plan["stage"]]
        if plan["policy"].startswith("share:"):
            *parts, micro_batch = plan["policy"].removeprefix("share:").split(",")
            sharers = ",".join(f"{t}:{part}" for t, part in zip(pair, parts))
            flags = ["--pipeline", sharers, "--micro-batch", micro_batch]
        elif plan["policy"].startswith("batch:"):
            one, other = plan["policy"].removeprefix("batch:").split(",")
            flags = ["--batch", f"{pair[0]}={one},{pair[1]}={other}"]
        else:
            flags = ["--policy", plan["policy"], "--leave-out", "none"]
        self.poplar(
            "plan", "--model", self.path("model.mlir"), "--cluster",
            self.write_cluster(pair, plan["linked"]), "--profiles",
            self.profiles_of(pair), *zero, "--global-batch", plan["batch"], *flags,
            "-o", path,
        )  # fmt: skip
        built = self.poplar("build", path, "-o", self.path(name))
        result = json.loads(self.poplar("simulate", path, "--json", "-"))
        self.state[name] = {
            "predicted": result.get("predicted_seconds"),
            "simulated": result["simulated_seconds"],
            "planned": [int(n) for n in re.findall(r"\((\d+) bytes\)", built)],
            "steps": [],
            "turns": 0,
        }
        self.save()

    def turn(self, plan):
        record, name = self.state[plan["name"]], plan["name"]
        steps = max(3, int(self.arguments.turn / record["simulated"]))
        flags = ["--report-memory", self.path("memory.csv")]
        if plan["linked"]:
            flags += ["--link-delay", f"{LINK[0]},{LINK[1]}"]
        shared = plan["policy"].startswith("share:")
        executables = [
            self.path(name, f"{t}.part{i}" if shared else t, "train")
            for i, t in enumerate(plan["pair"])
        ]
        residents = Residents(executables)
        residents.start()
        rates = self.train(name, steps, flags)
        residents.done.set()
        tokens = plan["batch"] * self.tokens
        record["steps"] += [tokens / rate for rate in rates]
        record["turns"] += 1
        record["resident"] = [residents.bytes[e] for e in executables]
        with open(self.path("memory.csv"), newline="") as file:
            record["allocated"] = [int(row["peak"]) for row in csv.DictReader(file)]
        self.save()


def make_plan(index, stage, pair, policy, batch, linked):
    link = "-linked" if linked else ""
    name = f"{index:02}-stage{stage}-{policy}-{batch}-{'-'.join(pair)}{link}"
    return {"name": re.sub("[:,]", "_", name), "stage": stage, "pair": pair,
            "policy": policy, "batch": batch, "linked": linked}  # fmt: skip


def make_plans(types, count, shared):
    """Every stage with every pair, policies, batches and links in turns; then
    pairs that share units."""
    pairs = [(a, b) for i, a in enumerate(types) for b in types[i + 1 :]]
    choices = [
        ("exact", 32, False), ("uniform", 24, False), ("poplar", 40, True),
        ("exact", 17, True), ("batch:5,3", 29, False), ("uniform", 16, True),
        ("batch:4,1", 20, False),
    ]  # fmt: skip
    plans = []
    for i in range(count):
        policy, batch, linked = choices[i % len(choices)]
        plans.append(make_plan(i, i % 4, pairs[i % len(pairs)], policy, batch, linked))
    # Parts of both, and the micro-batch.
    choices = ["share:1,1,4", "share:3,2,8", "share:2,1,2"]
    for i in range(shared):
        pair = pairs[i % len(pairs)]
        plans.append(make_plan(count + i, i % 4, pair, choices[i % len(choices)], 16, False))
    return plans


def report(workshop, plans):
    print("| plan | closed form [s] | simulated [s] | measured [s] | error | allocated "
          "- planned | resident - planned [MiB] |")  # fmt: skip
    print("|" + " --- |" * 7)
    errors = []
    for plan in plans:
        record = workshop.state[plan["name"]]
        measured = statistics.median(record["steps"])
        error = record["simulated"] / measured - 1
        errors.append(abs(error))
        exact = [a - p for a, p in zip(record["allocated"], record["planned"])]
        more = [
            f"{(r - p) / 2**20:.0f}" for r, p in zip(record["resident"], record["planned"])
        ]
        predicted = f"{record['predicted']:.4f}" if record["predicted"] else ""
        print(
            f"| {plan['name']} | {predicted} | {record['simulated']:.4f} | "
            f"{measured:.4f} | {100 * error:+.1f} % | {exact} | {', '.join(more)} |"
        )
    print(
        f"{len(errors)} plans: error of the simulation {100 * statistics.median(errors):.1f} "
        f"% in the median, {100 * max(errors):.1f} % at worst"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "predict")
    parser.add_argument("--plans", type=int, default=24)
    parser.add_argument("--shared", type=int, default=6, help="plans of shared units")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    workshop = Predictions(arguments)
    types = workshop.get_types()
    if len(types) < 2:
        print(f"this CPU has one usable host type: {types}")
        return 3
    workshop.make_model()
    plans = make_plans(types, arguments.plans, arguments.shared)
    for plan in plans:
        pair = plan["pair"]
        workshop.profile(pair, workshop.write_cluster(pair, linked=False))
    workshop.measure_link((types[0], types[-1]))
    for plan in plans:
        workshop.prepare(plan)
    for number in range(1, arguments.rounds + 1):
        for plan in plans:
            if workshop.state[plan["name"]]["turns"] < number:
                print(f"turn {number}: {plan['name']}", flush=True)
                workshop.turn(plan)
    report(workshop, plans)
    return 0


if __name__ == "__main__":
    sys.exit(main())
