# ===- shared_gpu_sample.py - Sampling on GPUs that share units -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ranks on emulated GPUs that share units, alone, beside a host and in stages of a
pipeline, sample with caches of their own heads:
  logits   of every token those of whole sequences, to 1e-5 (sample_cached.py)
  text     that of one device of the host, with the same weights"""

import os
import subprocess
import sys

import jobs
from jobs import DeviceType

TYPES = (
    DeviceType("host", jobs.best_f32_target()),
    DeviceType("ampere", "cuda:sm_80"),
)
# Groups: (end, stage of ZeRO, ((type, part), ...), types of further pipelines, which
# compute whole units).
VARIANTS = {
    "alone": [(4, 1, (("ampere", 1), ("ampere", 1)))],
    "beside-a-host": [(4, 3, (("ampere", 1), ("host", 1)))],
    # A chunk of a prompt has as many tokens as the smallest part of a sample.
    "stages": [
        (2, 0, (("ampere", 2), ("ampere", 1))),
        (4, 1, (("host", 1), ("ampere", 1))),
    ],
    "beside-a-whole-one": [(4, 1, (("ampere", 2), ("ampere", 1)), ("ampere",))],
}
MODEL, SAMPLES = "llama", 5
TEXT = ["--prompt-ids", "75,73,78,71,32", "--tokens", "12", "--temperature", "0"]


def check(workshop, report, name, groups):
    pipelines = 1 + sum(len(beside) for _, _, _, *rest in groups for beside in rest)
    samples = SAMPLES * pipelines
    plan = workshop.planned(
        jobs.plan_shared(MODEL, pipelines, groups, samples, TYPES), name
    )
    job = workshop.path(name)
    jobs.run(["poplar", "build", plan, "-o", job])
    # Trained by one device, then a step by the job: a text of some variety.
    options = ["--lr", 1e-2, "--schedule", "constant", "--steps"]
    workshop.train_alone(MODEL, f"{name}-run", samples, [*options, 20])
    run = workshop.train(job, f"{name}-run", [*options, 21], resume=True)
    inputs = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, os.path.join(inputs, "sample_cached.py")]
    command += [workshop.path(f"{name}-logits"), "13", "20"]
    note = jobs.run([*command, "poplar", "sample", run.directory]).strip()
    alone = os.path.join(workshop.alone(MODEL), "host", "train")
    latest = os.path.realpath(os.path.join(run.directory, "latest"))
    expected = jobs.run([alone, "sample", "--checkpoint", latest, *TEXT])
    # The text is alone there: how the ranks communicate is said elsewhere.
    sampled = subprocess.run(
        ["poplar", "sample", run.directory, *TEXT], capture_output=True, text=True
    )
    found, failures = sampled.stdout, []
    if "exchanges of ranks" not in sampled.stderr:
        failures.append(f"the notes are {sampled.stderr!r}")
    if found != expected:
        failures.append(f"{found!r} is sampled, {expected!r} on one device")
    report.check(name, failures, note)


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--only", nargs="+")
    )
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_80,sm_80,sm_80"
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    for name in arguments.only or VARIANTS:
        try:
            check(workshop, report, name, VARIANTS[name])
        except jobs.JobError as error:
            report.check(name, [str(error)])
    report.finish()


if __name__ == "__main__":
    main()
