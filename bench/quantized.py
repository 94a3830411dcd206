#!/usr/bin/env python3
# ===- quantized.py - Memory with frozen weights in few bits ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Builds a model with adapters, its frozen weights in each --frozen-format, and
prints the memory of the programs, relative to unquantised weights. With --steps,
also trains them in turns and prints the time of a step, relative likewise.

  bench/quantized.py --poplar build/release/bin/poplar
"""

import argparse
import re
import statistics
import tempfile

from commands import ROOT, read_rates, run

FORMATS = ("same", "int8", "nf4", "nf4_double")


def measure(arguments, program, turn):
    out = f"{program}-run-{turn}"
    run(
        program + "/host/train", "train", "--data", ROOT + "/examples/data/corpus.txt",
        "--data-format", "bytes", "--steps", str(arguments.steps), "--batch",
        str(arguments.batch), "--global-batch", str(arguments.batch), "--threads",
        "1", "--peak-gflops", "1", "--eval-every", "0", "--out", out,
    )  # fmt: skip
    return 1 / statistics.median(read_rates(out, 1))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--config", default=ROOT + "/examples/models/llama-0.5b.json")
    parser.add_argument("--seq-len", default="256")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--rank", default="8")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bytes_of = {}
        for form in FORMATS:
            model = f"{directory}/{form}.mlir"
            run(
                arguments.poplar, "import", arguments.config, "--seq-len",
                arguments.seq_len, "--lora-rank", arguments.rank,
                "--frozen-format", form, "-o", model,
            )  # fmt: skip
            program = f"{directory}/{form}"
            run(
                arguments.poplar, "build", model, "--precision",
                arguments.precision, "--threads", "1", "-o", program,
            )  # fmt: skip
            text = run(program + "/host/train", "info").stdout
            fixed, sample = re.search(
                r"peak_bytes\(b\) = (\d+) \+ b \* (\d+)", text
            ).groups()
            bytes_of[form] = int(fixed) + arguments.batch * int(sample)
        seconds = {form: [] for form in FORMATS}
        for turn in range(arguments.turns if arguments.steps else 0):
            for form in FORMATS:
                seconds[form].append(measure(arguments, f"{directory}/{form}", turn))
    for form in FORMATS:
        line = f"{form:<11} {bytes_of[form]:>15,} bytes"
        line += f"  {bytes_of[form] / bytes_of['same']:.3f}"
        if arguments.steps:
            ratio = statistics.median(
                own / plain for own, plain in zip(seconds[form], seconds["same"])
            )
            line += f"  time of a step {ratio:.2f}"
        print(line)


main()
