# ===- equivalence.py - Any split trains as one device does ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny models for 10 steps of 28 samples under many plans, each rank in
three or more micro-steps, the last of them smaller, with the gradient clipped
in every step, and compares with a run on one device, which takes the batch at
once:
  losses     within 1e-5 of each other, relatively
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it

A plan is a model, a stage of ZeRO, a number of ranks, how samples are shared
(evenly, unevenly, one rank has none) and how state is (evenly, unevenly, one
rank holds none; in stage 0, where all hold all, who reduces how much).

Each of the 336 plans takes some seconds; --model and --part run some of them, --steps takes more steps.
--spread gives each plan of several ranks to one of the three models, such that
each model has all combinations of any three of stage, ranks, samples and state."""

import concurrent.futures
import itertools
import os
import shutil

import jobs
from jobs import Plan, Rank

STEPS, CLIP, SAMPLES = 10, 0.5, 28

# (micro_batch, steps, last) of the ranks: those who meet in every micro-step
# (stages 2 and 3), and those who do not (None: the same).
BATCHES = {
    "even": {
        1: ([(8, 4, 4)], None),
        2: ([(5, 3, 4), (5, 3, 4)], None),
        3: ([(4, 3, 2), (4, 3, 1), (4, 3, 1)], None),
        4: ([(3, 3, 1)] * 4, None),
    },
    "uneven": {
        2: ([(7, 3, 5), (4, 3, 1)], [(7, 3, 5), (2, 5, 1)]),
        3: ([(6, 3, 3), (4, 3, 1), (2, 3, 0)], [(6, 3, 3), (4, 3, 1), (1, 4, 1)]),
        4: (
            [(5, 3, 3), (3, 3, 2), (2, 3, 1), (1, 3, 0)],
            [(5, 3, 3), (2, 4, 2), (2, 3, 1), (2, 1, 2)],
        ),
    },
    "none": {
        2: ([(0, 4, 0), (8, 4, 4)], [(0, 1, 0), (8, 4, 4)]),
        3: ([(6, 3, 5), (0, 3, 0), (4, 3, 3)], [(6, 3, 5), (0, 1, 0), (4, 3, 3)]),
        4: (
            [(5, 3, 2), (4, 3, 2), (2, 3, 2), (0, 3, 0)],
            [(5, 3, 2), (3, 4, 1), (2, 3, 2), (0, 1, 0)],
        ),
    },
}

# Relative sizes of the ranks' shards.
SHARDS = {
    "even": {1: (1,), 2: (1, 1), 3: (1, 1, 1), 4: (1, 1, 1, 1)},
    "uneven": {2: (3, 1), 3: (1, 3, 2), 4: (4, 1, 2, 3)},
    "none": {2: (0, 1), 3: (2, 0, 1), 4: (1, 2, 3, 0)},
}


def all_variants(models, spread=False):
    for model, stage, ranks, batch, shards in itertools.product(
        models, range(4), range(1, 5), BATCHES, SHARDS
    ):
        if ranks not in BATCHES[batch] or ranks not in SHARDS[shards]:
            continue
        # An orthogonal array of strength 3.
        choices = (stage, ranks, list(BATCHES).index(batch), list(SHARDS).index(shards))
        if spread and ranks > 1 and sum(choices) % 3 != jobs.MODELS.index(model):
            continue
        yield model, stage, ranks, batch, shards


def make_plan(model, stage, ranks, batch, shards):
    meeting, free = BATCHES[batch][ranks]
    steps = meeting if stage >= 2 or not free else free
    return Plan(
        model,
        stage,
        tuple(
            Rank(*step, state=state) for step, state in zip(steps, SHARDS[shards][ranks])
        ),
    )


def main():
    def add(parser):
        parser.add_argument("--model", help="one of examples/models/tiny-*.json")
        parser.add_argument("--spread", action="store_true", help="a third of the plans")
        parser.add_argument("--part", default="1/1", help="I/N: the Ith of N parts")
        parser.add_argument("--jobs", type=int, help="how many at a time")

    arguments = jobs.parse_arguments(__doc__, add, STEPS)
    models = [arguments.model] if arguments.model else jobs.MODELS
    total = len(list(all_variants(jobs.MODELS)))
    part, parts = map(int, arguments.part.split("/"))
    variants = list(all_variants(models, arguments.spread))[part - 1 :: parts]
    print(f"{len(variants)} of {total} plans", flush=True)

    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    errors = []  # of losses and updates
    options = ["--steps", arguments.steps, "--lr", 1e-3, "--clip", CLIP]

    def prepare(model):
        reference = workshop.train_alone(model, f"{model}-reference", SAMPLES, options)
        return reference, workshop.initial_weights(model)

    def check(variant):
        model, stage, ranks, batch, shards = variant
        name = f"{model}-stage{stage}-ranks{ranks}-samples_{batch}-shards_{shards}"
        plan = make_plan(*variant)
        assert plan.samples == SAMPLES
        reference, initial = references[model]
        try:
            job = workshop.build(plan, name)
            run = workshop.train(job, f"{name}-run", options)
        except jobs.JobError as error:
            return report.check(name, [str(error)])
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        report.check(name, failures, f"losses {loss:.1e}, updates {update:.1e}")
        errors.append((loss, update))
        if not failures:
            shutil.rmtree(job)
            shutil.rmtree(run.directory)

    workers = arguments.jobs or max(2, os.cpu_count() // 2)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        references = dict(zip(models, pool.map(prepare, models)))
        list(pool.map(check, variants))
    if errors:
        loss, update = map(max, zip(*errors))
        print(f"worst: losses {loss:.1e}, updates {update:.1e}")
    report.finish()


main()
