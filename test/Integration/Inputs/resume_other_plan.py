# ===- resume_other_plan.py - Go on under another plan ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains 8 steps under one plan and continues from its checkpoint under
another one: other stages, ranks, shares, shards, and one device alone. Losses
follow those of a run of 16 steps on one device to 1e-5, and each tensor's
update, from the start to the end, to 1e-3."""

import jobs
from jobs import Plan, Rank

HALF, WHOLE, SAMPLES = 8, 16, 13

# Stage, and (micro_batch, steps, last, state) of the ranks; None: no plan.
PLANS = {
    "alone": None,
    "stage0-ranks3": (0, [(2, 3, 1, 1), (0, 1, 0, 1), (3, 3, 2, 1)]),
    "stage1-ranks2": (1, [(3, 3, 2, 1), (2, 3, 1, 3)]),
    # All state is on one rank.
    "stage1-ranks2-one": (1, [(3, 3, 2, 0), (2, 3, 1, 1)]),
    "stage2-ranks4": (2, [(2, 3, 1, 2), (1, 3, 0, 0), (2, 3, 0, 1), (1, 3, 0, 3)]),
    "stage3-ranks3": (3, [(1, 3, 1, 0), (2, 3, 2, 2), (2, 3, 0, 1)]),
    "stage3-ranks2": (3, [(5, 2, 2, 1), (5, 2, 1, 1)]),
}
PAIRS = [
    ("llama", "alone", "stage3-ranks3"),
    ("llama", "stage3-ranks3", "stage0-ranks3"),
    ("llama", "stage2-ranks4", "alone"),
    ("gpt2", "stage0-ranks3", "stage2-ranks4"),
    ("gpt2", "stage1-ranks2-one", "stage3-ranks3"),
    ("bert", "stage2-ranks4", "stage1-ranks2-one"),
    ("bert", "stage3-ranks2", "stage3-ranks3"),
    ("bert", "stage1-ranks2", "stage3-ranks2"),
]


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    # A constant rate: a schedule would know how many steps are to come.
    common = ["--lr", 1e-3, "--clip", 0.5, "--schedule", "constant", "--warmup", 0]

    def train(model, plan_name, run_name, steps, resume):
        options = ["--steps", steps, *common]
        if PLANS[plan_name] is None:
            options += ["--global-batch", SAMPLES, "--batch", 4, "--threads", 1]
            return workshop.train(workshop.alone(model), run_name, options, resume)
        stage, ranks = PLANS[plan_name]
        plan = Plan(model, stage, tuple(Rank(*rank) for rank in ranks))
        assert plan.samples == SAMPLES, (plan_name, plan.samples)
        job = workshop.build(plan, f"{model}-{plan_name}")
        return workshop.train(job, run_name, options, resume)

    references = {}
    for model, first, second in PAIRS:
        if model not in references:
            whole = ["--steps", WHOLE, *common]
            references[model] = (
                workshop.train_alone(model, f"{model}-reference", SAMPLES, whole),
                workshop.initial_weights(model),
            )
        reference, initial = references[model]
        name = f"{model}-{first}-then-{second}"
        try:
            train(model, first, name, HALF, False)
            run = train(model, second, name, WHOLE, True)
        except jobs.JobError as error:
            report.check(name, [str(error)])
            continue
        loss, failures = jobs.compare_losses(run, reference)
        update, more = jobs.compare_updates(run, reference, initial)
        if f"at step {HALF}" not in run.output:
            more.append("did not resume")
        if "note: options or data differ" in run.output:
            more.append("takes another plan for other options")
        report.check(name, failures + more, f"losses {loss:.1e}, updates {update:.1e}")
    report.finish()


main()
