#!/usr/bin/env python3
# ===- run.py - The paper's evaluation, simulated --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Plans and simulates the experiments of the Poplar paper (AAAI 2025) under the
assumptions in assumptions.json. Nothing runs on a GPU: every figure is
simulated, from the published specifications of the devices.

Writes OUT/table.md and OUT/figure.svg, and every result to OUT/results.json, from
which a run that was broken off goes on:

  examples/paper/run.py --poplar build/release/bin/poplar --out build/paper
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys

from figure import draw

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
with open(HERE + "/assumptions.json") as assumptions_file:
    ASSUMED = json.load(assumptions_file)

# What the paper compares, then what goes beyond it. `joint` chooses the stage as
# well, the devices, the shards and what is recomputed.
BASELINES = ("weak", "strong", "DeepSpeed", "Whale")
POLICIES = {
    "weak": "homogeneous:{weak}",
    "strong": "homogeneous:{strong}",
    "DeepSpeed": "uniform",
    "Whale": "whale",
    "Poplar": "poplar",
    "exact": "exact",
}
STAGES = ("0", "1", "2", "3")
# What all devices recompute, which DeepSpeed's autotuner may choose beside the
# micro-batch, the accumulation steps and the stage. Here every baseline may, and
# may choose it for each type, which is more than the published systems can.
FIXED = ("keep", "recompute-attention", "recompute-unit")
RECOMPUTE = (*FIXED, "the best for each type")
# Poplar's own searches choose what each type recomputes.
SEARCHES = ("exact", "auto")


class Setting:
    """One experiment: what assumptions.json says, and what is varied."""

    def __init__(self, cluster, **changes):
        self.cluster = cluster
        self.model = ASSUMED["models"]["main"]
        self.counts = dict(ASSUMED["counts"][cluster])
        self.batch = ASSUMED["global_batch"]["value"]
        self.scale = {"inside": 1, "between": 1, "weak": 1}
        self.seq_len = None
        for name, value in changes.items():
            if name in self.scale:
                self.scale[name] = value
            else:
                setattr(self, name, value)
        self.seq_len = self.seq_len or ASSUMED["sequence_length"][self.model]

    def describe(self):
        """A cluster file."""
        kinds = ASSUMED["clusters"][self.cluster]
        inside, between = ASSUMED["link_inside"], ASSUMED["link_between"]
        types, nodes, links = {}, [], []
        for role in ("strong", "weak"):
            name = kinds[role]
            types[name] = {"device": name, "precision": ASSUMED["precision"]["value"]}
            if role == "weak" and self.scale["weak"] != 1:
                known = DEVICES[name]
                factor = self.scale["weak"]
                # Whale rates devices by their published f32 figure, which
                # says nothing of how fast a device turns out to be.
                used = ASSUMED["precision"]["value"]
                types[name]["flops"] = dict(known["flops"])
                types[name]["flops"][used] *= factor
                types[name]["bandwidth"] = known["bandwidth"] * factor
                # What the board's limit allows grows alike.
                if "power" in known:
                    types[name]["power"] = known["power"] * factor
            if not self.counts[role]:
                continue
            nodes.append({"name": role, "devices": {name: self.counts[role]}})
            links.append(
                {
                    "inside": [role],
                    "latency": inside["latency"],
                    "bandwidth": inside[name] * self.scale["inside"],
                }
            )
        if len(nodes) == 2:
            links.append(
                {
                    "between": "nodes",
                    "latency": between["latency"],
                    "bandwidth": between["bandwidth"] * self.scale["between"],
                }
            )
        return {"device_types": types, "nodes": nodes, "links": links}


DEVICES = {}


class Runner:
    def __init__(self, poplar, out):
        self.poplar, self.out = poplar, out
        os.makedirs(out + "/models", exist_ok=True)
        self.results_path = out + "/results.json"
        self.results = {}
        if os.path.exists(self.results_path):
            with open(self.results_path) as file:
                self.results = json.load(file)
        DEVICES.update(json.loads(self.run("cluster", "devices", "--json"))["devices"])

    def run(self, *command):
        """Standard output; None if Poplar says that there is no plan."""
        result = subprocess.run(
            [self.poplar, *command], capture_output=True, text=True
        )
        if result.returncode:
            if "has no plan in" in result.stderr:
                return None
            sys.exit(f"error: poplar {' '.join(command)}\n{result.stderr}")
        return result.stdout

    def model(self, name, seq_len):
        path = f"{self.out}/models/{name}-{seq_len}.mlir"
        if not os.path.exists(path):
            config = f"{ROOT}/examples/models/{name}.json"
            self.run("import", config, "--seq-len", str(seq_len), "-o", path)
        return path

    def seconds(self, setting, policy, stage, *tuned):
        """Simulated seconds of an iteration, None if nothing fits. `tuned`
        are more options."""
        cluster = json.dumps(setting.describe(), indent=1)
        names = ASSUMED["clusters"][setting.cluster]
        options = ["--global-batch", setting.batch]
        if policy == "joint":
            options += ["--zero", "auto", "--state", "auto"]
        elif policy in SEARCHES and stage == "auto":
            options += ["--policy", policy]
        else:
            options += ["--zero", stage, "--leave-out", "none"]
            options += ["--policy", POLICIES[policy].format(**names)]
        options += tuned
        key = hashlib.sha256(
            "\n".join([cluster, setting.model, str(setting.seq_len), *options]).encode()
        ).hexdigest()[:16]
        if key not in self.results:
            path = self.out + "/cluster.json"
            with open(path, "w") as file:
                file.write(cluster)
            plan, simulated = self.out + "/plan.mlir", self.out + "/simulated.json"
            model = self.model(setting.model, setting.seq_len)
            planned = self.run(
                "plan", "--model", model, "--cluster", path, "-o", plan, *options
            )
            seconds = None
            if planned is not None:
                self.run("simulate", plan, "--json", simulated)
                with open(simulated) as file:
                    seconds = json.load(file)["simulated_seconds"]
            self.results[key] = seconds
            with open(self.results_path + ".tmp", "w") as file:
                json.dump(self.results, file, indent=0)
            os.replace(self.results_path + ".tmp", self.results_path)
        return self.results[key]

    def tune(self, setting, policy):
        """The least seconds over stages and recomputation, and what is recomputed."""
        if policy in SEARCHES:
            return self.seconds(setting, policy, "auto"), ""
        found = []
        for recompute in RECOMPUTE:
            options = ["--recompute", recompute] if recompute in FIXED else []
            seconds = self.seconds(setting, policy, "auto", *options)
            if seconds:
                found.append((seconds, recompute))
        return min(found, default=(None, ""))

    def row(self, setting, stage):
        """Seconds by policy in one stage. A job of one type of device is what
        `weak` and `strong` are."""
        return {policy: self.seconds(setting, policy, stage) for policy in POLICIES}


def ratio(seconds, reference):
    """How many times as fast as the reference."""
    return reference / seconds if seconds and reference else None


def show(value):
    return f"{value:.2f}" if value else "-"


def compare(runner, setting, stages=STAGES):
    """Rows of the table: throughput over that of DeepSpeed, by stage."""
    joint = runner.seconds(setting, "joint", "auto")
    rows = []
    for stage in stages:
        seconds = runner.row(setting, stage)
        known = [seconds[name] for name in BASELINES if seconds[name]]
        best = min(known) if known else None
        rows.append(
            {
                "stage": stage,
                "seconds": seconds,
                "over": {
                    name: ratio(seconds[name], seconds["DeepSpeed"])
                    for name in POLICIES
                },
                "joint": ratio(joint, seconds["DeepSpeed"]),
                "over best": ratio(seconds["Poplar"], best),
                "over each": [
                    ratio(seconds["Poplar"], seconds[name])
                    for name in BASELINES
                    if seconds[name] and seconds["Poplar"]
                ],
            }
        )
    return rows


def compare_tuned(runner):
    """Every system at its best: a row for each cluster, model and published speed
    of the weak type."""
    systems = [*BASELINES, *SEARCHES]
    lines = [
        "# Every system at its best, simulated",
        "",
        "| cluster | model | speeds | " + " | ".join(systems) + " | auto / DeepSpeed "
        "| auto / Whale | auto / best of the four | DeepSpeed recomputes |",
        "|" + " --- |" * (len(systems) + 7),
    ]
    main, *others = [ASSUMED["models"]["main"], *ASSUMED["models"]["generality"]]
    settings = [(it, main, "estimated", Setting(it)) for it in ASSUMED["clusters"]]
    for entry in ASSUMED["published"]["measurements"]:
        setting, _, measured = set_speeds(runner, entry)
        what = f"{measured:.2f} x, as published"
        settings.append((entry["cluster"], main, what, setting))
    settings += [
        (cluster, model, "estimated", Setting(cluster, model=model))
        for model in others
        for cluster in ASSUMED["clusters"]
    ]
    for cluster, model, speeds, setting in settings:
        print("tuning", cluster, model, speeds, flush=True)
        best = {name: runner.tune(setting, name) for name in systems}
        seconds = {name: found[0] for name, found in best.items()}
        strongest = min(seconds[name] for name in BASELINES if seconds[name])
        cells = [cluster, model, speeds]
        cells += [show(ratio(seconds[name], seconds["DeepSpeed"])) for name in systems]
        cells += [
            show(ratio(seconds["auto"], other))
            for other in (seconds["DeepSpeed"], seconds["Whale"], strongest)
        ]
        cells.append(best["DeepSpeed"][1])
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines + [""]


def format_rows(title, rows):
    columns = list(POLICIES) + ["joint", "Poplar / best baseline"]
    lines = [f"### {title}", "", "| stage | " + " | ".join(columns) + " |"]
    lines.append("|" + " --- |" * (len(columns) + 1))
    for row in rows:
        cells = [show(row["over"][name]) for name in POLICIES]
        cells += [show(row["joint"]), show(row["over best"])]
        lines.append(f"| {row['stage']} | " + " | ".join(cells) + " |")
    return lines + [""]


def sensitivity(runner, cluster):
    """Poplar over the best baseline, least and most over the stages, for every
    changed assumption."""
    scales = {
        "links inside nodes": ("inside", ASSUMED["link_inside"]["instead"]["scale"]),
        "link between nodes": ("between", ASSUMED["link_between"]["instead"]["scale"]),
        "speed of the weak type": ("weak", ASSUMED["efficiency"]["instead"]["weak"]),
    }
    changes = [("as assumed", {})]
    for name, (key, values) in scales.items():
        changes += [(f"{name} x {value:g}", {key: value}) for value in values]
    main = ASSUMED["models"]["main"]
    for length in ASSUMED["sequence_length"]["instead"].get(main, []):
        changes.append((f"sequences of {length} tokens", {"seq_len": length}))
    for batch in ASSUMED["global_batch"]["instead"]:
        changes.append((f"global batch {batch}", {"batch": batch}))
    lines = [
        f"### Cluster {cluster}: what other assumptions change",
        "",
        "| assumption | Poplar / best baseline, stages 0-3 |",
        "| --- | --- |",
    ]
    for name, change in changes:
        rows = compare(runner, Setting(cluster, **change))
        cells = ", ".join(show(row["over best"]) for row in rows)
        lines.append(f"| {name} | {cells} |")
    return lines + [""]


def set_speeds(runner, entry):
    """The main experiment with the weak type as fast, next to the strong one, as was
    measured; and how many times as fast the strong one is, estimated and measured."""
    setting = Setting(entry["cluster"])
    alone = runner.row(setting, "0")
    estimated = alone["weak"] / alone["strong"]
    measured = entry["strong"] / entry["weak"]
    return Setting(entry["cluster"], weak=estimated / measured), estimated, measured


def published(runner):
    """The main experiment once more for every published comparison of the two
    types of a cluster: the weak type is as fast, next to the strong one, as
    was measured there."""
    lines = [
        "## With published speeds of the types",
        "",
        "The weak type is made as fast, next to the strong one, as others measured",
        "(`published` in assumptions.json, with the sources). Whale knows the published",
        "f32 rates only.",
        "",
        "| cluster | measured | strong / weak: rated f32 | estimated | measured | stage "
        "| DeepSpeed | Whale | Poplar | exact | joint | Poplar / Whale "
        "| Poplar / best baseline |",
        "|" + " --- |" * 13,
    ]
    for entry in ASSUMED["published"]["measurements"]:
        cluster = entry["cluster"]
        print("simulating cluster", cluster, "as measured by", entry["source"], flush=True)
        kinds = ASSUMED["clusters"][cluster]
        rated = [DEVICES[kinds[role]]["flops"]["f32"] for role in ("strong", "weak")]
        setting, estimated, measured = set_speeds(runner, entry)
        rows = compare(runner, setting)
        for row in rows:
            cells = [cluster, entry["what"], show(rated[0] / rated[1])]
            cells += [show(estimated), show(measured), row["stage"]]
            cells += [
                show(row["over"][name])
                for name in ("DeepSpeed", "Whale", "Poplar", "exact")
            ]
            cells += [show(row["joint"])]
            cells += [show(ratio(row["seconds"]["Poplar"], row["seconds"]["Whale"]))]
            cells += [show(row["over best"])]
            lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--out", default=ROOT + "/build/paper")
    parser.add_argument("--quick", action="store_true", help="the main table only")
    parser.add_argument(
        "--tuned", action="store_true",
        help="every system at its best stage and recomputation, only; writes OUT/tuned.md",
    )  # fmt: skip
    arguments = parser.parse_args()
    runner = Runner(arguments.poplar, arguments.out)
    if arguments.tuned:
        with open(arguments.out + "/tuned.md", "w") as file:
            file.write("\n".join(compare_tuned(runner)))
        return

    lines = [
        "# The paper's evaluation, simulated",
        "",
        "Throughput over DeepSpeed's in the same stage; a dash where nothing fits. All",
        "*simulated*, from *estimates* of the devices' speed, under assumptions.json.",
        "",
    ]
    main_rows, ratios = {}, []
    experiments = []
    for cluster in ASSUMED["clusters"]:
        experiments.append((cluster, Setting(cluster)))
    if not arguments.quick:
        for model in ASSUMED["models"]["generality"]:
            for cluster in ASSUMED["clusters"]:
                experiments.append(
                    (f"{cluster}, {model}", Setting(cluster, model=model))
                )
    for name, setting in experiments:
        print("simulating cluster", name, flush=True)
        rows = compare(runner, setting)
        if name in ASSUMED["clusters"]:
            main_rows[name] = rows
            ratios += [value for row in rows for value in row["over each"] if value]
        lines += format_rows(f"Cluster {name}", rows)
    claim = ASSUMED["claim"]
    lines += [
        f"Poplar over one of the baselines, main model: {min(ratios):.2f}x to "
        f"{max(ratios):.2f}x, *simulated*. The paper measured {claim['least']}x to "
        f"{claim['most']}x.",
        "",
    ]
    lines += published(runner)
    if not arguments.quick:
        lines += ["### Quantity: cluster C, stage 3", ""]
        lines += ["| strong + weak | " + " | ".join(POLICIES) + " | joint |"]
        lines += ["|" + " --- |" * (len(POLICIES) + 2)]
        for strong, weak in ASSUMED["counts"]["quantity"]:
            print(f"simulating {strong} + {weak}", flush=True)
            counts = {"strong": strong, "weak": weak}
            row = compare(runner, Setting("C", counts=counts), stages=("3",))[0]
            cells = [show(row["over"][name]) for name in POLICIES]
            cells.append(show(row["joint"]))
            lines.append(f"| {strong} + {weak} | " + " | ".join(cells) + " |")
        lines.append("")
        for cluster in ASSUMED["clusters"]:
            print("simulating other assumptions on cluster", cluster, flush=True)
            lines += sensitivity(runner, cluster)
    with open(arguments.out + "/table.md", "w") as file:
        file.write("\n".join(lines))
    with open(arguments.out + "/figure.svg", "w") as file:
        file.write(draw(main_rows, list(POLICIES) + ["joint"]))
    print("\n".join(lines))
    print(f"wrote {arguments.out}/table.md and {arguments.out}/figure.svg")


if __name__ == "__main__":
    main()
