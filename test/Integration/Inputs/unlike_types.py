# ===- unlike_types.py - Unlike device types in one job --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains with ranks of unlike instruction sets, and of unlike number formats.

In stage 0 every rank updates its own masters: after 60 steps (--steps: more) they
still have to be equal, bit for bit, and so have the copies that ranks of a format
gather in stages 1 and 2. In f32, losses follow one device's to 1e-5 for 20 steps; bf16
beside f32 stays within 1 % of it for all of them."""

import sys

import jobs
from jobs import DeviceType, Plan, Rank

STEPS = 60
TYPES = {
    "avx512": DeviceType("avx512", "host:avx512-f32"),
    "avx2": DeviceType("avx2", "host:avx2-f32"),
    "sse41": DeviceType("sse41", "host:sse41-f32"),
    "bf16": DeviceType("bf16", "host:avx512-f32", "bf16"),
}
FEATURES = {"avx512": "avx512bw", "avx2": "avx2", "sse41": "sse4_1", "bf16": "avx512bw"}

# (micro_batch, steps, last), together 13 samples, uneven; shards are, too.
STEPPING = {
    2: [(4, 3, 2), (1, 3, 1)],
    3: [(3, 3, 2), (2, 3, 0), (0, 3, 1)],
}
STATE = {2: (2, 1), 3: (1, 3, 2)}


def make_plan(model, stage, names):
    ranks = [
        Rank(*stepping, state=state, type=name)
        for stepping, state, name in zip(
            STEPPING[len(names)], STATE[len(names)], names
        )
    ]
    return Plan(model, stage, tuple(ranks), tuple(TYPES.values()))


def main():
    arguments = jobs.parse_arguments(__doc__, steps=STEPS)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    present = [name for name in TYPES if jobs.cpu_has(FEATURES[name])]
    f32 = [name for name in present if TYPES[name].precision == "f32"]
    if len(f32) < 2:
        print("skipped: this CPU has but one of the instruction sets")
        sys.exit(0)

    # Model, stage, types, steps.
    cases = [
        ("gpt2", 0, f32, arguments.steps),
        ("llama", 1, [f32[-1], f32[0]], 20),
        ("bert", 2, [f32[0], f32[-1]], 20),
    ]
    if "bf16" in present:
        cases += [
            ("llama", 0, ["bf16", f32[0]], arguments.steps),
            ("gpt2", 1, [f32[-1], "bf16"], 20),
            ("bert", 2, ["bf16", f32[0], "bf16"], 20),
            ("llama", 3, ["bf16", f32[-1]], 20),
        ]
    else:
        print("skipped: bf16, which needs AVX-512")

    for model, stage, names, steps in cases:
        name = f"{model}-stage{stage}-{'-'.join(names)}"
        plan = make_plan(model, stage, names)
        options = ["--steps", steps, "--lr", 1e-3, "--clip", 0.5]
        reference = workshop.train_alone(model, f"{name}-alone", plan.samples, options)
        check = ["--check-replicas"] if stage < 3 else []
        try:
            run = workshop.train(
                workshop.build(plan, name), f"{name}-run", options + check
            )
        except jobs.JobError as error:
            report.check(name, [str(error)])
            continue
        if "bf16" in names:
            worst, failures = jobs.compare_losses(run, reference, 1e-2)
        else:
            worst, failures = jobs.compare_losses(run, reference, last=20)
        report.check(name, failures, f"losses {worst:.1e}")
    report.finish()


main()
