#!/usr/bin/env python3
# ===- check_bitsandbytes.py - Our reading of its formats against it --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares test/Integration/Inputs/quantized.py, which the tests of quantised
weights trust, with the functions of bitsandbytes, in its portable backend. Prints
how many values of some matrices differ, and by how much of the largest value.

nf4 and int8 have to be the same, bit by bit. Scales of nf4_double are rounded to
a map that the library computes in f32, in an order that depends on the CPU, and
so is their mean: there, values may differ by 1e-6 of the largest one.

Experts are compared with stacks of them, which axolotl quantises as a whole: values
of nf4 and int8 have to be the same, those of nf4_double may differ by 1e-2 of the
largest one, because the mean of their scales is that of all experts.

Likewise for adamw8bit.py, which the tests of optimizer states in 8 bits trust:
codes of moments may differ by one in a thousandth of the elements, those that lie
between two values of a map, scales by 1e-6, and values by 1e-5.

The kernels that bitsandbytes 0.50 has compiled for CPUs are not asked: they
dequantise nf4 otherwise where rows are no multiple of a block, and do not always
round scales to the nearest value of the map.

Needs the packages of requirements.txt and bitsandbytes."""

import ctypes
import os
import sys


class Portable(ctypes.LibraryLoader):
    def LoadLibrary(self, name):
        if "bitsandbytes" in str(name):
            raise OSError("not to be used")
        return super().LoadLibrary(name)


ctypes.cdll = Portable(ctypes.CDLL)
import bitsandbytes
import bitsandbytes.functional as library
import torch

sys.path.append(
    os.path.join(os.path.dirname(__file__), "..", "..", "test", "Integration", "Inputs")
)
import adamw8bit
import quantized

SHAPES = [(64, 64), (176, 64), (64, 176), (256, 1024), (7, 33)]


def round_there(form, matrix):
    if form == "int8":
        codes, scales, _ = library.int8_vectorwise_quant(matrix.clone())
        return torch.ops.bitsandbytes.int8_vectorwise_dequant(codes, scales)
    codes, state = library.quantize_4bit(
        matrix, blocksize=64, quant_type="nf4", compress_statistics=form == "nf4_double"
    )
    return library.dequantize_4bit(codes, state)


def check_experts(form, shape):
    """Whether matrices of experts have the values of their stack. Scales differ, as
    those of experts and of gates and what they multiply do."""
    experts, rows, columns = shape
    stack = torch.randn(shape) * torch.rand(experts, 1, 1) * 0.04
    # int8_vectorwise_quant takes rows, as axolotl's replace_parameter_8bit gives them.
    theirs = round_there(form, stack.reshape(-1, columns)).flatten()
    half = rows // 2  # gate_proj, then up_proj
    ours = [
        quantized.round_matrix(form, (half, columns), matrix.flatten().tolist())
        for matrix in stack.reshape(-1, half, columns)
    ]
    ours = torch.tensor([value for matrix in ours for value in matrix])
    error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    differ = int((ours != theirs).sum())
    passed = error <= (1e-2 if form == "nf4_double" else 0)
    print(
        f"{form:<11} {experts} experts of {rows} x {columns:<5} {differ:>6} values "
        f"differ, by {error:.1e}  {'ok' if passed else 'FAILED'}"
    )
    return passed


def check_optimizer(shape, steps=5):
    """Whether steps of AdamW8bit are the same."""
    rate, betas, epsilon, decay = 1e-2, (0.9, 0.999), 1e-8, 0.1
    values = torch.nn.Parameter(torch.randn(shape) * 0.02)
    ours = values.detach().flatten().tolist()
    moments = adamw8bit.start(len(ours))
    optimizer = bitsandbytes.optim.AdamW8bit(
        [values], lr=rate, betas=betas, eps=epsilon, weight_decay=decay
    )
    passed = True
    for number in range(1, steps + 1):
        values.grad = torch.randn(shape) * torch.rand(shape) ** 4
        gradient = values.grad.flatten().tolist()
        ours = adamw8bit.step(
            ours, gradient, moments, number, rate, betas, epsilon, decay
        )
        optimizer.step()
        state = optimizer.state[values]
        # A moment that is rounded to 0 makes a large step.
        theirs = values.detach().flatten()
        away = (torch.tensor(ours) - theirs).abs() / (1 + theirs.abs())
        error = away.max().item()
        differ = 0
        for index, moment in enumerate(moments, 1):
            codes = state[f"state{index}"].flatten().int() - torch.tensor(moment.codes)
            differ += int((codes != 0).sum())
            scales = state[f"absmax{index}"] / torch.tensor(moment.scales) - 1
            passed &= int(codes.abs().max()) <= 1 and scales.abs().max().item() <= 1e-6
        passed &= error <= 1e-5 and differ <= 2e-3 * len(ours)
    print(
        f"AdamW8bit   {shape[0]:>4} x {shape[1]:<5} {differ:>6} codes differ, values "
        f"by {error:.1e}  {'ok' if passed else 'FAILED'}"
    )
    return passed


def main():
    print(f"bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}")
    torch.manual_seed(3)
    failures = 0
    for form in ("nf4", "nf4_double", "int8"):
        for shape in SHAPES:
            matrix = torch.randn(shape) * 0.02
            matrix[1] = 0  # a row without values
            theirs = round_there(form, matrix).flatten()
            ours = torch.tensor(
                quantized.round_matrix(form, shape, matrix.flatten().tolist())
            )
            error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
            differ = int((ours != theirs).sum())
            passed = error <= (1e-6 if form == "nf4_double" else 0)
            failures += not passed
            print(
                f"{form:<11} {shape[0]:>4} x {shape[1]:<5} {differ:>6} values differ, "
                f"by {error:.1e}  {'ok' if passed else 'FAILED'}"
            )
        failures += not check_experts(form, (8, 96, 64))
    for shape in SHAPES:
        if shape[0] * shape[1] >= adamw8bit.SMALLEST:
            failures += not check_optimizer(shape)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
