#!/usr/bin/env python3
# ===- block-order.py - How evenly blocks of attention end ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares the time of attention's blocks, in the order in which a GPU starts them,
with the least that there is. Under a causal mask, blocks have unlike work, so that
the last to start should be short.

The executable runs on the counting driver (bench/counting/). A block takes as long as
its first thread executes instructions, by the PTX of its kernel; whenever a block ends,
the next begins in its place.

  bench/block-order.py --model tinyllama --chip sm_90"""

import argparse
import heapq
import os
import tempfile

from commands import ROOT
from gpu_model import CHIPS
from gpu_program import MODELS, Program, layers_key, read_config


def find_end(lengths, slots):
    """When the last of some blocks ends that begin in this order in `slots` places."""
    ends = [0.0] * slots
    for length in lengths:
        heapq.heapreplace(ends, ends[0] + length)
    return max(ends)


def study(program, chip, slots):
    kernels, code = program.read_images()
    seen = set()
    for _, line in program.calls:
        word, *rest = line.split()
        if word != "kernel" or "attention" not in rest[0] or rest[0] in seen:
            continue
        name, grid, block, shared, *words = rest
        seen.add(name)
        sizes = tuple(map(int, block.split("x")))
        parameters = [int(number, 16) for number in words]
        threads = sizes[0] * sizes[1] * sizes[2]
        known = code.get(name)
        resident = chip.blocks_per_processor(
            threads, known.registers if known else None,
            int(shared) + (known.shared_bytes if known else 0),
        )  # fmt: skip
        places = slots or resident * chip.processors
        lengths = [
            kernels[name].execute(number, 0, sizes, parameters).instructions
            for number in range(int(grid.split("x")[0]))
        ]
        least = max(max(lengths), sum(lengths) / places)
        ratio = find_end(lengths, places) / least
        print(f"{name}: {len(lengths)} blocks in {places} places, {ratio:.2f} of the least time")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument(
        "--counting", default=ROOT + "/build/release/lib/counting-cuda",
        help="directory of the counting libraries",
    )  # fmt: skip
    parser.add_argument("--model", choices=list(MODELS), default="tinyllama")
    parser.add_argument("--chip", choices=list(CHIPS), default="sm_90")
    parser.add_argument(
        "--slots", type=int,
        help="blocks that run at a time (default: as many as the chip has room for)",
    )  # fmt: skip
    arguments = parser.parse_args()
    model = MODELS[arguments.model]
    config = read_config(model)
    config[layers_key(config)] = 1
    with tempfile.TemporaryDirectory() as directory:
        program = Program(
            arguments, model, config, arguments.chip, os.path.join(directory, "program")
        )
        study(program, CHIPS[arguments.chip], arguments.slots)


if __name__ == "__main__":
    main()
