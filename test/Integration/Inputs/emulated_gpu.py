# ===- emulated_gpu.py - Executables for GPUs, on an emulated one ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains with executables for GPUs whose driver is emulated: the PTX in them is
what runs, addresses of the GPU's memory cannot be followed by the host, and
work is done no sooner than it is waited for (unittests/GPU/emulated/). Compares
with runs on the host:
  losses     within 1e-5 of each other, relatively; 1 % in bf16 and f16
  updates    as in equivalence.py, in f32
Nothing here runs on a GPU.

--jobs: jobs of several ranks instead, some of them on the host, through the
host's memory. In f32, what is replicated has to be the same bits on the GPU and
on the host."""

import os

import jobs
from jobs import DeviceType, Plan, Rank

STEPS = 5
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("host", HOST),
    DeviceType("volta", "cuda:sm_70"),
    DeviceType("turing_f16", "cuda:sm_75", "f16"),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("hopper_bf16", "cuda:sm_90", "bf16"),
)
ALONE = [
    ("gpt2", "ampere", 1e-5),
    ("llama", "volta", 1e-5),
    ("bert", "ampere", 1e-5),
    ("llama", "hopper_bf16", 1e-2),
    ("gpt2", "turing_f16", 1e-2),
]
# Model, stage, ranks: micro-batch, steps, last, state, type.
TOGETHER = [
    ("gpt2", 0, [(3, 2, 2, 1, "ampere"), (2, 2, 2, 1, "host")]),
    ("llama", 1, [(3, 2, 1, 2, "host"), (2, 2, 2, 1, "volta")]),
    ("gpt2", 2, [(3, 2, 2, 2, "ampere"), (2, 2, 1, 1, "ampere")]),
    ("llama", 3, [(3, 2, 1, 1, "volta"), (0, 2, 1, 3, "host")]),
]


def compare(workshop, report, name, plan, tolerance, options=()):
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5, *options]
    reference = workshop.train_alone(
        plan.model, f"{name}-alone", plan.samples, options[:6]
    )
    try:
        run = workshop.train(workshop.build(plan, name), f"{name}-run", options)
    except jobs.JobError as error:
        return report.check(name, [str(error)])
    worst, failures = jobs.compare_losses(run, reference, tolerance)
    note = f"losses {worst:.1e}"
    if tolerance == jobs.LOSS_TOLERANCE:
        update, more = jobs.compare_updates(
            run, reference, workshop.initial_weights(plan.model)
        )
        failures += more
        note += f", updates {update:.1e}"
    report.check(name, failures, note)


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--jobs", action="store_true")
    )
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_90,sm_90"
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    for model, name, tolerance in [] if arguments.jobs else ALONE:
        plan = Plan(model, 0, (Rank(3, 2, 2, type=name),), TYPES)
        compare(workshop, report, f"{model}-{name}", plan, tolerance)
    for model, stage, ranks in TOGETHER if arguments.jobs else []:
        plan = Plan(model, stage, tuple(Rank(*rank) for rank in ranks), TYPES)
        names = "-".join(rank[-1] for rank in ranks)
        check = ["--check-replicas"] if stage < 3 else []
        compare(
            workshop, report, f"{model}-stage{stage}-{names}", plan, 1e-5, check
        )
    report.finish()


if __name__ == "__main__":
    main()
