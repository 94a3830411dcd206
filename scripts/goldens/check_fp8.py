#!/usr/bin/env python3
# ===- check_fp8.py - Products in fp8 against PyTorch ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains golden models with --fp8-products here, and in transformers with linear layers
that round operands to torch.float8_e4m3fn and back, with a scale for each row, in the
product and in that of the gradient of their input. Compares, over 20 steps:

  losses   |l - l*| <= 1e-6 |l*| in the first step, 1e-2 |l*| in all of them: where two
           values that differ in their last bit lie on both sides of the middle of two
           codes, they are rounded to codes that differ by a sixteenth
  itself   how far the losses of PyTorch are from its own, if all weights are changed by
           a part in 10^7 before
  updates  |d - d*| <= 0.1 |d*| (2-norms), of what training added to all tensors
  without  how far the losses without the option are, which has to be more

Prints a row for each model. Needs the packages of requirements.txt and a build:
  venv/bin/python scripts/goldens/check_fp8.py --poplar build/release/bin/poplar"""

import copy
import sys

import torch
import transformers

import make_goldens
from golden_training import (
    BATCH, GOLDENS, STEPS, add_adapter, compare_losses,
    compare_updates, copy_trained, run_cases, train_here, train_there,
)  # fmt: skip

FIRST_TOLERANCE, LOSS_TOLERANCE, UPDATE_TOLERANCE = 1e-6, 1e-2, 0.1
MODELS = ("llama", "qwen2", "gpt2")


def round_rows(matrix):
    """Each row of [..., columns] in e4m3 with a power of two for a scale, as torchao's
    float8 recipes for rows have it (round_scales_to_power_of_2)."""
    largest = matrix.abs().amax(dim=-1, keepdim=True).double().clamp(min=1e-12)
    scale = torch.exp2(torch.floor(torch.log2(448 / largest))).float()
    return (matrix * scale).to(torch.float8_e4m3fn).float() / scale


class Product(torch.autograd.Function):
    """x W^T of rounded operands; so is the gradient of x, but not that of W."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return round_rows(x) @ round_rows(weight).T

    @staticmethod
    def backward(context, dy):
        x, weight = context.saved_tensors
        dx = round_rows(dy) @ round_rows(weight.T).T
        return dx, dy.flatten(0, -2).T @ x.flatten(0, -2) if context.needs_input_grad[1] else None


def multiply(x, weight, bias):
    product = Product.apply(x, weight)
    return product if bias is None else product + bias


def round_products(model):
    """All linear layers but the head and adapters."""
    for name, module in model.named_modules():
        if name.endswith("lm_head") or ".lora_" in name:
            continue
        if isinstance(module, torch.nn.Linear):
            module.forward = lambda x, layer=module: multiply(x, layer.weight, layer.bias)
        elif isinstance(module, transformers.pytorch_utils.Conv1D):
            module.forward = lambda x, layer=module: multiply(x, layer.weight.T, layer.bias)


def compare(poplar, work, name, is_adapted=False):
    title = f"{name}{'-lora' * is_adapted}"
    ids, targets = make_goldens.make_batch(name, BATCH)
    data = GOLDENS / name / "batch3.tokens"
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / name, dtype=torch.float32)
    options, more = [], []
    if is_adapted:
        model, options, more = add_adapter(model, work / "adapter")
    start = copy_trained(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for each in other.parameters():
            each *= 1 + 1e-7 * torch.randn_like(each)
    round_products(model)
    round_products(other)
    expected, nearby = (
        train_there(each.eval(), lambda each: make_goldens.mean_loss(each, ids, targets)) for each in (model, other)
    )  # fmt: skip
    losses = train_here(poplar, name, work / title, data, [*options, "--fp8-products"], more)
    without = train_here(poplar, name, work / f"{title}-plain", data, options, more)
    error = compare_updates(work / title, model, start, is_adapted)
    gaps = compare_losses(losses, expected)
    itself, plain = (max(compare_losses(each, expected)) for each in (nearby, without))
    passed = (
        len(losses) == STEPS and gaps[0] <= FIRST_TOLERANCE and max(gaps) <= LOSS_TOLERANCE
        and error <= UPDATE_TOLERANCE and plain > max(gaps)
    )  # fmt: skip
    print(f"{title:<14} {gaps[0]:>10.1e} {max(gaps):>10.1e} {itself:>10.1e} {error:>10.1e} {plain:>10.1e}  {'ok' if passed else 'FAILED'}", flush=True)
    return passed


def main():
    header = f"{'model':<14} {'first loss':>10} {'losses':>10} {'itself':>10} {'updates':>10} {'without':>10}"
    cases = [(name,) for name in MODELS] + [("llama", True)]
    return run_cases(__doc__, header, compare, cases)


if __name__ == "__main__":
    sys.exit(main())
