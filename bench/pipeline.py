#!/usr/bin/env python3
# ===- pipeline.py - Pipeline stages on a link of a given speed ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Holds plans of pipeline stages against the clock: two unlike host types, a
core and a network namespace each, joined by a link that tc slows down
(scripts/start-ranks.py --rate).

Every type is profiled once, by itself while the other core is busy; every link
is measured once (poplar cluster links), by a job that is not among the plans.
Machines are faster at one time than at another: before each run of a plan, a
device of each type trains by itself, both at the same time, and by how much that
is slower than its profile the simulated profile is made slower, too.

  predict  many plans of stages: simulated and measured seconds of a step
  compare  at --slow and at --fast: the planner's stages, ZeRO alone, ZeRO on both
           devices, and stages of equally many units, in turns, with what was
           predicted
  chunks   at --fast: stages of one chunk, and interleaved ones of two and three
  grid     what the planner chooses from link to link, simulated; the links are
           measured

What was done is kept in --dir: run it again to go on, with more --rounds for
more turns. Needs a build, two cores, root, iproute2 and a quiet machine; without
namespaces the exit status is 3.

  bench/pipeline.py predict compare chunks grid
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

from workshop import Workshop, add_options

# Of ZeRO, in all plans: of two ranks with memory enough, none sends less.
STAGE = 1
# A link before it is measured.
GUESS = {"latency": 1e-4, "bandwidth": 1e8}
# Of the grid: below and above what compares well.
GRID = ["20mbit", "50mbit", "100mbit", "200mbit", "500mbit", "1gbit", "2gbit",
        "5gbit", "10gbit"]  # fmt: skip


class Links(Workshop):
    def write_cluster(self, name, link, types=None):
        types = types or self.types
        cluster = {
            "device_types": self.describe_types(types),
            "nodes": [{"name": f"node{i}", "devices": [t]} for i, t in enumerate(types)],
            "links": [{"between": "nodes", **link}],
        }
        path = self.path(f"cluster-{name}.json")
        with open(path, "w") as file:
            json.dump(cluster, file)
        return path

    def get_cluster(self, rate, types=None):
        """With the link as a job of ZeRO measures it."""
        links = self.state.setdefault("links", {})
        if rate not in links:
            print(f"measuring a link of {rate}", flush=True)
            self.plan("link", self.write_cluster("guess", GUESS), "--zero", STAGE,
                      "--batch", f"{self.types[0]}=1,{self.types[1]}=1",
                      "--global-batch", 2)  # fmt: skip
            self.poplar("build", self.path("link.mlir"), "-o", self.path("link"))
            self.start("link", ["--rate", rate], "links", "--out", self.path("links.json"))
            with open(self.path("links.json")) as file:
                link = json.load(file)["links"][0]
            links[rate] = {k: link[k] for k in ("latency", "bandwidth", "overhead")}
            self.save()
        return self.write_cluster(rate, links[rate], types)

    def plan(self, name, cluster, *flags):
        if "--profiles" not in flags:
            flags = ["--profiles", self.path("profiles"), *flags]
        self.poplar("plan", "--model", self.path("model.mlir"), "--cluster", cluster,
                    *flags, "-o", self.path(name + ".mlir"))  # fmt: skip

    def choose(self, cluster):
        """What the planner says of stages, and of ZeRO alone."""
        text = self.poplar(
            "plan", "--model", self.path("model.mlir"), "--cluster", cluster,
            "--profiles", self.path("profiles"), "--global-batch",
            self.arguments.batch, "--policy", "hybrid", "--json",
            "-",
        )  # fmt: skip
        return json.loads(text)

    def prepare(self, name, cluster, flags):
        """Plans, simulates and builds, unless that was done."""
        if name in self.state:
            return
        self.plan(name, cluster, *flags)
        path = self.path(name + ".mlir")
        self.poplar("build", path, "-o", self.path(name))
        result = self.simulate(path)
        self.state[name] = {
            "simulated": result["simulated_seconds"],
            "batch": result["global_batch"],
            "steps": [],
            "slower": [],
            "turns": 0,
        }
        self.save()

    def simulate(self, path):
        return json.loads(self.poplar("simulate", path, "--json", "-"))

    def prepare_alone(self):
        """A job of one device for each type."""
        for name in self.types:
            cluster = {
                "device_types": self.describe_types([name]),
                "nodes": [{"name": "here", "devices": [name]}],
                "links": [],
            }
            path, profiles = self.path("alone.json"), self.path("profile-of-one")
            with open(path, "w") as file:
                json.dump(cluster, file)
            os.makedirs(profiles, exist_ok=True)
            shutil.copy(self.path("profiles", name + ".json"), profiles + "/one.json")
            self.prepare(f"alone-{name}", path, [
                "--profiles", profiles, "--zero", STAGE, "--batch", f"{name}=4",
                "--global-batch", 8,
            ])  # fmt: skip

    def compare_alone(self):
        """How many times slower than their profiles both types are now, while
        both compute."""
        running = []
        for name in self.types:
            record, out = self.state[f"alone-{name}"], self.path(f"run-{name}")
            shutil.rmtree(out, ignore_errors=True)
            steps = max(3, int(1.5 / record["simulated"]))
            running.append((record, out, subprocess.Popen(
                [self.path(f"alone-{name}", name, "train"), *self.get_words(steps, out)],
                stdout=subprocess.DEVNULL,
            )))  # fmt: skip
        slower = []
        for record, out, process in running:
            if process.wait():
                sys.exit(f"error: {process.args} failed")
            steps = self.read_steps(out, record["batch"])
            slower.append(statistics.median(steps) / record["simulated"])
        return slower

    def take_turn(self, name, rate):
        record, out = self.state[name], self.path("run")
        record["slower"].append(self.compare_alone())
        shutil.rmtree(out, ignore_errors=True)
        steps = max(3, int(self.arguments.turn / record["simulated"]))
        self.start(name, ["--rate", rate], *self.get_words(steps, out))
        record["steps"] += self.read_steps(out, record["batch"])
        record["turns"] += 1
        self.save()

    def take_turns(self, plans, types=None):
        """Of (name, rate, flags), in all rounds that are left."""
        self.prepare_alone()
        for name, rate, flags in plans:
            self.prepare(name, self.get_cluster(rate, types), flags)
        for number in range(1, self.arguments.rounds + 1):
            for name, rate, _ in plans:
                if self.state[name]["turns"] < number:
                    print(f"turn {number}: {name}", flush=True)
                    self.take_turn(name, rate)

    def get_seconds(self, name):
        """Simulated and measured (the median of all steps) of an iteration."""
        record = self.state[name]
        slower = [statistics.median(column) for column in zip(*record["slower"])]
        with open(self.path(name + ".mlir")) as file:
            text = file.read()
        for device_type, times in zip(self.types, slower):

            def scale(match, times=times):
                seconds = [repr(float(x) * times) for x in match[2].split(",")]
                return match[1] + ", ".join(seconds)

            text = re.sub(
                rf'(cluster.profile @"{device_type}" .* seconds \[)([^]]*)', scale, text
            )
        path = self.path("slower.mlir")
        with open(path, "w") as file:
            file.write(text)
        return (self.simulate(path)["simulated_seconds"],
                statistics.median(record["steps"]))  # fmt: skip


def describe(plan):
    """The flags of poplar plan for a plan in JSON, of one pipeline."""
    stages = [
        "@".join([group["lanes"][0]["device_type"], *map(str, group["units"][1::2])])
        for group in plan["groups"]
    ]
    flags = ["--pipeline", "+".join(stages), "--micro-batch",
             plan["groups"][0]["lanes"][0]["micro_batch"], "--schedule",
             plan["schedule"]]  # fmt: skip
    return flags + ["--chunks", plan["chunks"]] if plan["chunks"] > 1 else flags


def predict(workshop):
    """Cuts, orders, batches, schedules and links in turns."""
    fast, slow = workshop.types
    units = workshop.layers + 2
    plans = []
    for i in range(workshop.arguments.plans):
        cut = (units * 5 // 6, units * 2 // 3, units // 2, units * 3 // 4)[i % 4]
        first, second = (fast, slow) if i % 3 else (slow, fast)
        end = cut if i % 3 else units - cut
        rate = ("100mbit", "300mbit", "1gbit")[i % 3 - i // 6]
        micro_batch, schedule = (1, 2, 4)[i % 3], ("1f1b", "gpipe")[i // 2 % 2]
        batch = (24, 32, 17, 40)[i // 3 % 4]
        name = f"{i:02}-{first}-{end}-{second}-{schedule}-{batch}-by-{micro_batch}-{rate}"
        plans.append((name, rate, [
            "--pipeline", f"{first}@{end}+{second}", "--micro-batch", micro_batch,
            "--schedule", schedule, "--global-batch", batch,
        ]))  # fmt: skip
    workshop.take_turns(plans)
    print("| plan | simulated [s] | measured [s] | error |\n|" + " --- |" * 4)
    errors = []
    for name, _, _ in plans:
        simulated, measured = workshop.get_seconds(name)
        errors.append(simulated / measured - 1)
        print(f"| {name} | {simulated:.4f} | {measured:.4f} | {100 * errors[-1]:+.1f} % |")
    errors = [abs(error) for error in errors]
    print(
        f"{len(errors)} plans of stages: error of the simulation "
        f"{100 * statistics.median(errors):.1f} % in the median, "
        f"{100 * max(errors):.1f} % at worst"
    )


def compare(workshop):
    fast, slow = workshop.types
    batch = ["--global-batch", workshop.arguments.batch]
    points = {"slow": workshop.arguments.slow, "fast": workshop.arguments.fast}
    found = {where: workshop.choose(workshop.get_cluster(rate))
             for where, rate in points.items()}  # fmt: skip
    # Where the planner's best plan has one stage, the stages of the other link
    # stand for what it decides against.
    cut = [plan for plan in found.values() if len(plan["groups"]) > 1]
    if not cut:
        sys.exit("error: the planner's best plan has one stage on both links")
    stages = {
        where: describe(plan if len(plan["groups"]) > 1 else cut[0])
        for where, plan in found.items()
    }
    plans = []
    for where, rate in points.items():
        micro_batch = stages[where][stages[where].index("--micro-batch") + 1]
        plans += [
            (f"{where}-stages", rate, stages[where] + batch),
            (f"{where}-zero", rate, ["--zero", STAGE, *batch]),
            (f"{where}-both", rate, ["--zero", STAGE, "--leave-out", "none", *batch]),
            (f"{where}-uniform", rate, ["--pipeline", f"{fast}+{slow}", "--micro-batch",
                                        micro_batch, *batch]),
        ]  # fmt: skip
    workshop.take_turns(plans)
    print("| link | plan | simulated [s] | measured [s] | error | measured, to the stages "
          "of the planner |\n|" + " --- |" * 6)  # fmt: skip
    names = {
        "stages": "stages of the planner",
        "zero": "ZeRO alone, leaving devices out where that is faster",
        "both": "ZeRO on both devices",
        "uniform": "stages of equally many units",
    }
    for where, rate in points.items():
        base = workshop.get_seconds(f"{where}-stages")[1]
        for kind, text in names.items():
            simulated, measured = workshop.get_seconds(f"{where}-{kind}")
            print(f"| {rate} | {text} | {simulated:.4f} | {measured:.4f} | "
                  f"{100 * (simulated / measured - 1):+.1f} % | {measured / base:.2f}x |")  # fmt: skip
    for where, rate in points.items():
        seconds = {kind: workshop.get_seconds(f"{where}-{kind}") for kind in names}
        order = {side: min(("stages", "zero"), key=lambda kind: seconds[kind][side])
                 for side in (0, 1)}  # fmt: skip
        print(f"{rate}: the planner chooses {found[where]['choice']}; faster simulated: "
              f"{names[order[0]]}, by the clock: {names[order[1]]}")  # fmt: skip
        print(f"  the planner's stages: {' '.join(map(str, stages[where]))}")


def chunks(workshop):
    """Two devices of the slower type, which are alike, and few micro-batches."""
    slow = workshop.types[1]
    rate = workshop.arguments.fast
    profiles = workshop.path("profile-of-one")
    os.makedirs(profiles, exist_ok=True)
    shutil.copy(workshop.path("profiles", slow + ".json"), profiles + "/one.json")
    plans = []
    for count in (1, 2, 3):
        schedule = ["interleaved", "--chunks", count] if count > 1 else ["1f1b"]
        # As many blocks in each; the ends of the model are small.
        ends = [1 + workshop.layers * i // (2 * count) for i in range(1, 2 * count)]
        ends = [f"@{end}" for end in (*ends, workshop.layers + 2)]
        stages = "+".join(slow + "".join(ends[first::2]) for first in (0, 1))
        plans.append((f"chunks-{count}", rate, [
            "--profiles", profiles, "--pipeline", stages, "--micro-batch", 2,
            "--global-batch", 8, "--schedule", *schedule,
        ]))  # fmt: skip
    workshop.take_turns(plans, [slow, slow])
    print("| chunks of a stage | simulated, to one | measured, to one | simulated against "
          "measured |\n|" + " --- |" * 4)  # fmt: skip
    base = workshop.get_seconds("chunks-1")
    for count, (name, _, _) in enumerate(plans, 1):
        simulated, measured = workshop.get_seconds(name)
        print(f"| {count} | {simulated / base[0]:.3f}x | {measured / base[1]:.3f}x | "
              f"{100 * (simulated / measured - 1):+.1f} % |")  # fmt: skip


def grid(workshop):
    for rate in GRID:
        workshop.get_cluster(rate)
    print("| link | ZeRO alone, simulated [s] | stages of the planner | simulated [s] | "
          "choice |\n|" + " --- |" * 5)  # fmt: skip
    for rate in GRID:
        plan = workshop.choose(workshop.get_cluster(rate))
        text = "none" if len(plan["groups"]) < 2 else " ".join(map(str, describe(plan)))
        print(f"| {rate} | {plan['without_pipelines']['simulated_seconds']:.4f} | "
              f"{text} | {plan['simulated_seconds']:.4f} | {plan['choice']} |",
              flush=True)  # fmt: skip


def main():
    tables = {"predict": predict, "compare": compare, "chunks": chunks, "grid": grid}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=tables, nargs="+")
    add_options(parser, "pipeline")
    parser.set_defaults(layers=12, max_batch=16)
    parser.add_argument("--plans", type=int, default=18)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="of compare and grid")
    parser.add_argument("--slow", default="100mbit", metavar="RATE")
    parser.add_argument("--fast", default="5gbit", metavar="RATE")
    arguments = parser.parse_args()
    workshop = Links(arguments)
    workshop.types = workshop.get_types()[:2]
    if len(workshop.types) < 2:
        print(f"this CPU has one usable host type: {workshop.types}")
        return CANNOT
    workshop.make_model()
    workshop.layers = arguments.layers
    workshop.profile(workshop.types, workshop.write_cluster("guess", GUESS), STAGE)
    for table in arguments.table:
        tables[table](workshop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
