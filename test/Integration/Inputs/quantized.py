# ===- quantized.py - bitsandbytes' formats, by their definitions -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Rounds matrices to the formats of --frozen-format and back. A second
implementation, which shares nothing with the runtime's:
scripts/goldens/check_bitsandbytes.py compares it with the library."""

import bisect
import struct

NF4_BLOCK, SCALE_BLOCK = 64, 256
# Of the library.
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
    0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip


def f32(value):
    """To nearest. Sums, products and quotients of two f32 are exact enough in
    f64 for this to be what f32 arithmetic gives."""
    return struct.unpack("f", struct.pack("f", value))[0]


def make_dynamic_map(signed=True):
    """The map of 8 bits, with 7 bits of exponent at most."""
    values = [0.0, 1.0]
    for decade in range(7):
        parts = 2**decade * (1 if signed else 2)
        edges = [0.1 + 0.9 * part / parts for part in range(parts + 1)]
        for low, high in zip(edges, edges[1:]):
            middle = f32(10.0 ** (decade - 6) * ((low + high) / 2))
            values += [middle, -middle] if signed else [middle]
    return sorted(values)


def find_bounds(values):
    return [f32(f32(x + y) / 2) for x, y in zip(values, values[1:])]


DYNAMIC = make_dynamic_map()
NF4_BOUNDS, DYNAMIC_BOUNDS = find_bounds(NF4), find_bounds(DYNAMIC)


def find_codes(values, bounds):
    """Of a block, and its largest magnitude."""
    largest = max(abs(value) for value in values)
    inverse = f32(1 / max(largest, f32(1e-38)))
    codes = []
    for value in values:
        scaled = min(max(f32(value * inverse), -1.0), 1.0)
        codes.append(bisect.bisect_left(bounds, scaled))
    return codes, largest


def cut(values, size):
    return [values[first : first + size] for first in range(0, len(values), size)]


def round_scales(scales):
    mean = f32(sum(scales) / len(scales))
    result = []
    for block in cut([f32(scale - mean) for scale in scales], SCALE_BLOCK):
        codes, largest = find_codes(block, DYNAMIC_BOUNDS)
        result += [f32(f32(DYNAMIC[code] * largest) + mean) for code in codes]
    return result


def round_nf4(values, double):
    blocks = [find_codes(block, NF4_BOUNDS) for block in cut(values, NF4_BLOCK)]
    scales = [largest for _, largest in blocks]
    if double:
        scales = round_scales(scales)
    return [
        f32(NF4[code] * scale)
        for (codes, _), scale in zip(blocks, scales)
        for code in codes
    ]


def round_int8(values, columns):
    result = []
    for row in cut(values, columns):
        largest = max(abs(value) for value in row)
        factor = f32(f32(1 / largest) * 127) if largest > 1e-37 else 0.0
        for value in row:
            code = round(f32(value * factor))  # halves to even
            result.append(f32(f32(code * largest) * f32(7.874015718698502e-3)))
    return result


def round_matrix(form, shape, values):
    """The values [rows, columns], row by row, as --frozen-format `form` has
    them."""
    if form == "int8":
        return round_int8(values, shape[1])
    return round_nf4(values, double=form == "nf4_double")


def count_bytes(form, rows, columns):
    """What a matrix takes: codes, then scales, from a multiple of 4 on."""
    align = lambda size: -(-size // 4) * 4
    values = rows * columns
    if form == "int8":
        return align(values) + 4 * rows
    scales = -(-values // NF4_BLOCK)
    codes = align(-(-values // 2))
    if form == "nf4":
        return codes + 4 * scales
    return codes + align(scales) + 4 * -(-scales // SCALE_BLOCK) + 4
