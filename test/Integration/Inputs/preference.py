# ===- preference.py - DPO and ORPO against trl -----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains 30 steps on the pairs of goldens/preference, as trl did
(scripts/goldens/make_preference_goldens.py): losses, margins, norms of gradients and
the weights at the end are within 1e-4 of trl's.
  together   two unlike types of host, with five and two of the seven pairs of a step,
             in micro-steps of unlike sizes: ZeRO, pipeline stages, shared units
  resume     a run in two halves is the run at once
  --gpu      a program for a GPU, whose driver is emulated"""

import csv
import json
import os

import jobs
from jobs import DeviceType, Plan, Rank

TOLERANCE = 1e-4
GOLDENS = os.path.join(jobs.SOURCES, "test", "Integration", "goldens", "preference")
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("device", HOST),
    DeviceType("slow", "host:sse41-f32", recompute="recompute-unit"),
    DeviceType("sse41", "host:sse41-f32"),
    DeviceType("ampere", "cuda:sm_80"),
)
LORA = ["--lora-rank", 4, "--lora-alpha", 8, "--lora-targets", "q_proj,v_proj,down_proj"]
# Rows, loss and learning rate of a golden.
CASES = {
    "dpo": ("texts", "dpo", 1e-3),
    "dpo-lora": ("chats", "dpo", 5e-3),
    "orpo": ("texts", "orpo", 1e-3),
    "orpo-lora": ("texts", "orpo", 5e-3),
}
# Golden, stage of ZeRO, schedule, groups (units, stage, parts).
TOGETHER = {
    "dpo-lora in ZeRO 0": ("dpo-lora", 0, "", ()),
    "dpo in ZeRO 3": ("dpo", 3, "", ()),
    "orpo in ZeRO 2": ("orpo", 2, "", ()),
    "orpo-lora in a pipeline": ("orpo-lora", 0, "1f1b", (((0, 2), 0), ((2, 4), 0))),
    "dpo with shared units": ("dpo", 0, "", (((0, 4), 0, (3, 1)),)),
}


class Workshop(jobs.Workshop):
    """Its models are "full", "lora", and "short": full, and just long enough for the
    texts, for an emulated GPU."""

    def model(self, name):
        def make(target):
            command = ["poplar", "import", os.path.join(GOLDENS, "model"), "--packing"]
            length = 80 if name == "short" else 128
            command += ["--seq-len", length, *(LORA if name == "lora" else [])]
            jobs.run([*map(str, command), "-o", target])

        return self.once(self.path(f"{name}.mlir"), make)


def get_model(golden):
    return "lora" if golden.endswith("lora") else "full"


def get_options(golden, steps=30):
    rows, loss, rate = CASES[golden]
    options = ["--data", os.path.join(GOLDENS, f"{rows}.jsonl"), "--preference", loss]
    options += ["--init", os.path.join(GOLDENS, "model"), "--steps", steps]
    if get_model(golden) == "lora":
        options += ["--init-adapter", os.path.join(GOLDENS, "adapter")]
    options += ["--lr", rate, "--schedule", "constant", "--warmup", 0, "--clip", 1]
    return options + ["--weight-decay", 0, "--beta2", 0.999, "--save-every", 0]


def compare(golden, run, steps=30):
    """What is wrong with a run of a golden, and how far it is off; of its first steps
    alone, if they are fewer."""
    with open(os.path.join(GOLDENS, golden, "expected.json")) as file:
        expected = json.load(file)
    with open(os.path.join(run.directory, "metrics.csv")) as file:
        rows = list(csv.DictReader(file))
    columns = ("loss", "loss"), ("margin", "reward_margin"), ("grad_norm", "grad_norm")
    columns += (("accuracy", "reward_accuracy"),)
    worst = {}
    for name, column in columns:
        theirs = expected[name][:steps]
        if len(rows) != len(theirs):
            return [f"{len(rows)} steps, expected {len(theirs)}"], ""
        scale = max(map(abs, theirs)) if name == "grad_norm" else 1
        # Where a policy is its reference, rounding decides which reward is higher.
        worst[name] = max(
            abs(float(row[column]) - value) / scale
            for row, value, margin in zip(rows, theirs, expected["margin"])
            if name != "accuracy" or margin != 0
        )
    ours = run.tensors() if steps == 30 else {}
    path = os.path.join(GOLDENS, golden, "expected.safetensors")
    theirs = jobs.safetensors_reader.read(path)[0] if ours else {}
    if set(ours) != set(theirs):
        return [f"other tensors: {sorted(set(ours) ^ set(theirs))}"], ""
    if ours:
        worst["weights"] = max(
            max(map(abs, jobs.difference(ours[name][1], values))) / max(map(abs, values))
            for name, (_, values) in theirs.items()
        )
    text = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
    wrong = [n for n, value in worst.items() if not value <= TOLERANCE]
    return [f"off by more than {TOLERANCE}: {', '.join(wrong)}"] if wrong else [], text


def check(workshop, report, name, golden, program, steps=30):
    try:
        options = get_options(golden, steps)
        run = workshop.train(program, name.replace(" ", "-"), options)
    except jobs.JobError as error:
        return report.check(name, [str(error)])
    return report.check(name, *compare(golden, run, steps))


def make_plan(golden, stage, schedule, groups):
    shares = any(len(group) > 2 for group in groups)
    types = ("device", "sse41" if shares else "slow")
    if groups:
        ranks = [
            Rank(3, 3, 1, type=type, group=0 if shares else index)
            for index, type in enumerate(types)
        ]
    else:
        ranks = [Rank(2, 3, 1, type="device"), Rank(1, 3, 0, type="slow")]
    return Plan(get_model(golden), stage, tuple(ranks), TYPES, groups, schedule)


def check_resume(workshop, report):
    program, golden = workshop.alone("lora"), "dpo-lora"
    batch = ["--global-batch", 7, "--batch", 2, "--threads", 1]
    options = get_options(golden, 15)
    workshop.train(program, "halves", [*options, *batch])
    adapter = options.index("--init-adapter")
    options = [*options[:adapter], *options[adapter + 2 :]]
    options[options.index("--steps") + 1] = 30
    run = workshop.train(program, "halves", [*options, *batch], resume=True)
    report.check("resumed", *compare(golden, run))


def main():
    def add(parser):
        parser.add_argument("--gpu", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add)
    workshop, report = Workshop(arguments.directory), jobs.Report()
    if arguments.gpu:
        program = workshop.build(Plan("short", 0, (Rank(7, 1, 7, type="ampere"),), TYPES), "gpu")
        for golden in "dpo", "orpo":
            check(workshop, report, f"{golden} on a GPU", golden, program, steps=2)
        return report.finish()
    for name, (golden, *rest) in TOGETHER.items():
        program = workshop.build(make_plan(golden, *rest), name.replace(" ", "_"))
        check(workshop, report, name, golden, program)
    check_resume(workshop, report)
    return report.finish()


main()
