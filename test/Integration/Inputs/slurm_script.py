# ===- slurm_script.py - What poplar build --slurm writes and refuses ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The script of a job of two types of GPU in one partition, and of a host; what
--slurm does not take is refused before anything is written."""

import os
import subprocess

import jobs
from jobs import DeviceType, Plan, Rank

TYPES = (
    DeviceType("a100", "cuda:sm_80"),
    DeviceType("v100", "cuda:sm_75"),
    DeviceType("cpu", jobs.best_f32_target()),
)


def plan(*nodes):
    """Of (node, types)."""
    ranks = [Rank(1, 1, 1, type=t, node=name) for name, types in nodes for t in types]
    return Plan("gpt2", 2, tuple(ranks), TYPES)


GPUS = plan(("n0", ["a100"] * 2), ("n1", ["a100"] * 2), ("n2", ["v100"] * 3), ("n3", ["cpu"]))
MIXED = plan(("n0", ["a100", "v100"]))
ALL = ["a100=gpu:A100", "v100=gpu:V100", "cpu=cpu"]
TYPES_TEXT = "(it has: a100, cpu, v100)"
FORM = "expected TYPE=PARTITION or TYPE=PARTITION:GPU, found "

# Plan, options, error.
REFUSED = {
    "word": (GPUS, ["a100"], f"{FORM}'a100'"),
    "empty": (GPUS, ["a100="], f"{FORM}'a100='; a name starts with a letter"),
    "quotes": (GPUS, ["a100=$(touch x)"], f"{FORM}'a100=$(touch x)'"),
    "list": (GPUS, ["a100=gpu,fast"], f"{FORM}'a100=gpu,fast'"),
    "no-gpu": (GPUS, ["a100=gpu:"], f"{FORM}'a100=gpu:'"),
    "line": (GPUS, ["a100=gpu\n#SBATCH -x"], FORM + r"'a100=gpu\0A#SBATCH -x'"),
    "twice": (GPUS, [*ALL, "cpu=other"], "device type 'cpu' has two partitions"),
    "unknown": (GPUS, [*ALL, "h100=gpu"], f"the plan has no device type 'h100' {TYPES_TEXT}"),
    "missing": (GPUS, ALL[:2], "device type 'cpu' has no partition; add --slurm cpu=PARTITION"),
    "host": (GPUS, [*ALL[:2], "cpu=cpu:Xeon"], "device type 'cpu' is no GPU"),
    "alike": (GPUS, ["a100=gpu", "v100=gpu", "cpu=cpu"],
              "nodes 'n0' and 'n2' are both in partition 'gpu' but have other device types"),
    "same-gpu": (GPUS, ["a100=gpu:X", "v100=gpu:X", "cpu=cpu"],
                 "nodes 'n0' and 'n2' are both in partition 'gpu'"),
    "two-partitions": (MIXED, ["a100=fast", "v100=old"],
                       "node 'n0' has devices in partition 'fast' and in partition 'old'"),
}  # fmt: skip


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()

    def build(module, name, texts):
        out = workshop.path(name)
        slurm = [word for text in texts for word in ("--slurm", text)]
        done = subprocess.run(
            ["poplar", "build", module, "-o", out, *slurm],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, out

    def refuse(name, module, texts, text):
        done, out = build(module, name, texts)
        failures = [] if done.returncode == 1 else [f"exit status {done.returncode}"]
        lines = done.stderr.splitlines()
        if len(lines) != 1 or f"poplar: error: --slurm: {text}" not in lines[0]:
            failures.append(f"does not say '{text}' in one line: {done.stderr}")
        if os.path.exists(out):
            failures.append("has written something")
        report.check(name, failures)

    for name, (made, texts, text) in REFUSED.items():
        module = workshop.planned(made, "gpus" if made is GPUS else "mixed")
        refuse(name, module, texts, text)
    model = workshop.model("gpt2")
    refuse("model", model, ALL, f"{model} is a model without a plan")

    module = workshop.planned(GPUS, "gpus")
    script = workshop.path("gpus", "slurm.sh")
    for name, texts in (("gpus", ALL), ("gpus-without", []), ("gpus-again", ALL)):
        done, _ = build(module, "gpus", texts)
        failures = [done.stderr] if done.returncode else []
        if os.path.exists(script) != bool(texts):
            failures.append("slurm.sh is there" if not texts else "there is no slurm.sh")
        report.check(name, failures)
    report.finish()


main()
