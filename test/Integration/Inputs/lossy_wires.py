# ===- lossy_wires.py - Narrow formats between nodes -----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a job of three ranks on two nodes with exact and with lossy
collectives, in each stage of ZeRO; and with lossy ones pipelines, whose stages
reduce among their replicas, and ranks that share units. Lossy losses are other
numbers, and within 1 % of the exact ones for 30 steps; what is replicated is the
same on all ranks; memory is as planned, to the byte. A resumed run, whose error
feedback starts at zero, stays near the one that was not interrupted. Ranks of plans
that differ in a wire do not start.

--gpus: jobs of GPUs, which may be emulated, and hosts instead, for fewer steps."""

import os
from dataclasses import replace

import jobs
from jobs import DeviceType, Plan, Rank

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
# The same samples in two pipelines.
LANES = ((2, 2, 2), (2, 2, 1))


def pipeline(model, stages, schedule, wires):
    """Two stages, whose replicas are on two of three nodes."""
    groups = tuple(zip(((0, 2), (2, 4)), stages))
    ranks = tuple(
        Rank(*lane, group=group, node="abc"[group + number])
        for group in (0, 1)
        for number, lane in enumerate(LANES)
    )
    return Plan(model, max(stages), ranks, groups=groups, schedule=schedule, wires=wires)


def shared(model, stage, wires):
    """Two pairs that share all units, on a node each."""
    ranks = tuple(
        Rank(*lane, node=node) for node, lane in zip("ab", LANES) for _ in (1, 2)
    )
    groups = (((0, 4), stage, (1, 1)),)
    return Plan(model, stage, ranks, groups=groups, wires=wires)


# Of GPT-2, both stages reduce the embedding, which is tied.
GROUPS = {
    "pipeline-01": pipeline("llama", (0, 1), "1f1b", "gradient_wire i8"),
    "pipeline-23": pipeline("llama", (2, 3), "gpipe", "gradient_wire i8 parameter_wire i8"),
    "pipeline-13": pipeline("llama", (1, 3), "1f1b", "parameter_wire bf16"),
    "pipeline-tied": pipeline("gpt2", (0, 0), "1f1b", "gradient_wire bf16"),
    "shared": shared("llama", 1, "gradient_wire i8 parameter_wire bf16"),
}
RESUMED = ("stage 2", "pipeline-01")

TYPES = (
    DeviceType("host", jobs.best_f32_target()),
    DeviceType("ampere", "cuda:sm_80"),
)
GPU_STEPS = 5


def mixed(stage, wires, types=("ampere", "host", "ampere")):
    """Two GPUs of a node, which could collect by NCCL, and a host on another."""
    ranks = tuple(
        replace(rank, type=name) for rank, name in zip(RANKS, types)
    )
    return Plan("llama", stage, ranks, TYPES, wires=wires)


GPUS = {
    "gpus-0": mixed(0, "gradient_wire i8"),
    "gpus-2": mixed(2, "gradient_wire i8 parameter_wire i8"),
    # Of GPUs alone, whose library has no blocks of int8.
    "gpus-1": mixed(1, "parameter_wire i8", ["ampere"] * 3),
}


def check_memory(job, table, plan):
    """What a GPU's library has for itself comes on top."""
    planned, allocated = jobs.printed_peaks(job), jobs.allocated_peaks(table)
    for number, rank in enumerate(plan.ranks):
        own = 256 if rank.type == "ampere" else 0
        if not 0 <= allocated[number] - planned[number] <= own:
            return [f"planned {planned}, took {allocated}"]
    return []


def check_resume(workshop, job, reference):
    """In the middle, and to the end."""
    for steps in (STEPS // 2, STEPS):
        run = workshop.train(
            job, "resumed", ["--steps", steps, *COMMON], steps == STEPS
        )
    worst, failures = jobs.compare_losses(run, reference, TOLERANCE)
    if "error feedback of lossy gradients starts at zero" not in run.output:
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


class Test:
    def __init__(self, workshop, report, steps):
        self.workshop, self.report, self.steps = workshop, report, steps
        self.references = {}

    def exact(self, model):
        """A job with exact collectives, and its run: the curve of any plan."""
        if model not in self.references:
            job = self.workshop.build(Plan(model, 0, RANKS), f"exact-{model}")
            run = self.workshop.train(
                job, f"exact-{model}-run", ["--steps", self.steps, *COMMON]
            )
            self.references[model] = job, run
        return self.references[model]

    def check(self, name, plan):
        workshop, path = self.workshop, name.replace(" ", "-").replace(",", "")
        exact_job, exact = self.exact(plan.model)
        options = ["--steps", self.steps, *COMMON]
        if plan.stage < 3 or len(plan.groups) > 1:
            options.append("--check-replicas")
        try:
            job = workshop.build(plan, path)
            table = workshop.path(f"{path}.csv")
            run = workshop.train(
                job, f"{path}-run", [*options, "--report-memory", table]
            )
            worst, failures = jobs.compare_losses(run, exact, TOLERANCE)
            if jobs.compare_losses(run, exact)[0] < jobs.LOSS_TOLERANCE:
                failures.append("loses nothing")
            failures += check_memory(job, table, plan)
            self.report.check(f"{name}, {plan.wires}", failures, f"losses {worst:.1e}")
            if name in RESUMED:
                worst, failures = check_resume(workshop, job, run)
                self.report.check(f"{name}, resumed", failures, f"losses {worst:.1e}")
            if len(plan.ranks) == len(RANKS) and name in RESUMED:
                self.report.check("unlike", check_unlike(workshop, exact_job, job))
        except jobs.JobError as error:
            self.report.check(name, [str(error)])


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--gpus", action="store_true")
    )
    # All nodes of the plan are this machine.
    os.environ["POPLAR_LOCAL"] = "1"
    report = jobs.Report()
    steps = GPU_STEPS if arguments.gpus else STEPS
    test = Test(jobs.Workshop(arguments.directory), report, steps)
    if arguments.gpus:
        for name, plan in GPUS.items():
            test.check(name, plan)
        return report.finish()
    for stage, formats in WIRES.items():
        for number, wires in enumerate(formats):
            name = f"stage {stage}" + (f", {number}" if number else "")
            test.check(name, Plan("llama", stage, RANKS, wires=wires))
    for name, plan in GROUPS.items():
        test.check(name, plan)
    report.finish()


main()
