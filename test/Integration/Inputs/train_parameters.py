# ===- train_parameters.py - A part of the weights is trained ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains some weights of a tiny Llama, and checks that

  jobs       of two unlike device types, in ZeRO stages 0 and 3 and as a pipeline whose
             first stage trains nothing, have the losses and the updates of one device
  memory     is that of the formulas: nothing but a working copy of what is frozen
  resuming   gives the losses of a run that was not interrupted, bit by bit, although
             checkpoints hold the trained weights alone
  merging    gives a model with these weights, and the bytes of the checkpoint for the
             others, in its format
"""

import json
import os

import adapters
import jobs
from jobs import Plan, Rank

NAME, STEPS, SAMPLES, CLIP = "llama.part", 10, 14, 0.01
OPTIONS = ["--steps", STEPS, "--lr", 1e-2, "--clip", CLIP]


class Workshop(adapters.Workshop):
    """Also has "llama.part": of two layers that are alike, it trains the second."""

    def options_of(self, family, kind):
        return ["--train-parameters", r"model\.layers\.1\..*", "--train-parameters", "lm_head.*"]


def check_jobs(workshop, report):
    with open(workshop.model(NAME)) as file:
        everything, trained = adapters.count_elements(file.read())
    reference = workshop.train_alone(NAME, "reference", SAMPLES, OPTIONS)
    initial = workshop.initial_weights(NAME)
    expected = {"parameters": 4 * everything, "gradients": 4 * trained, "optimizer": 8 * trained}
    ranks = (
        Rank(4, 3, 2, state=2.0, type="fast"),
        Rank(2, 3, 0, state=1.0, type="slow"),
    )
    plans = {f"stage{stage}": Plan(NAME, stage, ranks, adapters.TYPES) for stage in (0, 3)}
    halves = tuple(
        Rank(2, 7, 2, type=kind, group=group, turns=())
        for group, kind in enumerate(("fast", "slow"))
    )
    plans["pipeline"] = Plan(NAME, 0, halves, adapters.TYPES, (((0, 2), 0), ((2, 4), 0)), "1f1b")
    for title, plan in plans.items():
        assert plan.samples == SAMPLES
        job, table = workshop.build(plan, title), workshop.path(f"{title}.csv")
        run = workshop.train(job, f"{title}-run", [*OPTIONS, "--report-memory", table])
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        if title != "pipeline":
            failures += adapters.check_memory(job, table, plan.stage, **expected)
        report.check(title, failures, f"losses {loss:.1e}, updates {update:.1e}")


def check_resume(workshop, report):
    twice, failures = adapters.check_resume(workshop, NAME, STEPS, SAMPLES, OPTIONS)
    files = set(os.listdir(os.path.join(twice.directory, "latest")))
    if "model.safetensors" in files or "trained.safetensors" not in files:
        failures.append(f"the checkpoint holds {sorted(files)}")
    report.check("resume", failures)


def read_bytes(path):
    """By name, the type and the bytes of the tensors of a file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (each["dtype"], data[slice(*each["data_offsets"])]) for name, each in header.items()}


def halve(directory):
    """Has the weights of a checkpoint in bf16."""
    path = os.path.join(directory, "model.safetensors")
    header, data = {}, b""
    for name, (shape, _) in jobs.safetensors_reader.read(path)[0].items():
        # The upper half of an f32 is a bf16.
        raw = read_bytes(path)[name][1]
        part = b"".join(raw[i + 2 : i + 4] for i in range(0, len(raw), 4))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def check_merge(workshop, report):
    base = workshop.train_alone("llama", "base", 8, ["--steps", 2, "--seed", 7]).directory
    halve(os.path.join(base, "latest"))
    run = workshop.train_alone(NAME, "of-base", SAMPLES, [*OPTIONS, "--init", base])
    merged = workshop.path("merged")
    jobs.run(["poplar", "merge", run.directory, "-o", merged])
    before = read_bytes(os.path.join(base, "latest", "model.safetensors"))
    after = read_bytes(os.path.join(merged, "model.safetensors"))
    failures = []
    if set(before) != set(after):
        failures.append(f"merging gives other tensors: {sorted(set(before) ^ set(after))}")
    changed = {name for name in before if before[name] != after.get(name)}
    if changed != set(run.tensors()):
        failures.append(f"merging changes {sorted(changed)}")
    ours = adapters.first_loss(workshop, workshop.alone("llama"), "--init", merged)
    start = adapters.first_loss(workshop, workshop.alone("llama"), "--init", base)
    if not ours < start:
        failures.append(f"the loss was {start} before training and is {ours}")
    if not jobs.run(["poplar", "sample", run.directory, "--prompt", "A", "--tokens", "4"]):
        failures.append("nothing is sampled")
    report.check("merge", failures, f"loss {start:.4f} before, {ours:.4f} after")


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = Workshop(arguments.directory), jobs.Report()
    for check in (check_jobs, check_resume, check_merge):
        try:
            check(workshop, report)
        except jobs.JobError as error:
            report.check("command", [str(error)])
    report.finish()


main()
