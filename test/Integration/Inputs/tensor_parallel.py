# ===- tensor_parallel.py - Devices that share units train as one does -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny models for 10 steps (--steps: more) of 24 samples under plans in which
devices share units, by equal and unequal parts, and compares with a run on one device:
  losses     within 1e-6 of each other, relatively
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it
  memory     each rank has the peak that poplar build printed, to the byte
and lets runs go on under plans of another kind: after half of the steps, those with
shared units without them, and the other way round."""

import concurrent.futures
import os

import jobs
from jobs import DeviceType

STEPS, CLIP, SAMPLES = 10, 0.5, 24
LOSSES = 1e-6
# The units of the tiny models: two blocks, what is before and what is behind.
UNITS = {"llama": 4, "gpt2": 4, "bert": 4, "qwen3": 4, "phi3": 4, "gpt_neox": 4}

TYPES = (
    DeviceType("fast", jobs.best_f32_target()),
    DeviceType("slow", "host:sse41-f32"),
    DeviceType("again", jobs.best_f32_target(), recompute="recompute-unit"),
    DeviceType("lean", jobs.best_f32_target(), recompute="recompute-attention"),
)

# name: (model, pipelines, groups), a group (end, stage of ZeRO, ((type, part),
# ...), types of the last pipelines, which compute whole units beside the others).
FAST, SLOW = "fast", "slow"


def shared(*types, parts=None, end=None, stage=0, beside=()):
    return (end, stage, tuple(zip(types, parts or [1] * len(types))), beside)


VARIANTS = {
    # Equal parts, every stage of ZeRO, two pipelines.
    **{
        f"{model}-zero{stage}": (model, 2, [shared(FAST, FAST, stage=stage)])
        for model in jobs.MODELS
        for stage in range(4)
    },
    # Norms of heads, packed weights with partial rotations.
    "qwen3-uneven": ("qwen3", 1, [shared(FAST, SLOW, parts=[2, 1], stage=1)]),
    "qwen3-uneven-3": ("qwen3", 1, [shared(FAST, SLOW, parts=[3, 1])]),
    "phi3-zero0": ("phi3", 1, [shared(FAST, FAST)]),
    # q, k and v of each head in one, parallel residuals.
    "gpt_neox-uneven": ("gpt_neox", 1, [shared(FAST, SLOW, parts=[3, 1], stage=1)]),
    # Unequal parts, unlike types.
    "llama-uneven": ("llama", 1, [shared(FAST, SLOW, parts=[3, 1])]),
    "gpt2-uneven-3": ("gpt2", 1, [shared(FAST, SLOW, SLOW, parts=[2, 1, 1], stage=2)]),
    "bert-uneven-4": ("bert", 1, [shared(*[FAST] * 4, parts=[4, 3, 2, 1], stage=3)]),
    "gpt2-uneven-2x2": ("gpt2", 2, [shared(FAST, SLOW, parts=[2, 1], stage=3)]),
    # Recomputation goes through the exchanges again.
    "llama-recompute-unit": ("llama", 1, [shared("again", "again", stage=1)]),
    # Each makes its columns of the logits in chunks of tokens.
    "llama-chunks": ("llama:4096", 1, [shared("again", "again", parts=[3, 1])]),
    "bert-chunks": ("bert:2048", 1, [shared(FAST, FAST, stage=1)]),
    "gpt2-recompute-attention": ("gpt2", 1, [shared("lean", "lean", parts=[2, 1])]),
    "bert-recompute-unit": ("bert", 2, [shared("again", "again", stage=3)]),
    # Stages of a pipeline, which share in unlike ways.
    "llama-stages-2+1": ("llama", 1, [shared(FAST, FAST, end=2), shared(SLOW)]),
    "llama-stages-1+2": ("llama", 2, [shared(SLOW, end=1), shared(FAST, FAST, stage=1)]),
    "llama-stages-uneven": (
        "llama",
        1,
        [
            shared(FAST, SLOW, parts=[2, 1], end=2),
            shared(FAST, end=3),
            shared(SLOW, FAST, parts=[1, 5], stage=1),
        ],
    ),
    "gpt2-stages-2+2": (
        "gpt2",
        1,
        [shared(FAST, FAST, end=2, stage=1), shared(SLOW, SLOW, stage=1)],
    ),
    # Of a tied embedding, each stage has other rows.
    "gpt2-stages-tied-2+2": (
        "gpt2",
        2,
        [shared(FAST, SLOW, parts=[3, 1], end=2, stage=1), shared(FAST, FAST, stage=3)],
    ),
    "gpt2-stages-tied-1+3": (
        "gpt2",
        1,
        [shared(SLOW, end=1), shared(FAST, SLOW, SLOW, parts=[2, 1, 1])],
    ),
    "qwen3-stages-tied": (
        "qwen3",
        1,
        [
            shared(FAST, SLOW, parts=[2, 1], end=2, stage=2),
            shared(FAST, SLOW, stage=1),
        ],
    ),
    "bert-stages-2+2": (
        "bert",
        1,
        [shared(FAST, SLOW, parts=[3, 1], end=2), shared(FAST, SLOW, parts=[3, 1])],
    ),
    # Pipelines of which unlike numbers of devices share units.
    "llama-beside": ("llama", 2, [shared(SLOW, SLOW, beside=[FAST])]),
    "qwen3-beside": ("qwen3", 2, [shared(SLOW, SLOW, stage=1, beside=[FAST])]),
    "gpt2-beside": (
        "gpt2",
        3,
        [shared(FAST, SLOW, parts=[2, 1], stage=1, beside=[FAST, SLOW])],
    ),
    "bert-beside-4": (
        "bert",
        2,
        [shared(*[SLOW] * 4, stage=1, beside=[FAST])],
    ),
    "llama-beside-recompute-unit": (
        "llama",
        2,
        [shared(FAST, FAST, stage=1, beside=["again"])],
    ),
    "gpt2-stages-beside": (
        "gpt2",
        2,
        [
            shared(FAST, SLOW, parts=[3, 1], end=2, stage=1, beside=[SLOW]),
            shared(FAST, FAST, beside=[FAST]),
        ],
    ),
    "llama-stages-beside": (
        "llama",
        2,
        [shared(SLOW, end=2, stage=1), shared(FAST, SLOW, beside=[FAST])],
    ),
}

RESUMED = (
    "llama-uneven",
    "gpt2-uneven-2x2",
    "bert-uneven-4",
    "llama-stages-uneven",
    "gpt2-stages-tied-2+2",
    "gpt2-beside",
)


def get_family(name):
    return VARIANTS[name][0].partition(":")[0]


def make_plan(model, pipelines, groups):
    units = UNITS[model.partition(":")[0]]
    groups = [(end or units, *rest) for end, *rest in groups]
    # On slow links, tokens travel in pieces.
    bandwidth = "1.0e+06" if pipelines == 1 else "1.0e+09"
    return jobs.plan_shared(model, pipelines, groups, SAMPLES, TYPES, bandwidth)


def main():
    def add(parser):
        parser.add_argument("--part", default="1/1", help="I/N: the Ith of N parts")

    arguments = jobs.parse_arguments(__doc__, add, STEPS)
    part, parts = map(int, arguments.part.split("/"))
    names = list(VARIANTS)[part - 1 :: parts]
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    options = ["--lr", 1e-3, "--clip", CLIP, "--schedule", "constant"]
    all_steps = [*options, "--steps", arguments.steps]
    half = [*options, "--steps", arguments.steps // 2]

    def prepare(model):
        reference = workshop.train_alone(model, f"{model}-reference", SAMPLES, all_steps)
        return reference, workshop.initial_weights(model)

    def compare(name, run):
        model = get_family(name)
        reference, initial = references[model]
        loss, failures = jobs.compare_losses(run, reference, LOSSES)
        update, more = jobs.compare_updates(run, reference, initial)
        return f"losses {loss:.1e}, updates {update:.1e}", failures + more

    def check(name):
        try:
            job = workshop.build(make_plan(*VARIANTS[name]), name)
            table = workshop.path(f"{name}.csv")
            memory = ["--report-memory", table, "--check-replicas"]
            run = workshop.train(job, f"{name}-run", all_steps + memory)
        except jobs.JobError as error:
            return report.check(name, [str(error)])
        note, failures = compare(name, run)
        printed, allocated = jobs.printed_peaks(job), jobs.allocated_peaks(table)
        if printed != allocated:
            failures.append(f"peaks of {allocated} bytes, but {printed} were printed")
        report.check(name, failures, note)

    def check_resumed(name):
        model = get_family(name)
        job, alone = workshop.path(name), workshop.alone(model)
        batch = ["--global-batch", SAMPLES, "--batch", SAMPLES, "--threads", 1]
        for direction in ("out of", "into"):
            run_name = f"{name}-{direction.replace(' ', '-')}"
            first, then = (job, alone) if direction == "out of" else (alone, job)
            more = {job: [], alone: batch}
            try:
                workshop.train(first, run_name, half + more[first])
                run = workshop.train(
                    then, run_name, all_steps + more[then], resume=True
                )
            except jobs.JobError as error:
                report.check(run_name, [str(error)])
                continue
            note, failures = compare(name, run)
            report.check(run_name, failures, note)

    models = sorted({get_family(name) for name in names})
    with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() // 2)) as pool:
        references = dict(zip(models, pool.map(prepare, models)))
        list(pool.map(check, names))
        list(pool.map(check_resumed, [name for name in names if name in RESUMED]))
    report.finish()


main()
