# ===- recompute_layers.py - Recomputing in some layers trains the same ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains models of four layers on devices of which some recompute in their first
layers alone, in every stage of ZeRO and with adapters, and compares with one device
that keeps everything and takes the batch at once:
  losses     within 1e-5 of each other, relatively
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it
  memory     each rank has the peak that poplar build printed, to the byte"""

import jobs
from jobs import DeviceType, Plan, Rank

STEPS, CLIP, SAMPLES = 6, 0.5, 12
TYPES = (
    DeviceType("keep", jobs.best_f32_target()),
    DeviceType("one", jobs.best_f32_target(), recompute="recompute-unit:1"),
    DeviceType("three", "host:sse41-f32", recompute="recompute-unit:3"),
    DeviceType("attention", jobs.best_f32_target(), recompute="recompute-attention:2"),
)
COMMON = ["--steps", STEPS, "--lr", 1e-3, "--clip", CLIP]
COMMON += ["--schedule", "constant", "--warmup", 0]
# Model, stage, types, and options of the import.
CASES = {
    "alone": ("llama-4", 0, ["three"]),
    "stage1": ("gpt2-4", 1, ["one", "keep"]),
    "stage2": ("bert-4", 2, ["attention", "three"]),
    "stage3": ("llama-4", 3, ["one", "three"]),
    "adapters": ("gpt2-4", 3, ["three", "keep"], ["--lora-rank", "4"]),
}


def check(name, case, directory, report):
    model, stage, types, *options = case
    workshop = jobs.Workshop(f"{directory}/{name}", *options)
    own = SAMPLES // len(types)
    ranks = tuple(Rank(own // 2, 2, own // 2, type=type) for type in types)
    table = workshop.path("memory.csv")
    job = workshop.build(Plan(model, stage, ranks, TYPES), "job")
    run = workshop.train(job, "run", [*COMMON, "--report-memory", table])
    reference = workshop.train_alone(model, "reference", SAMPLES, COMMON)
    loss, update, failures = jobs.compare_runs(
        run, reference, workshop.initial_weights(model), CLIP
    )
    planned, allocated = jobs.printed_peaks(job), jobs.allocated_peaks(table)
    if planned != allocated:
        failures.append(f"planned {planned}, took {allocated}")
    report.check(name, failures, f"losses {loss:.1e}, updates {update:.1e}")


def main():
    arguments = jobs.parse_arguments(__doc__, lambda parser: None)
    report = jobs.Report()
    for name, case in CASES.items():
        try:
            check(name, case, arguments.directory, report)
        except jobs.JobError as error:
            report.check(name, [str(error)])
    report.finish()


main()
