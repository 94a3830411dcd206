# ===- lora.py - Adapters beside frozen weights, in all kinds of jobs -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains adapters of tiny models, with dropout, and checks that

  jobs       of two unlike device types in the stages 0 to 3 have the losses and
             the updates of one device, and allocate what poplar build said
  pipelines  have the losses and the updates of one device, also where a stage has
             frozen parameters alone, or trains modules as a whole
  memory     is that of the formulas: nothing but a working copy of what is frozen
  resuming   gives the losses of a run that was not interrupted, bit by bit,
             although checkpoints hold the adapters alone: the frozen weights are
             still what they were
  merging    gives a model with the losses of the adapters beside theirs
  planning   knows that a device with little memory takes more samples at once
             than if it trained the whole model
"""

import json
import os
import re

import adapters
import jobs
from jobs import Plan, Rank

STEPS, SAMPLES, CLIP = 10, 14, 0.01
OPTIONS = ["--steps", STEPS, "--lr", 1e-2, "--clip", CLIP]
TARGETS = {"llama": "q_proj,v_proj,down_proj", "gpt2": "all-linear"}


class Workshop(adapters.Workshop):
    """Also has "llama.lora": that model with adapters; and "llama.saved", whose
    embedding and head are trained as a whole beside them."""

    def options_of(self, family, kind):
        options = ["--lora-rank", "4", "--lora-alpha", "8", "--lora-dropout", "0.1"]
        if kind == "saved":
            options += ["--lora-modules-to-save", "embed_tokens,lm_head"]
        return [*options, "--lora-targets", TARGETS[family]]


def check_model(workshop, report, family):
    name = f"{family}.lora"
    with open(workshop.model(name)) as file:
        everything, trained = adapters.count_elements(file.read())
    reference = workshop.train_alone(name, f"{name}-reference", SAMPLES, OPTIONS)
    initial = workshop.initial_weights(name)
    for stage in range(4):
        ranks = (
            Rank(4, 3, 2, state=2.0, type="fast"),
            Rank(2, 3, 0, state=1.0, type="slow"),
        )
        plan = Plan(name, stage, ranks, adapters.TYPES)
        assert plan.samples == SAMPLES
        title = f"{name}-stage{stage}"
        job = workshop.build(plan, title)
        table = workshop.path(f"{title}.csv")
        options = [*OPTIONS, "--report-memory", table]
        if stage < 3:
            options.append("--check-replicas")
        run = workshop.train(job, f"{title}-run", options)
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        failures += adapters.check_memory(
            job,
            table,
            stage,
            parameters=4 * everything,
            gradients=4 * trained,
            optimizer=8 * trained,
        )
        report.check(title, failures, f"losses {loss:.1e}, updates {update:.1e}")

    twice, failures = adapters.check_resume(workshop, name, STEPS, SAMPLES, OPTIONS)
    files = set(os.listdir(os.path.join(twice.directory, "latest")))
    if "model.safetensors" in files or "adapter_config.json" not in files:
        failures.append(f"the checkpoint holds {sorted(files)}")
    report.check(f"{name}-resume", failures)


PIPELINES = [("1f1b", 1), ("gpipe", 1), ("1f1b", 2), ("1f1b", 3)]


def check_pipelines(workshop, report, name, pipelines=PIPELINES):
    """A stage of the embedding alone has nothing to train, and passes on."""
    reference = workshop.train_alone(name, f"{name}-reference", SAMPLES, OPTIONS)
    initial = workshop.initial_weights(name)
    for schedule, cut in pipelines:
        ranks = (
            Rank(2, 7, 2, type="fast", group=0, turns=()),
            Rank(2, 7, 2, type="slow", group=1, turns=()),
        )
        groups = (((0, cut), 0), ((cut, 4), 0))
        plan = Plan(name, 0, ranks, adapters.TYPES, groups, schedule)
        assert plan.samples == SAMPLES
        title = f"{name}-{schedule}-{cut}"
        run = workshop.train(workshop.build(plan, title), f"{title}-run", OPTIONS)
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        report.check(title, failures, f"losses {loss:.1e}, updates {update:.1e}")


def check_saved(workshop, report):
    """The first stage trains its embedding, and the last one its head."""
    name = "llama.saved"
    check_pipelines(workshop, report, name, [("1f1b", 1)])
    _, failures = adapters.check_resume(workshop, name, STEPS, SAMPLES, OPTIONS)
    report.check(f"{name}-resume", failures)


def check_merge_of_job(workshop, report, name):
    """Of a job that is launched as a whole: one of its programs merges."""
    run = workshop.path(f"{name}-stage3-run")
    merged = workshop.path(f"{name}-stage3-merged")
    base = workshop.train_alone(
        name.partition(".")[0], f"{name}-random-base", 8, ["--steps", 1]
    ).directory
    text = jobs.run(["poplar", "merge", run, "--init", base, "-o", merged])
    failures = []
    if text.count("merged the adapters") != 1:
        failures.append(f"merging says: {text}")
    if "model.safetensors" not in os.listdir(merged):
        failures.append("nothing is merged")
    report.check(f"{name}-stage3-merge", failures)


def check_merge(workshop, report, family):
    name = f"{family}.lora"
    base = workshop.train_alone(
        family, f"{family}-base", 8, ["--steps", 2, "--seed", 7]
    ).directory
    options = [*OPTIONS, "--init", base]
    run = workshop.train_alone(name, f"{name}-of-base", SAMPLES, options)
    merged = workshop.path(f"{family}-merged")
    jobs.run(["poplar", "merge", run.directory, "-o", merged])
    beside = ["--init", base, "--init-adapter", run.directory]
    ours = adapters.first_loss(workshop, workshop.alone(name), *beside)
    theirs = adapters.first_loss(workshop, workshop.alone(family), "--init", merged)
    before = adapters.first_loss(workshop, workshop.alone(family), "--init", base)
    failures = []
    if not abs(ours - theirs) <= 1e-5 * theirs:
        failures.append(f"the loss is {ours} with adapters, {theirs} merged")
    if not theirs < before:
        failures.append(f"the loss was {before} before training and is {theirs}")
    text = jobs.run(["poplar", "sample", run.directory, "--prompt", "A", "--tokens", "4"])
    if not text:
        failures.append("nothing is sampled")
    report.check(f"{name}-merge", failures, f"losses {ours:.6f} and {theirs:.6f}")


def largest_batch(workshop, name, memory):
    """Samples at once that the smaller of two devices, of so many MiB, has memory
    for, as a plan says.
    What a rank gets may be less: among plans of equal time any is as good."""
    cluster = {
        "device_types": {
            kind: {
                "target": jobs.best_f32_target(),
                "memory": size,
                "flops": {"f32": 1e11},
                "bandwidth": 1e10,
                "threads": 1,
            }
            for kind, size in (("large", "4GiB"), ("small", f"{memory}MiB"))
        },
        "nodes": [{"name": "localhost", "devices": ["large", "small"]}],
        "links": [{"inside": ["localhost"], "latency": 1e-6, "bandwidth": 1e10}],
    }
    path = workshop.path("cluster.json")
    with open(path, "w") as file:
        json.dump(cluster, file)
    plan = workshop.path(f"{name}-plan.mlir")
    jobs.run(
        ["poplar", "plan", "--model", workshop.model(name), "--cluster", path]
        + ["--global-batch", "64", "--zero", "0", "-o", plan]
    )
    with open(plan) as file:
        needs = re.search(
            r"profile @small stage 0 .* memory fixed (\d+) per_sample (\d+)", file.read()
        )
    return ((memory << 20) - int(needs[1])) // int(needs[2])


def check_plans(workshop, report):
    full = largest_batch(workshop, "gpt2", 12)
    adapted = largest_batch(workshop, "gpt2.lora", 12)
    failures = []
    if not adapted > full:
        failures.append(f"{adapted} samples with adapters, {full} without")
    report.check("plans", failures, f"{adapted} samples instead of {full}")


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = Workshop(arguments.directory), jobs.Report()
    for check in (
        lambda: check_model(workshop, report, "llama"),
        lambda: check_model(workshop, report, "gpt2"),
        lambda: check_pipelines(workshop, report, "llama.lora"),
        lambda: check_saved(workshop, report),
        lambda: check_merge_of_job(workshop, report, "llama.lora"),
        lambda: check_merge(workshop, report, "llama"),
        lambda: check_plans(workshop, report),
    ):
        try:
            check()
        except jobs.JobError as error:
            report.check("command", [str(error)])
    report.finish()


main()
