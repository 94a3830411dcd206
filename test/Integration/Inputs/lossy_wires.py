# ===- lossy_wires.py - Narrow formats between nodes -----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a job of three ranks on two nodes with exact and with lossy
collectives, in each stage of ZeRO. Lossy losses are other numbers, and within 1 %
of the exact ones for 30 steps; what is replicated is the same on all ranks; memory
is as planned, to the byte. A resumed run, whose error feedback starts anew, stays
near the one that was not interrupted. Ranks of plans that differ in a wire do not
start."""

import os

import jobs
from jobs import Plan, Rank

STEPS, TOLERANCE = 30, 1e-2
COMMON = ["--lr", 1e-3, "--warmup", 0, "--schedule", "constant", "--clip", 0.5]
# (micro_batch, steps, last, state): 7 samples, uneven; two ranks share a node.
RANKS = (
    Rank(2, 2, 1, 2, node="a"),
    Rank(1, 2, 1, 1, node="b"),
    Rank(1, 2, 1, 3, node="a"),
)
WIRES = {
    0: ["gradient_wire i8", "gradient_wire bf16"],
    1: ["gradient_wire i8 parameter_wire bf16"],
    2: ["gradient_wire i8 parameter_wire i8"],
    3: ["gradient_wire i8 parameter_wire i8", "parameter_wire bf16"],
}


def check_memory(job, table):
    planned, allocated = jobs.printed_peaks(job), jobs.allocated_peaks(table)
    return [] if planned == allocated else [f"planned {planned}, took {allocated}"]


def check_resume(workshop, job, reference):
    """In the middle, and to the end."""
    for steps in (STEPS // 2, STEPS):
        run = workshop.train(
            job, "resumed", ["--steps", steps, *COMMON], steps == STEPS
        )
    worst, failures = jobs.compare_losses(run, reference, TOLERANCE)
    if "error feedback of lossy gradients starts anew" not in run.output:
        failures.append("does not say what resuming loses")
    if run.losses == reference.losses:
        failures.append("keeps its error feedback, unlike what is documented")
    return worst, failures


def check_unlike(workshop, exact, lossy):
    """The first rank has another plan than the others."""
    data = os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")
    options = ["train", "--data", data, "--data-format", "bytes", "--steps", "1"]
    options += ["--out", workshop.path("unlike")]
    programs = [os.path.join(job, "device", "train") for job in (exact, lossy)]
    if os.getuid() == 0:
        os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1"]
    command += [programs[0], *options, ":", "-np", "2", programs[1], *options]
    status, output = jobs.execute(command)
    if status == 0 or "the ranks do not have the same plan" not in output:
        return [f"exit status {status}: {output}"]
    return []


def main():
    arguments = jobs.parse_arguments(__doc__)
    # All nodes of the plan are this machine.
    os.environ["POPLAR_LOCAL"] = "1"
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    options = ["--steps", STEPS, *COMMON]
    for stage, formats in WIRES.items():
        exact_job = workshop.build(Plan("llama", stage, RANKS), f"exact-{stage}")
        exact = workshop.train(exact_job, f"exact-{stage}-run", options)
        check = ["--check-replicas"] if stage < 3 else []
        for number, wires in enumerate(formats):
            name = f"lossy-{stage}-{number}"
            try:
                job = workshop.build(Plan("llama", stage, RANKS, wires=wires), name)
                table = workshop.path(f"{name}.csv")
                memory = ["--report-memory", table]
                run = workshop.train(job, f"{name}-run", options + check + memory)
                worst, failures = jobs.compare_losses(run, exact, TOLERANCE)
                if run.losses == exact.losses:
                    failures.append("loses nothing")
                failures += check_memory(job, table)
                report.check(f"stage {stage}, {wires}", failures, f"losses {worst:.1e}")
                if stage == 2:
                    worst, failures = check_resume(workshop, job, run)
                    report.check("resumed", failures, f"losses {worst:.1e}")
                    report.check("unlike", check_unlike(workshop, exact_job, job))
            except jobs.JobError as error:
                report.check(name, [str(error)])
    report.finish()


main()
