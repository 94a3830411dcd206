# ===- fp8_products.py - Products of operands in 8 bits --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains with products in fp8, and checks that

  together    ZeRO with unlike micro-batches, pipeline stages, recomputation and
              adapters follow one device: a row is rounded alike wherever it is. The
              first loss is the same within 1e-6, later ones within 5e-4, as a value
              near the middle of two codes may be rounded to the other one
  shared      devices that share units follow it, too; parts of rows have scales of
              their own, so the first loss is the same within 1e-5
  plain       losses without the option are others
  --gpu       a program for GPUs, whose driver is emulated, follows the host within 1 %,
              as without the option"""

import jobs
from jobs import DeviceType, Plan, Rank

STEPS, FIRST, LATER, COARSE = 6, 1e-6, 5e-4, 1e-2
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("device", HOST),
    DeviceType("unit", HOST, recompute="recompute-unit"),
    DeviceType("sse41", "host:sse41-f32"),
    DeviceType("hopper", "cuda:sm_90", "bf16"),
)
# Model, stage of ZeRO, schedule, groups (units, stage, parts), types by group.
TOGETHER = {
    "llama-zero3": ("llama", 3, "", (), ("unit", "sse41")),
    "gpt2-1f1b": ("gpt2", 0, "1f1b", (((0, 2), 0), ((2, 4), 0)), ("device", "unit")),
}
SHARED = {"llama-shared": ("llama", 0, "", (((0, 4), 0, (1, 1)),), ("device", "device"))}
ADAPTERS = ["--lora-rank", "16", "--lora-alpha", "8", "--lora-targets", "all-linear"]


def follow(workshop, report, name, plan, options, first, later):
    reference = workshop.train_alone(plan.model, f"{name}-alone", plan.samples, options)
    run = workshop.train(workshop.build(plan, name), f"{name}-run", options)
    start, failures = jobs.compare_losses(run, reference, first, last=1)
    worst, more = jobs.compare_losses(run, reference, later)
    report.check(name, failures + more, f"first loss {start:.1e}, losses {worst:.1e}")
    return reference


def main():
    def add(parser):
        parser.add_argument("--gpu", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add)
    report = jobs.Report()
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5]
    fp8 = ["--fp8-products", "--dropout", "0"]
    workshop = jobs.Workshop(f"{arguments.directory}/fp8", fp8)
    if arguments.gpu:
        for model in "llama", "gpt2":
            plan = Plan(model, 0, (Rank(3, 2, 3, type="hopper"),), TYPES)
            follow(workshop, report, f"{model}-hopper", plan, options, COARSE, COARSE)
        return report.finish()
    for name, case in TOGETHER.items():
        plan = jobs.plan_six(*case, TYPES)
        reference = follow(workshop, report, name, plan, options, FIRST, LATER)
    for name, case in SHARED.items():
        plan = jobs.plan_six(*case, TYPES)
        follow(workshop, report, name, plan, options, 10 * FIRST, LATER)
    adapted = jobs.Workshop(f"{arguments.directory}/adapted", fp8 + ADAPTERS)
    plan = jobs.plan_six(*TOGETHER["gpt2-1f1b"], TYPES)
    follow(adapted, report, "gpt2-adapters", plan, options, FIRST, LATER)
    plain = jobs.Workshop(f"{arguments.directory}/plain", ["--dropout", "0"])
    without = plain.train_alone("gpt2", "without", plan.samples, options)
    gaps = [abs(x - y) / y for x, y in zip(without.losses, reference.losses)]
    note = f"losses differ by {min(gaps):.1e} to {max(gaps):.1e}"
    report.check("plain", [] if gaps[0] > 10 * FIRST else [note], note)
    return report.finish()


main()
