#!/usr/bin/env python3
# ===- check_torchao.py - Our reading of AdamW4bit against torchao ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares test/Integration/Inputs/adamw4bit.py, which the tests of optimizer states in
4 bits trust, with AdamW4bit of torchao in blocks of 256, as transformers makes it for
adamw_torch_4bit. After each step, ours goes on from torchao's moments.

Codes of moments may differ by one in a thousandth of the elements, those that lie
between two values of a map; scales by 1e-6, and values by 1e-5 of 1 and more.

Needs the packages of requirements.txt and torchao."""

import os
import sys

# Steps are those of the library, one operation at a time.
os.environ["TORCHDYNAMO_DISABLE"] = "1"
import torch
import torchao
from torchao.optim import AdamW4bit

sys.path.append(
    os.path.join(os.path.dirname(__file__), "..", "..", "test", "Integration", "Inputs")
)
import adamw4bit

SHAPES = [(64, 64), (176, 64), (64, 256), (72, 72)]


def take(state, name, moment):
    """How many of our codes differ, whether any by more than one, and how far scales are;
    the moment becomes the library's."""
    theirs = state[name]
    codes = torch.stack([theirs.codes >> 4, theirs.codes & 15], dim=-1).flatten().int()
    away = (codes - torch.tensor(moment.codes)).abs()
    scales = (theirs.scale / torch.tensor(moment.scales) - 1).abs().max().item()
    moment.codes, moment.scales = codes.tolist(), theirs.scale.tolist()
    return int((away != 0).sum()), int(away.max()), scales


def check(shape, steps=5):
    rate, betas, epsilon, decay = 1e-2, (0.9, 0.999), 1e-8, 0.1
    values = torch.nn.Parameter(torch.randn(shape) * 0.02)
    elements = values.numel()
    optimizer = AdamW4bit(
        [values], lr=rate, betas=betas, eps=epsilon, weight_decay=decay, block_size=adamw4bit.BLOCK
    )
    is_wide = not adamw4bit.holds(elements)
    moments = None if is_wide else adamw4bit.start(elements)
    differ, passed, error = 0, True, 0.0
    for number in range(1, steps + 1):
        ours = values.detach().flatten().tolist()
        values.grad = torch.randn(shape) * torch.rand(shape) ** 4
        optimizer.step()
        state = optimizer.state[values]
        if is_wide:
            passed &= state["exp_avg"].dtype == torch.float32 and not hasattr(state["exp_avg"], "codes")
            continue
        ours = adamw4bit.step(
            ours, values.grad.flatten().tolist(), moments, number, rate, betas, epsilon, decay
        )
        theirs = values.detach().flatten()
        away = (torch.tensor(ours) - theirs).abs() / (1 + theirs.abs())
        error = max(error, away.max().item())
        for name, moment in zip(("exp_avg", "exp_avg_sq"), moments):
            count, most, scales = take(state, name, moment)
            differ += count
            passed &= most <= 1 and scales <= 1e-6
    passed &= error <= 1e-5 and differ <= 2e-3 * elements * steps
    what = "f32, as here" if is_wide else f"{differ} codes differ, values by {error:.1e}"
    print(f"AdamW4bit   {shape[0]:>4} x {shape[1]:<5} {what}  {'ok' if passed else 'FAILED'}")
    return passed


def main():
    print(f"torchao {torchao.__version__}, torch {torch.__version__}")
    torch.manual_seed(3)
    return 0 if all([check(shape) for shape in SHAPES]) else 1


if __name__ == "__main__":
    sys.exit(main())
