#!/usr/bin/env python3
# ===- random-clusters.py - Plans against baselines, on random clusters ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Plans jobs on random clusters, and what baselines make of the same. All is
simulated, from the published figures of the devices (docs/estimates.md).

A cluster has two to four types of devices of the library, one to four nodes of
each, of one to eight devices, and links from PCIe to NVLink inside nodes and from
10 to 400 Gbit/s between them. A job is one of five models and a global batch. All
are drawn from --seed. Every policy may take the stage of ZeRO that is best for it.

Writes OUT/table.md (quantiles of throughput over that of each baseline, and over
U, the sum of what every type does by itself), OUT/figure.svg, and OUT/results.json,
from which a run that was broken off goes on:

  bench/random-clusters.py --poplar build/release/bin/poplar --out build/random
"""

import argparse
import bisect
import json
import os
import random
import subprocess
import sys

from commands import ROOT

MODELS = ("gpt2-124m", "llama-0.5b", "tinyllama-1.1b", "bert-1.1b", "llama-2-7b")
SEQ_LEN = {"bert-1.1b": 512}
# Bytes a second of a device's links, by what they are.
INSIDE = {"NVLink": 2.5e11, "PCIe 4": 2.5e10, "PCIe 3": 1.25e10}
BETWEEN = (1.25e9, 3.125e9, 1.25e10, 2.5e10, 5e10)
POLICIES = ("uniform", "whale", "poplar")
QUANTILES = (0, 5, 25, 50, 75, 95, 100)
COLUMNS = ("U", "weak alone", "strong alone", "DeepSpeed", "Whale", "Poplar's search")


def draw_job(number, seed, devices):
    """A cluster file, a model and a global batch."""
    dice = random.Random(f"{seed}/{number}")
    names = dice.sample(sorted(devices), dice.randint(2, 4))
    types, nodes, links = {}, [], []
    for name in names:
        # The format that all cards have units for.
        types[name] = {"device": name, "precision": "f16"}
        members = [f"{name}-{i}" for i in range(dice.randint(1, 4))]
        each = dice.choice((1, 2, 4, 8))
        nodes += [{"name": one, "devices": {name: each}} for one in members]
        kind = dice.choice(sorted(INSIDE))
        links.append({"inside": members, "latency": 1e-5, "bandwidth": INSIDE[kind]})
    links.append(
        {"between": "nodes", "latency": 2e-5, "bandwidth": dice.choice(BETWEEN)}
    )
    cluster = {"device_types": types, "nodes": nodes, "links": links}
    return cluster, dice.choice(MODELS), 2 ** dice.randint(5, 11)


class Runner:
    def __init__(self, arguments):
        self.poplar, self.out, self.seed = arguments.poplar, arguments.out, arguments.seed
        os.makedirs(self.out, exist_ok=True)
        self.results_path = f"{self.out}/results.json"
        self.results = {}
        if os.path.exists(self.results_path):
            with open(self.results_path) as file:
                self.results = json.load(file)
        self.devices = json.loads(self.run("cluster", "devices", "--json"))["devices"]

    def run(self, *command):
        """Standard output; None if Poplar says that there is no plan."""
        result = subprocess.run([self.poplar, *command], capture_output=True, text=True)
        if result.returncode:
            if "has no plan in" in result.stderr:
                return None
            sys.exit(f"error: poplar {' '.join(command)}\n{result.stderr}")
        return result.stdout

    def model(self, name):
        path = f"{self.out}/{name}.mlir"
        if not os.path.exists(path):
            length = SEQ_LEN.get(name, 1024)
            config = f"{ROOT}/examples/models/{name}.json"
            self.run("import", config, "--seq-len", str(length), "-o", path)
        return path

    def seconds(self, cluster, model, batch, policy):
        """Simulated, and by the closed form; None if nothing fits."""
        text = self.run(
            "plan", "--model", self.model(model), "--cluster", cluster,
            "--global-batch", str(batch), "--policy", policy, "--json", "-",
        )  # fmt: skip
        if text is None:
            return None
        plan = json.loads(text)
        return {
            "simulated": plan["simulated_seconds"],
            "predicted": plan["predicted_seconds"],
            "candidates": plan["simulated"],
            "stage": plan["stage"],
        }

    def job(self, number):
        if str(number) in self.results:
            return self.results[str(number)]
        cluster, model, batch = draw_job(number, self.seed, self.devices)
        path = f"{self.out}/cluster.json"
        with open(path, "w") as file:
            json.dump(cluster, file, indent=1)
        policies = ["exact", *POLICIES]
        policies += [f"homogeneous:{name}" for name in cluster["device_types"]]
        result = {"model": model, "batch": batch, "cluster": cluster, "policies": {
            policy: self.seconds(path, model, batch, policy) for policy in policies
        }}  # fmt: skip
        self.results[str(number)] = result
        with open(self.results_path + ".tmp", "w") as file:
            json.dump(self.results, file)
        os.replace(self.results_path + ".tmp", self.results_path)
        return result


def compare(job):
    """Throughput of the plan over others', by COLUMNS; None where they have no
    plan."""
    policies = {
        name: found["simulated"] for name, found in job["policies"].items() if found
    }
    plan = policies["exact"]
    alone = sorted(
        seconds for name, seconds in policies.items() if name.startswith("homogeneous:")
    )
    over = {
        "U": 1 / plan / sum(1 / seconds for seconds in alone) if alone else None,
        "weak alone": alone[-1] / plan if alone else None,
        "strong alone": alone[0] / plan if alone else None,
    }
    for column, policy in zip(COLUMNS[3:], POLICIES):
        over[column] = policies[policy] / plan if policy in policies else None
    return over


def quantile(values, percent):
    place = percent / 100 * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def format_table(rows, gaps, planless):
    lines = ["| throughput of the plan over | jobs | " +
             " | ".join(f"{q} %" if q not in (0, 50, 100) else
                        {0: "least", 50: "median", 100: "most"}[q]
                        for q in QUANTILES) + " |",
             "|---" * (2 + len(QUANTILES)) + "|"]  # fmt: skip
    for column in COLUMNS:
        values = sorted(row[column] for row in rows if row[column])
        cells = " | ".join(f"{quantile(values, q):.2f}" for q in QUANTILES)
        lines.append(f"| {column} | {len(values)} | {cells} |")
    cells = " | ".join(f"{100 * quantile(gaps, q):+.1f} %" for q in QUANTILES)
    lines += [
        "",
        "| simulated against the closed form | plans | "
        + lines[0].split("| jobs | ")[1],
        lines[1],
        f"| all plans that were simulated | {len(gaps)} | {cells} |",
        "",
        f"{planless} jobs have no plan at all.",
    ]
    return "\n".join(lines) + "\n"


def draw_figure(rows):
    """Cumulative distributions, as an SVG that stands on white."""
    colours = ("#1c2128", "#9aa5b1", "#5f6c7b", "#c98a1b", "#7a5195", "#2f9e63")
    left, right, top, bottom = 50, 620, 40, 300
    low, high = 0.4, 3.0
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 345" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="640" height="345" fill="white"/>',
    ]
    x_of = lambda value: left + (min(value, high) - low) / (high - low) * (right - left)
    y_of = lambda part: bottom - part * (bottom - top)
    for tick in (0.5, 1, 1.5, 2, 2.5, 3):
        x = x_of(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick}</text>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = y_of(part)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{part:.0%}</text>')
    for index, (column, colour) in enumerate(zip(COLUMNS, colours)):
        values = sorted(row[column] for row in rows if row[column])
        points = []
        for value in values:
            before = bisect.bisect_left(values, value) / len(values)
            after = bisect.bisect_right(values, value) / len(values)
            x = x_of(max(value, low))
            points += [f"{x:.1f},{y_of(before):.1f}", f"{x:.1f},{y_of(after):.1f}"]
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            'stroke-width="1.8"/>'
        )
        x = left + index * 97
        parts.append(f'<rect x="{x}" y="14" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="23">{column}</text>')
    parts.append(
        f'<text x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">'
        "throughput of the plan over theirs, simulated; part of all clusters below</text>"
    )
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--out", default=ROOT + "/build/random-clusters")
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    runner = Runner(arguments)
    rows, gaps, planless = [], [], 0
    for number in range(arguments.clusters):
        job = runner.job(number)
        found = job["policies"]["exact"]
        if not found:
            planless += 1
            others = [p for p, value in job["policies"].items() if value]
            if others:
                print(f"cluster {number}: no plan, but {others} have one")
            continue
        rows.append(compare(job))
        gaps += [candidate["gap"] for candidate in found["candidates"]]
        # Whoever beats the plan is named.
        for column, value in rows[-1].items():
            if column != "U" and value and value < 1 - 1e-9:
                print(f"cluster {number}: {column} is {1 / value:.4f} times as fast")
    table = format_table(rows, sorted(gaps), planless)
    with open(f"{arguments.out}/table.md", "w") as file:
        file.write(table)
    with open(f"{arguments.out}/figure.svg", "w") as file:
        file.write(draw_figure(rows))
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
