# ===- adamw8bit.py - bitsandbytes' AdamW8bit, by its definition ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A step of AdamW with moments in blocks of 8 bits. A second implementation,
which shares nothing with the runtime's: scripts/goldens/check_bitsandbytes.py
compares it with the library."""

import math

import quantized
from quantized import f32

BLOCK, SMALLEST = 256, 4096
SIGNED, UNSIGNED = quantized.DYNAMIC, quantized.make_dynamic_map(signed=False)
SIGNED_BOUNDS, UNSIGNED_BOUNDS = map(quantized.find_bounds, (SIGNED, UNSIGNED))


class Moment:
    """Codes of the elements, and the largest magnitude of each block."""

    def __init__(self, codes, scales, signed):
        self.codes, self.scales = codes, scales
        self.map = SIGNED if signed else UNSIGNED
        self.bounds = SIGNED_BOUNDS if signed else UNSIGNED_BOUNDS

    def values(self):
        return [
            f32(self.map[code] * self.scales[index // BLOCK])
            for index, code in enumerate(self.codes)
        ]

    def store(self, values):
        self.codes, self.scales = [], []
        for block in quantized.cut(values, BLOCK):
            codes, largest = quantized.find_codes(block, self.bounds)
            self.codes += codes
            self.scales.append(largest)


def holds(elements):
    """Whether moments of a parameter are in blocks."""
    return elements >= SMALLEST


def count_bytes(elements):
    """Of a moment."""
    return elements + 4 * -(-elements // BLOCK)


def start(elements):
    """The moments before the first step."""
    blocks = -(-elements // BLOCK)
    return [Moment([0] * elements, [0.0] * blocks, signed) for signed in (True, False)]


def step(values, gradient, moments, number, rate, betas, epsilon, decay):
    """Of number 1 and on; changes the moments and returns the new values."""
    wide = []
    for moment, beta, power in zip(moments, betas, (1, 2)):
        beta, rest = f32(beta), f32(1 - beta)
        wide.append(
            [
                f32(f32(beta * m) + f32(rest * f32(g**power)))
                for m, g in zip(moment.values(), gradient)
            ]
        )
    first, second = (1 - beta**number for beta in betas)
    result = []
    for value, m, v in zip(values, *wide):
        denominator = math.sqrt(v) / math.sqrt(second) + epsilon
        result.append(f32(value * (1 - rate * decay) - rate / first * m / denominator))
    for moment, now in zip(moments, wide):
        moment.store(now)
    return result
