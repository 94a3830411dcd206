# ===- adapters.py - What the tests of adapters share ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Models that poplar import changes by options, such as adapters beside frozen
weights, and checks of their jobs: what lora.py, qlora.py, train_parameters.py and
block_states.py share."""

import csv
import os
import re

import jobs
from jobs import DeviceType

TYPES = (
    DeviceType("fast", jobs.best_f32_target()),
    DeviceType("slow", "host:sse41-f32", recompute="recompute-unit"),
)


class Workshop(jobs.Workshop):
    """Also has "llama.KIND": that model, imported with options_of()."""

    def options_of(self, family, kind):
        """To be defined."""
        raise NotImplementedError

    def config(self, family):
        return os.path.join(jobs.SOURCES, "examples", "models", f"tiny-{family}.json")

    def model(self, name):
        family, _, kind = name.partition(".")
        if not kind:
            return super().model(name)

        def make(target):
            command = ["poplar", "import", self.config(family)]
            command += ["--seq-len", str(jobs.SEQ_LEN)]
            jobs.run([*command, *self.options_of(family, kind), "-o", target])

        return self.once(self.path(f"{name}.mlir"), make)


def first_loss(workshop, program, *options):
    """That of a validation, before anything has been learnt."""
    run = workshop.train(
        program,
        f"evaluation-{len(os.listdir(workshop.directory))}",
        ["--steps", 1, "--lr", 0, "--min-lr", 0, "--weight-decay", 0, "--eval-every", 1]
        + ["--val-fraction", 0.1]
        + ["--global-batch", 8, "--batch", 8, "--threads", 1, *options],
    )
    return run.validation_losses[-1]


def count_elements(module):
    """Of parameters: all, and those that are trained."""
    everything = trained = 0
    for shape, frozen in re.findall(
        r"nn\.parameter @\S+ : tensor<([0-9x]+)xf32>.*?( frozen)?$", module, re.MULTILINE
    ):
        size = 1
        for number in shape.split("x"):
            size *= int(number)
        everything += size
        trained += 0 if frozen else size
    return everything, trained


def check_memory(job, table, stage, has_peaks=True, **expected):
    """What is wrong with what the ranks of a job have allocated (a GPU's takes
    some kilobytes more than its arena, and has no such peak), and with the bytes of
    each kind. They should be these together where a stage shards the kind, and on
    each rank where it does not."""
    failures = []
    if has_peaks and jobs.allocated_peaks(table) != jobs.printed_peaks(job):
        failures.append("ranks allocate other memory than poplar build said")
    with open(table) as file:
        rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]
    for kind, size in expected.items():
        sharded = {"parameters": 3, "gradients": 2, "optimizer": 1}[kind]
        found = sum(row[kind] for row in rows)
        size *= 1 if stage >= sharded else len(rows)
        if found != size:
            failures.append(f"ranks have {found} bytes of {kind}, not {size}")
    return failures


def check_resume(workshop, name, steps, samples, options):
    """Trains at once, and in two halves; both have to be the same, bit by bit.
    Returns the second run, and what is wrong."""
    whole = ["--schedule", "constant", *options, "--steps", steps]
    half = [*whole, "--steps", steps // 2]
    once = workshop.train_alone(name, f"{name}-once", samples, whole)
    workshop.train_alone(name, f"{name}-twice", samples, half)
    batch = ["--global-batch", samples, "--batch", samples, "--threads", 1]
    # Whatever is loaded at the start is in the checkpoint, or named by it.
    again = list(map(str, whole))
    if "--init" in again:
        del again[again.index("--init") : again.index("--init") + 2]
    twice = workshop.train(
        workshop.alone(name), f"{name}-twice", [*again, *batch], resume=True
    )
    failures = []
    if once.losses != twice.losses:
        failures.append("resuming gives other losses")
    if once.tensors() != twice.tensors():
        failures.append("resuming gives other weights")
    return twice, failures
