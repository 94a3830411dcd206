#!/usr/bin/env python3
# ===- make_schedule_goldens.py - The learning rates of transformers -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes unittests/Runtime/ScheduleGoldens.inc: the rate of each step of each scheduler
of transformers that --schedule has, with the fields of Schedule that give it.

  pip install -r scripts/goldens/requirements.txt
  python3 scripts/goldens/make_schedule_goldens.py"""

import pathlib

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEAK = 2e-4
STEPS = 23

# The scheduler and its arguments; Schedule's name, minimum, start of a warm-up, steps of
# the decay of wsd and its shape, cycles and power.
CASES = [
    ("linear", {}, ("linear", 0, "zero", 0, "linear", 1, 1)),
    ("cosine", {}, ("cosine", 0, "zero", 0, "linear", 1, 1)),
    ("constant_with_warmup", {}, ("constant", 0, "zero", 0, "linear", 1, 1)),
    ("cosine_with_restarts", {}, ("cosine-restarts", 0, "zero", 0, "linear", 1, 1)),
    ("cosine_with_restarts", {"num_cycles": 3}, ("cosine-restarts", 0, "zero", 0, "linear", 3, 1)),
    ("polynomial", {}, ("polynomial", 1e-7, "zero", 0, "linear", 1, 1)),
    ("polynomial", {"power": 2.5, "lr_end": 1e-5}, ("polynomial", 1e-5, "zero", 0, "linear", 1, 2.5)),
    ("inverse_sqrt", {}, ("inverse-sqrt", 0, "zero", 0, "linear", 1, 1)),
    ("cosine_with_min_lr", {"min_lr": 5e-5}, ("cosine", 5e-5, "zero", 0, "linear", 1, 1)),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1}, ("cosine", 2e-5, "zero", 0, "linear", 1, 1)),
    ("warmup_stable_decay", {"num_decay_steps": 6}, ("wsd", 0, "minimum", 6, "cosine", 1, 1)),
    ("warmup_stable_decay", {"num_decay_steps": 6, "min_lr_ratio": 0.1, "decay_type": "linear"},
     ("wsd", 2e-5, "minimum", 6, "linear", 1, 1)),
    ("warmup_stable_decay", {"num_decay_steps": 7, "min_lr_ratio": 0.2, "decay_type": "1-sqrt"},
     ("wsd", 4e-5, "minimum", 7, "sqrt", 1, 1)),
]  # fmt: skip


def get_rates(name, warmup, arguments):
    """The rates with which an optimizer takes the steps."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = transformers.get_scheduler(
        name, optimizer, num_warmup_steps=warmup, num_training_steps=STEPS,
        scheduler_specific_kwargs=arguments,
    )  # fmt: skip
    rates = []
    for _ in range(STEPS):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return rates


def main():
    lines = [
        "// Written by scripts/goldens/make_schedule_goldens.py with transformers",
        f"// {transformers.__version__}: schedule, minimum, start, decay, its shape, cycles, power;",
        "// warm-up; rates.",
    ]
    for name, arguments, (schedule, minimum, start, decay, shape, cycles, power) in CASES:
        for warmup in (0, 1, 5):
            rates = ", ".join(f"{rate:.17g}" for rate in get_rates(name, warmup, arguments))
            lines.append(
                f'{{"{schedule}", {minimum}, "{start}", {decay}, "{shape}", {cycles}, {power},'
                f" {warmup},\n {{{rates}}}}},"
            )
    path = ROOT / "unittests" / "Runtime" / "ScheduleGoldens.inc"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
