# ===- counters.py - Random numbers that are functions of counters ---------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What is random in a run, drawn again here. Standard library only."""

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
SHUFFLE, DROPOUT = 2, 3


def mix(x):
    """splitmix64, as runtime/support/Random.h has it."""
    x = (x + GAMMA) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_counters(first, *rest):
    state = mix(first)
    for counter in rest:
        state = mix(state ^ mix((counter + 0xD1B54A32D192ED03) & MASK))
    return state


def draw_noise(seed, step, sample, elements, magnitude):
    """What nn.noise adds to the embeddings of a sample: of op 0 of call 0."""
    key = mix(hash_counters(seed, DROPOUT, step, sample))
    return [
        magnitude * ((mix((key + GAMMA * element) & MASK) >> 40) / 2**23 - 1)
        for element in range(elements)
    ]
