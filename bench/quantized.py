#!/usr/bin/env python3
# ===- quantized.py - Memory with frozen weights and states in few bits -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Builds a model in each precision: with adapters, its frozen weights in each
--frozen-format; and trained as a whole, with each of --optimizer-states. Prints
the memory of the programs, as they would allocate it, all of it and without what
scales with the batch; and relative to unquantised weights and to states in f32.
Nothing is trained; the builds take half a minute together on an idle machine.
With --steps, also trains them in turns and prints the time of a step, relative
likewise; with --tokens, samples in turns and prints the time of a token.

  bench/quantized.py --poplar build/release/bin/poplar
"""

import argparse
import re
import statistics
import tempfile

from commands import ROOT, read_rates, run, sample, seconds_per_token

# What is imported by which options; the first of each group is the reference.
GROUPS = (
    [(f"adapters, {form}", ("--frozen-format", form))
     for form in ("same", "int8", "nf4", "nf4_double")],
    [(f"all trained, states {form}", ("--optimizer-states", form))
     for form in ("f32", "int8")],
)  # fmt: skip


def build(arguments, precision, name, options, directory):
    """The program, and its bytes: fixed, and of a sample."""
    program = f"{directory}/{precision}-{name.replace(', ', '-').replace(' ', '-')}"
    if "--frozen-format" in options:
        options += ("--lora-rank", arguments.rank)
    run(
        arguments.poplar, "import", arguments.config, "--seq-len",
        arguments.seq_len, *options, "-o", program + ".mlir",
    )  # fmt: skip
    text = run(
        arguments.poplar, "build", program + ".mlir", "--precision", precision,
        "--threads", "1", "-o", program,
    ).stdout  # fmt: skip
    found = re.search(r"peak_bytes\(b\) = (\d+) \+ b \* (\d+)", text)
    return program, *map(int, found.groups())


def train(arguments, program, steps, out):
    run(
        program + "/host/train", "train", "--data", ROOT + "/examples/data/corpus.txt",
        "--data-format", "bytes", "--steps", str(steps), "--batch",
        str(arguments.batch), "--global-batch", str(arguments.batch), "--threads",
        "1", "--peak-gflops", "1", "--eval-every", "0", "--out", out,
    )  # fmt: skip


def measure_step(arguments, program, turn):
    out = f"{program}-run-{turn}"
    train(arguments, program, arguments.steps, out)
    return 1 / statistics.median(read_rates(out, 1))


def measure_token(arguments, program, turn):
    out = f"{program}-untrained"
    if turn == 0:
        train(arguments, program, 0, out)
    command = [
        program + "/host/train", "sample", "--checkpoint", out, "--prompt-ids",
        "1,2,3,4,5,6,7,8", "--temperature", "0", "--threads", "1",
    ]  # fmt: skip
    return seconds_per_token(lambda count: sample(command, count), arguments.tokens)[0]


def compare_in_turns(arguments, programs, what, measure):
    """For each program, what is printed of its time: relative to the first's."""
    seconds = [[] for _ in programs]
    for turn in range(arguments.turns):
        for times, program in zip(seconds, programs):
            times.append(measure(arguments, program, turn))
    return [
        f"  time of a {what} {statistics.median(x / y for x, y in zip(times, seconds[0])):.2f}"
        for times in seconds
    ]


def compare(arguments, precision, group, directory):
    made = [
        (name, *build(arguments, precision, name, options, directory))
        for name, options in group
    ]
    programs = [program for _, program, _, _ in made]
    times = [""] * len(made)
    if arguments.steps:
        times = compare_in_turns(arguments, programs, "step", measure_step)
    if arguments.tokens:
        found = compare_in_turns(arguments, programs, "token", measure_token)
        times = [a + b for a, b in zip(times, found)]
    (_, _, plain, _) = made[0]
    whole = lambda fixed, per_sample: fixed + arguments.batch * per_sample
    for time, (name, _, fixed, per_sample) in zip(times, made):
        size, reference = whole(fixed, per_sample), whole(*made[0][2:])
        line = f"{precision:<5} {name:<24} {size:>14,} bytes {size / reference:.3f}"
        line += f"   of it fixed {fixed:>14,} {fixed / plain:.3f}{time}"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--config", default=ROOT + "/examples/models/llama-0.5b.json")
    parser.add_argument("--seq-len", default="256")
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--rank", default="8")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=0)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for precision in arguments.precisions.split(","):
            for group in GROUPS:
                compare(arguments, precision, group, directory)


main()
