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
not among the plans. Then jobs, each of a pair, a batch and a link, which is
injected in some (--link-delay), are planned in six ways each: as poplar plan
chooses, in one stage of ZeRO, with equal or other batches, as a pipeline, as
hybrid does, and with shared units or as geo does. All plans are simulated, built
and run in turns. Prints, by plan, seconds of a step by the closed form, simulated
and measured (the median of all steps of all turns), and the bytes that ranks
allocate and reside in, against the plan's; and, by job, the chosen plan's time as
a multiple of the fastest's.

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
        path = self.path(name + ".mlir")
        self.poplar(
            "plan", "--model", self.path("model.mlir"), "--cluster",
            self.write_cluster(plan["pair"], plan["linked"]), "--profiles",
            self.profiles_of(plan["pair"]), "--global-batch", plan["batch"],
            *plan["flags"], "-o", path,
        )  # fmt: skip
        built = self.poplar("build", path, "-o", self.path(name))
        result = json.loads(self.poplar("simulate", path, "--json", "-"))
        self.state[name] = {
            "predicted": result.get("predicted_seconds"),
            "simulated": result["simulated_seconds"],
            "planned": [int(n) for n in re.findall(r"\((\d+) bytes\)", built)],
            "executables": re.findall(r"^built +(\S+/train)$", built, re.MULTILINE),
            "steps": [],
            "turns": 0,
        }
        self.save()

    def turn(self, plan):
        record, name = self.state[plan["name"]], plan["name"]
        steps = max(3, int(self.arguments.turn / record["simulated"]))
        flags = ["--report-memory", self.path("memory.csv")]
        if plan["linked"] and len(record["executables"]) == 2:
            flags += ["--link-delay", f"{LINK[0]},{LINK[1]}"]
        residents = Residents(record["executables"])
        residents.start()
        rates = self.train(name, steps, flags)
        residents.done.set()
        tokens = plan["batch"] * self.tokens
        record["steps"] += [tokens / rate for rate in rates]
        record["turns"] += 1
        record["resident"] = [residents.bytes[e] for e in record["executables"]]
        with open(self.path("memory.csv"), newline="") as file:
            record["allocated"] = [int(row["peak"]) for row in csv.DictReader(file)]
        self.save()


def make_plans(types):
    """Six plans of each job. Every stage, pair, batch and link has its turn."""
    fast, middle, slow = types[0], types[len(types) // 2], types[-1]
    jobs = [
        ((fast, slow), 32, False), ((fast, middle), 24, True), ((middle, slow), 20, False),
        ((fast, middle), 40, False), ((fast, slow), 16, True),
    ]  # fmt: skip
    others = [["--batch", (5, 3)], ["--policy", "uniform"], ["--policy", "poplar"]]
    ends, parts = [3, 4, 2], [(3, 1, 4), (1, 1, 4), (2, 1, 2)]
    plans = []
    for i, (pair, batch, linked) in enumerate(jobs):
        if pair[0] == pair[1]:
            continue
        flag, value = others[i % len(others)]
        if flag == "--batch":
            value = ",".join(f"{t}={n}" for t, n in zip(pair, value))
        *shares, micro_batch = parts[i % len(parts)]
        sharers = ",".join(f"{t}:{part}" for t, part in zip(pair, shares))
        kinds = {
            "auto": [],
            "exact": ["--policy", "exact", "--zero", i % 4, "--leave-out", "none"],
            value if flag == "--policy" else "batch": [flag, value, "--zero", (i + 2) % 4],
            "pipeline": ["--pipeline", f"{pair[0]}@{ends[i % 3]}+{pair[1]}",
                         "--micro-batch", 1 + i % 2],
            "hybrid": ["--policy", "hybrid"],
        }  # fmt: skip
        if linked:
            kinds["geo"] = ["--policy", "geo"]
        else:
            kinds["share"] = ["--pipeline", sharers, "--micro-batch", micro_batch,
                              "--zero", i % 4]  # fmt: skip
        job = f"{batch}-{'-'.join(pair)}{'-linked' if linked else ''}"
        plans += [
            {"name": f"{job}-{kind}", "job": job, "kind": kind, "pair": pair,
             "batch": batch, "linked": linked, "flags": flags}
            for kind, flags in kinds.items()
        ]  # fmt: skip
    return plans


def report_choices(workshop, plans):
    """What the chosen plan of each job takes, of the fastest plan of the job."""
    worst = 1
    for job in dict.fromkeys(plan["job"] for plan in plans):
        seconds = {
            plan["kind"]: statistics.median(workshop.state[plan["name"]]["steps"])
            for plan in plans
            if plan["job"] == job
        }
        fastest = min(seconds, key=seconds.get)
        ratio = seconds["auto"] / seconds[fastest]
        worst = max(worst, ratio)
        print(f"{job}: the chosen plan takes {ratio:.3f} of the fastest, {fastest}")
    print(f"chosen / fastest: {worst:.3f} at worst")


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
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    workshop = Predictions(arguments)
    types = workshop.get_types()
    if len(types) < 2:
        print(f"this CPU has one usable host type: {types}")
        return 3
    workshop.make_model()
    plans = make_plans(types)
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
    report_choices(workshop, plans)
    return 0


if __name__ == "__main__":
    sys.exit(main())
