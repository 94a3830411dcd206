# ===- adamw4bit.py - torchao's AdamW4bit, by its definition ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A step of AdamW with moments in blocks of 4 bits. A second implementation,
which shares nothing with the runtime's: scripts/goldens/check_torchao.py compares
it with the library."""

import adamw8bit
import quantized
from quantized import f32

BLOCK, SMALLEST = adamw8bit.BLOCK, adamw8bit.SMALLEST
# Middles of the parts of three decades, with both signs, 0 and 1; and sixteenths.
POSITIVE = [0.0055, 0.0325, 0.0775, 0.21249999105930328, 0.4375, 0.6625, 0.8875]
SIGNED = [*(-f32(x) for x in reversed(POSITIVE)), 0.0, *map(f32, POSITIVE), 1.0]
UNSIGNED = [(1 + i) / 16 for i in range(16)]


def find_code(values, value):
    """Of the nearest one; of two, the greater."""
    below = max((i for i, x in enumerate(values) if x <= value), default=0)
    above = min(below + 1, 15)
    half = f32(f32(values[above] - values[below]) * 0.5)
    return above if f32(value - values[below]) >= half else below


class Moment(adamw8bit.Moment):
    """The same with other maps, and a scale that is never 0."""

    def __init__(self, codes, scales, signed):
        super().__init__(codes, scales, signed)
        self.map = SIGNED if signed else UNSIGNED

    def store(self, values):
        self.codes, self.scales = [], []
        for block in quantized.cut(values, BLOCK):
            scale = max(max(map(abs, block)), f32(1e-12))
            self.codes += [find_code(self.map, f32(value / scale)) for value in block]
            self.scales.append(scale)


def holds(elements):
    """Whether moments of a parameter are in blocks."""
    return elements >= SMALLEST and elements % BLOCK == 0


def count_bytes(elements):
    """Of a moment."""
    return elements // 2 + 4 * (elements // BLOCK)


def start(elements):
    """The moments before the first step."""
    return [
        Moment([0] * elements, [0.0] * (elements // BLOCK), signed)
        for signed in (True, False)
    ]


step = adamw8bit.step
