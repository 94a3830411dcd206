#!/usr/bin/env python3
# ===- gpu-kernels.py - Every launch of a training step on a GPU ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Lists what a training step launches on a GPU, without a GPU. `poplar build` makes
the executable, which runs on a driver and a cuBLASLt that count calls and compute
nothing (bench/counting/). For each launch of a micro-step and of the optimizer, the
script prints grid, block, registers, shared memory, blocks per SM, waves, bytes
needed and moved, instructions and branches of the inner loop, and an ESTIMATED time
beside a floor, by the model in bench/gpu_model.py. The last table has a row for each
model and chip, with what torch.compile would launch and take by the same model.

Registers and loops are those of SASS if there is a ptxas that knows the chip. If not,
loops are counted in PTX, registers are not known, and the table says "PTX".

A model of many layers is built with two and with three, and the difference is taken
for each other layer (--all-layers builds it whole).

  bench/gpu-kernels.py --model gpt2 --chip sm_90
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter, namedtuple

import gpu_model
from commands import ROOT
from gpu_model import CHIPS, Work
from gpu_program import MODELS, SMALL, Cost, Program, layers_key, read_config

# Layers of the two builds from which the others follow.
FEW_LAYERS = (2, 3)
# cublasLtEpilogue_t: with the gradient of a bias, and with a matrix beside the result.
BIAS_GRADIENTS = (256, 512)
HAS_MATRIX = (164, 192)
WIDTHS = {0: 4, 2: 2, 14: 2}
TYPES = {0: "f32", 2: "f16", 14: "bf16"}

Launch = namedtuple("Launch", "part name shape")


class Analysis:
    """The launches of a program with what they need and take."""

    def __init__(self, program, samples):
        self.program = program
        self.chip = CHIPS[program.chip]
        self.capability = int(program.chip[3:])
        self.kernels, self.code = program.read_images()
        self.samples = samples
        self.rows, self.host = {}, Counter()
        for part, line in program.calls:
            self.add(part, line)

    def add(self, part, line):
        word, *rest = line.split()
        if word == "kernel":
            row = self.describe_kernel(part, *rest)
        elif word == "product":
            row = self.describe_product(part, *rest)
        else:
            self.host[word] += part != "micro-step"
            return
        self.host["launch"] += part == "optimizer"
        row["microseconds"] += 1e6 * gpu_model.constant("gap" if part == "micro-step" else "launch")
        # Numbers of kernels depend on the layers of the model.
        name = re.sub(r"^kernel_\d+_", "", row["kernel"]).replace("poplar_gpu_", "")
        key = Launch(part, name, (row["grid"], row["block"], row.pop("bytes_key")))
        known = self.rows.setdefault(key, {**row, "kernel": name, "count": 0})
        known["count"] += 1

    def execute(self, kernel, grid, sizes, parameters):
        """Of a thread, by its PTX; the same on chips that have the same PTX."""
        kernel.ids = 8 if "expert" in kernel.name else 64
        # Addresses differ from run to run, and decide nothing.
        key = (kernel.name, len(kernel.instructions), grid, sizes, parameters[-1])
        if key not in self.samples:
            self.samples[key] = kernel.sample(grid, sizes, parameters)
        return self.samples[key]

    def describe_kernel(self, part, name, grid, block, shared, *words):
        parameters = [int(word, 16) for word in words]
        sizes = tuple(map(int, block.split("x")))
        blocks, threads = int(grid.split("x")[0]), sizes[0] * sizes[1] * sizes[2]
        kernel, code = self.kernels[name], self.code.get(name)
        executed = self.execute(kernel, blocks, sizes, parameters)
        loop, ptx_loop = code.loop if code else None, kernel.find_loop()
        # SASS has other instructions than PTX; where the assembler unrolls a loop, one
        # of these is too large.
        scale = code.instructions / len(kernel.instructions) if code else 1
        if loop and ptx_loop:
            scale = min(scale, loop[0] / ptx_loop[0])
        moved = executed.bytes * blocks * threads
        # The table has no kernels that a product brings with it: what they move, they need.
        cost = self.program.costs.get(name, Cost(moved / parameters[-1], 0, False))
        needed, flops = cost.bytes * parameters[-1], cost.flops * parameters[-1]
        work = Work(blocks, threads, executed.instructions * scale, executed.rounds,
                    executed.matrix, needed, moved, flops)  # fmt: skip
        registers = code.registers if code else None
        shared_bytes = int(shared) + (code.shared_bytes if code else 0)
        resident = self.chip.blocks_per_processor(threads, registers, shared_bytes)
        loop = (loop if code else ptx_loop) or (None, None)
        return {
            "part": part, "kernel": name, "grid": blocks, "block": threads,
            "registers": registers, "shared_bytes": shared_bytes,
            "blocks_per_sm": resident,
            "waves": blocks / (resident * self.chip.processors),
            "bytes_needed": needed, "bytes_key": None if cost.is_mean else needed,
            "bytes_moved": moved, "flops": work.flops,
            "loop_instructions": loop[0], "loop_branches": loop[1],
            "counted_in": "SASS" if code else "PTX",
            "executed_instructions": work.instructions,
            "executed_branches": executed.branches,
            "microseconds": 1e6 * gpu_model.kernel_seconds(self.chip, work, resident),
            "floor_microseconds": 1e6 * gpu_model.floor_seconds(self.chip, work, "attention" in name),
        }  # fmt: skip

    def describe_product(self, part, m, n, k, transposes, types, leading, beta, epilogue):
        m, n, k, epilogue = int(m), int(n), int(k), int(epilogue)
        types = [int(t) for t in types.split(",")]
        # Both the rows, of column-major matrices, and what lies between them.
        inside = (k if transposes[0] == "t" else m, n if transposes[1] == "t" else k, m)
        rows = [*zip(map(int, leading.split(",")), types), *zip(inside, types)]
        aligned = min(power_of_two(length * WIDTHS[t]) for length, t in rows)
        size = gpu_model.product_bytes(m, n, k, [WIDTHS[t] for t in types], float(beta) != 0,
                                       epilogue in HAS_MATRIX)  # fmt: skip
        seconds = gpu_model.product_seconds(self.chip, self.capability, m, n, k, size, aligned,
                                            epilogue in BIAS_GRADIENTS)  # fmt: skip
        work = Work(1, 1, 0, 0, 0, size, size, 2 * m * n * k)
        name = f"product {m}x{n}x{k} {transposes} {TYPES[types[2]]}"
        name += f" epilogue {epilogue}" if epilogue != 1 else ""
        name += " add" if float(beta) else ""
        name += f" aligned to {aligned}" if aligned < 16 else ""
        return {
            "part": part, "kernel": name, "grid": None, "block": None, "registers": None,
            "shared_bytes": None, "blocks_per_sm": None, "waves": None, "bytes_needed": size,
            "bytes_key": size, "bytes_moved": None, "flops": work.flops, "loop_instructions": None,
            "loop_branches": None, "counted_in": "the library",
            "executed_instructions": None, "executed_branches": None,
            "microseconds": 1e6 * seconds,
            "floor_microseconds": 1e6 * gpu_model.floor_seconds(self.chip, work, False),
        }  # fmt: skip


def power_of_two(size):
    """The largest that divides, up to 16."""
    return min(16, size & -size)


def extend(few, more, layers):
    """The rows and host calls of a model of `layers` layers, from those of one with
    FEW_LAYERS of them."""
    first, second = FEW_LAYERS
    rows = []
    for key in {**few.rows, **more.rows}:
        row = dict(more.rows.get(key) or few.rows[key])
        low = few.rows[key]["count"] if key in few.rows else 0
        high = more.rows[key]["count"] if key in more.rows else 0
        row["count"] = low + (high - low) * (layers - first) // (second - first)
        rows.append(row)
    host = {
        call: few.host[call] + (more.host[call] - few.host[call]) * (layers - first)
        for call in {**few.host, **more.host}
    }
    return [row for row in rows if row["count"] > 0], host


def analyse(arguments, name, chip, directory, samples):
    model = MODELS[name]
    config = read_config(model)
    layers = config[layers_key(config)]

    def study(count):
        small = {**config, layers_key(config): count}
        where = os.path.join(directory, f"{name}-{chip}-{count}")
        program = Program(arguments, model, small, chip, where)
        return Analysis(program, samples.setdefault(name, {}))

    if arguments.all_layers or layers <= FEW_LAYERS[1]:
        whole = study(layers)
        return list(whole.rows.values()), whole.host
    return extend(study(FEW_LAYERS[0]), study(FEW_LAYERS[1]), layers)


def total(rows, field, part=None):
    return sum(row["count"] * row[field] for row in rows if part in (None, row["part"]))


def count(rows, part=None):
    return sum(row["count"] for row in rows if part in (None, row["part"]))


def compare_with_torch(name, chip, rows):
    """(launches, microseconds) by gpu_model.TORCH, or None."""
    model = MODELS[name]
    if not model.family:
        return None, None
    config = read_config(model)
    hidden = config.get("n_embd") or config["hidden_size"]
    widths = {"hidden": hidden, "inner": config.get("intermediate_size") or 4 * hidden}
    products = [r for r in rows if "product" in r["kernel"] or "attention" in r["kernel"]]
    # The logits are a product, and their weight a parameter of the vocabulary's rows.
    parameters = sum(r["count"] * r["bytes_needed"] for r in rows if "adamw" in r["kernel"]) / 28
    launches, seconds = gpu_model.torch_step(
        CHIPS[chip], model.family, config[layers_key(config)], model.batch * model.tokens, widths,
        config["vocab_size"], total(products, "floor_microseconds") / 1e6, parameters,
    )  # fmt: skip
    return launches, 1e6 * seconds


def summarize(name, chip, rows, host):
    synchronizations = host.get("synchronize", 0) + host.get("synchronize-event", 0)
    waits = 1e6 * gpu_model.constant("synchronize") * synchronizations
    micro = total(rows, "microseconds", "micro-step")
    optimizer = total(rows, "microseconds", "optimizer") + waits
    launches, microseconds = compare_with_torch(name, chip, rows)
    products = [row for row in rows if row["kernel"].startswith("product")]
    # What is not a product fills the SMs, if it takes longer than 5 us.
    narrow = sorted({row["kernel"] for row in rows if row["grid"] and row["microseconds"] > 5
                     and row["grid"] < CHIPS[chip].processors})  # fmt: skip
    return {
        "model": name, "chip": chip, "device": CHIPS[chip].device,
        "microseconds": micro + optimizer,
        "floor_microseconds": total(rows, "floor_microseconds"),
        "micro_step_microseconds": micro, "optimizer_microseconds": optimizer,
        "products_flops": total(products, "flops"),
        "launches_in_graphs": count(rows, "micro-step"),
        "launches_outside_graphs": count(rows, "optimizer"),
        "host_calls": host, "synchronizations": synchronizations,
        "kernels_on_few_blocks": narrow,
        "torch_launches": launches, "torch_microseconds": microseconds,
        "launches": sorted(rows, key=lambda row: -row["count"] * row["microseconds"]),
    }  # fmt: skip


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def print_launches(step):
    print(f"\n## {step['model']} on {step['chip']} ({step['device']}), estimated\n")
    host = ", ".join(f"{n} {call}" for call, n in sorted(step["host_calls"].items()) if n)
    print(f"Host calls of a step: {host}.\n")
    print("| part | count | kernel | grid x block | registers | shared | blocks/SM | waves "
          "| MB needed | MB moved | loop | branches | by | us each | floor |")  # fmt: skip
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|")
    for row in step["launches"]:
        shape = f"{row['grid']:,} x {row['block']}" if row["grid"] else "-"
        moved = row["bytes_moved"] and row["bytes_moved"] / 1e6
        print(f"| {row['part']} | {row['count']} | {row['kernel']} | {shape} "
              f"| {number(row['registers'])} | {number(row['shared_bytes'])} "
              f"| {number(row['blocks_per_sm'])} | {number(row['waves'], 2)} "
              f"| {row['bytes_needed'] / 1e6:,.2f} | {number(moved, 2)} "
              f"| {number(row['loop_instructions'])} | {number(row['loop_branches'])} "
              f"| {row['counted_in']} | {row['microseconds']:,.1f} "
              f"| {row['floor_microseconds']:,.1f} |")  # fmt: skip


def print_summary(steps):
    print("\n## Steps, estimated\n")
    print("| model | chip | launches in graphs | outside | waits of the host | ms | floor | ratio "
          "| torch.compile: launches | ms |")  # fmt: skip
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for step in steps:
        torch = step["torch_microseconds"] and step["torch_microseconds"] / 1e3
        print(f"| {step['model']} | {step['chip']} | {step['launches_in_graphs']:,} "
              f"| {step['launches_outside_graphs']} | {step['synchronizations']} "
              f"| {step['microseconds'] / 1e3:,.1f} | {step['floor_microseconds'] / 1e3:,.1f} "
              f"| {step['microseconds'] / step['floor_microseconds']:.2f} "
              f"| {number(step['torch_launches'])} | {number(torch, 1)} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [name for name in MODELS if name not in SMALL]
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument(
        "--counting", default=ROOT + "/build/release/lib/counting-cuda",
        help="directory of the counting libraries",
    )  # fmt: skip
    parser.add_argument(
        "--model", action="append", choices=list(MODELS),
        help=f"repeatable (default: {', '.join(known)})",
    )  # fmt: skip
    parser.add_argument(
        "--chip", action="append", choices=list(CHIPS), help="repeatable (default: all)"
    )
    parser.add_argument("--all-layers", action="store_true", help="build models whole")
    parser.add_argument("--summary", action="store_true", help="print the last table only")
    parser.add_argument("--json", help="file for all figures")
    arguments = parser.parse_args()
    steps, samples = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.model or known:
            for chip in arguments.chip or CHIPS:
                rows, host = analyse(arguments, name, chip, directory, samples)
                steps.append(summarize(name, chip, rows, host))
                if not arguments.summary:
                    print_launches(steps[-1])
                sys.stdout.flush()
    print_summary(steps)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"steps": steps}, file, indent=1)


if __name__ == "__main__":
    main()
