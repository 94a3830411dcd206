# ===- replicas.py - Shard groups that hold replicas of the state ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains models whose state is sharded in each of several shard groups, and
replicated across them, in ZeRO stages 1 to 3, with even and uneven samples and
shards, a rank without samples among them. Against one device that takes the batch
at once:
  losses     within 1e-5 of each other, relatively
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it
So does the ordinary plan of the same samples in one group. Replicas hold the same
bits (--check-replicas), memory is as planned, to the byte, and a run goes on from a
checkpoint of replicas under one group, and back.

--gpus: jobs of GPUs, which may be emulated, for fewer steps: of GPUs alone, whose
library collects in shard groups and across them, and a shard group of hosts beside
one of GPUs."""

import jobs
from jobs import DeviceType, Plan, Rank

STEPS, CLIP, SAMPLES = 10, 0.5, 28
COMMON = ["--lr", 1e-3, "--clip", CLIP, "--schedule", "constant", "--warmup", 0]

# (micro_batch, steps, last) of ranks that meet in every micro-step.
EVEN = [(3, 3, 1)] * 4
UNEVEN = [(5, 3, 3), (3, 3, 2), (2, 3, 1), (1, 3, 0)]
NONE = [(5, 3, 2), (0, 3, 0), (4, 3, 2), (2, 3, 2)]
# In stage 1 they meet once.
FREE = [(5, 3, 3), (2, 4, 2), (2, 3, 1), (2, 1, 2)]
SIX = [(2, 3, 1), (2, 3, 1), (2, 3, 0), (2, 3, 1), (1, 3, 2), (2, 3, 1)]

TYPES = (
    DeviceType("device", jobs.best_f32_target()),
    DeviceType("sse41", "host:sse41-f32", recompute="recompute-unit"),
    DeviceType("ampere", "cuda:sm_80"),
)

# Model, stage, number of replicas, samples and shares of a shard group; types.
CASES = {
    "stage3": ("gpt2", 3, 2, EVEN, (1, 1)),
    "stage3-uneven": ("llama", 3, 2, UNEVEN, (3, 1)),
    "stage3-without-samples": ("bert", 3, 2, NONE, (0, 1)),
    "stage3-three": ("gpt2", 3, 3, SIX, (1, 3)),
    "stage3-unlike": ("llama", 3, 2, UNEVEN, (1, 2), ("device", "sse41")),
    "stage2": ("gpt2", 2, 2, UNEVEN, (3, 1)),
    "stage1": ("llama", 1, 2, FREE, (1, 2)),
    "stage1-tied": ("gpt2", 1, 2, FREE, (1, 2)),
}
RESUMED = "stage3-uneven"
GPU_STEPS = 3
GPU_CASES = {
    "gpus": ("gpt2", 3, 2, UNEVEN, (1, 1), ("ampere", "ampere")),
    "gpus-uneven": ("llama", 2, 2, UNEVEN, (3, 1), ("ampere", "ampere")),
    "gpus-and-hosts": ("llama", 3, 2, UNEVEN, (1, 2), ("ampere", "device")),
}


def make_plan(case, replicas):
    model, stage, number, samples, state, *types = case
    size = len(samples) // number
    ranks = tuple(
        Rank(
            *own,
            state=state[place % size],
            type=types[0][place // size] if types else "device",
        )
        for place, own in enumerate(samples)
    )
    return Plan(
        model, stage, ranks, TYPES, wires=f"replicas {replicas}" if replicas > 1 else ""
    )


class Test:
    def __init__(self, workshop, report, steps):
        self.workshop, self.report, self.steps = workshop, report, steps
        self.references = {}

    def train(self, plan, name, run_name, steps, resume=False, options=()):
        job = self.workshop.build(plan, name)
        return job, self.workshop.train(
            job, run_name, ["--steps", steps, *COMMON, *options], resume
        )

    def get_reference(self, model):
        if model not in self.references:
            self.references[model] = self.workshop.train_alone(
                model, f"{model}-reference", SAMPLES, ["--steps", self.steps, *COMMON]
            ), self.workshop.initial_weights(model)
        return self.references[model]

    def compare(self, name, run, model):
        reference, initial = self.get_reference(model)
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        self.report.check(name, failures, f"losses {loss:.1e}, updates {update:.1e}")

    def check(self, name, case):
        plan = make_plan(case, case[2])
        assert plan.samples == SAMPLES, (name, plan.samples)
        table = self.workshop.path(f"{name}-memory.csv")
        options = ["--check-replicas", "--report-memory", table]
        job, run = self.train(plan, name, f"{name}-run", self.steps, options=options)
        self.compare(name, run, case[0])
        if any(rank.type == "ampere" for rank in plan.ranks):
            return  # a GPU's library has memory of its own
        planned, allocated = jobs.printed_peaks(job), jobs.allocated_peaks(table)
        wrong = [] if planned == allocated else [f"planned {planned}, took {allocated}"]
        self.report.check(f"{name}, memory", wrong)

    def check_resumed(self, case):
        """Half of the steps each."""
        one, several = make_plan(case, 1), make_plan(case, case[2])
        for first, then, name in (
            (several, several, "resumed"),
            (several, one, "replicas-then-one-group"),
            (one, several, "one-group-then-replicas"),
        ):
            half = self.steps // 2
            self.train(first, f"{name}-first", name, half)
            _, run = self.train(then, f"{name}-then", name, self.steps, resume=True)
            reference, initial = self.get_reference(case[0])
            loss, failures = jobs.compare_losses(run, reference)
            update, more = jobs.compare_updates(run, reference, initial)
            if f"at step {half}" not in run.output:
                more.append("did not resume")
            note = f"losses {loss:.1e}, updates {update:.1e}"
            self.report.check(name, failures + more, note)


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--gpus", action="store_true")
    )
    report = jobs.Report()
    steps = GPU_STEPS if arguments.gpus else STEPS
    test = Test(jobs.Workshop(arguments.directory), report, steps)
    for name, case in (GPU_CASES if arguments.gpus else CASES).items():
        try:
            test.check(name, case)
        except jobs.JobError as error:
            report.check(name, [str(error)])
    if not arguments.gpus:
        try:
            test.check_resumed(CASES[RESUMED])
        except jobs.JobError as error:
            report.check(RESUMED, [str(error)])
    report.finish()


main()
