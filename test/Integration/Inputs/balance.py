# ===- balance.py - The loss that balances experts in all kinds of jobs ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a mixture of experts with the loss that balances them and checks that

  together    ZeRO, pipeline stages, also of several chunks, adapters and recomputation
              follow one device, which takes batches whole: losses within 1e-5, updates
              as in equivalence.py
  validation  has the loss, too: at a learning rate of 0, its loss is more than that of
              a program without, by what the coefficient says
  --gpu       a program for GPUs, whose driver is emulated, follows the host"""

import jobs
from jobs import DeviceType, Plan, Rank

COEFFICIENT, STEPS = 0.5, 3
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("device", HOST),
    DeviceType("unit", HOST, recompute="recompute-unit"),
    DeviceType("sse41", "host:sse41-f32"),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("hopper_bf16", "cuda:sm_90", "bf16"),
)
ADAPTERS = ["--lora-rank", "4", "--lora-alpha", "8", "--lora-targets", "q_proj,v_proj"]
# Logits in chunks.
CHUNKED = "mixtral:8192"
# Model, stage of ZeRO, schedule, groups (units, stage), types by rank or group.
TOGETHER = {
    "zero0": (CHUNKED, 0, "", (), ("device", "sse41")),
    "zero2": ("mixtral", 2, "", (), ("device", "sse41")),
    "zero3": ("mixtral", 3, "", (), ("unit", "sse41")),
    "1f1b": ("mixtral", 0, "1f1b", (((0, 2), 0), ((2, 4), 0)), ("device", "sse41")),
    "chunks": (
        "mixtral",
        1,
        "interleaved",
        (((0, 1, 2, 3), 1), ((1, 2, 3, 4), 1)),
        ("unit", "sse41"),
    ),
}


def check_validation(balanced, plain, report):
    still = ["--steps", 1, "--lr", 0, "--min-lr", 0, "--weight-decay", 0, "--eval-every", 1]
    ours, theirs = (
        workshop.train_alone("mixtral", "validated", 4, still) for workshop in (balanced, plain)
    )
    wrong = []
    for kind in "losses", "validation_losses":
        (x,), (y,) = getattr(theirs, kind), getattr(ours, kind)
        # Where experts are balanced, it is the coefficient times the experts per token.
        if abs(y - x - 2 * COEFFICIENT) > 0.1:
            wrong.append(f"{kind}: {y:g}, and {x:g} without")
    report.check("validation", wrong)


def main():
    def add(parser):
        parser.add_argument("--gpu", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add)

    def open_workshop(name, coefficient, options=()):
        balance = ["--router-aux-loss-coef", str(coefficient), *options]
        return jobs.Workshop(f"{arguments.directory}/{name}", balance)

    balanced = open_workshop("balanced", COEFFICIENT)
    report = jobs.Report()
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5]
    if arguments.gpu:
        for name, tolerance in (("ampere", jobs.LOSS_TOLERANCE), ("hopper_bf16", 1e-2)):
            plan = Plan("mixtral", 0, (Rank(3, 2, 3, type=name),), TYPES)
            jobs.follow(balanced, report, name, plan, options, tolerance)
        return report.finish()
    check_validation(balanced, open_workshop("plain", 0), report)
    for name, case in TOGETHER.items():
        jobs.follow(balanced, report, name, jobs.plan_six(*case, TYPES), options)
    adapted = open_workshop("adapted", COEFFICIENT, ADAPTERS)
    plan = jobs.plan_six(*TOGETHER["1f1b"], TYPES)
    jobs.follow(adapted, report, "adapters", plan, options)
    return report.finish()


main()
