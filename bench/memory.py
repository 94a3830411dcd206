#!/usr/bin/env python3
# ===- memory.py - Resident memory against the plan ------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a model for some steps, with a checkpoint at the end, and compares the
largest resident memory of the process with what the plan said. Exits with 1 if
it is more than --limit percent above.

  bench/memory.py --poplar build/release/bin/poplar
"""

import argparse
import os
import re
import resource
import sys
import tempfile

from commands import ROOT, run


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--config", default=ROOT + "/examples/models/gpt2-124m.json")
    parser.add_argument("--seq-len", default="64")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--steps", default="3")
    parser.add_argument("--limit", type=float, default=5, help="percent")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        model = directory + "/model.mlir"
        run(arguments.poplar, "import", arguments.config, "--seq-len",
            arguments.seq_len, "-o", model)  # fmt: skip
        text = run(arguments.poplar, "build", model, "--precision",
                   arguments.precision, "-o", directory).stdout  # fmt: skip
        # The compiler and the linker are children, too: only what comes after
        # them counts if it is larger.
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        run(directory + "/host/train", "train", "--data",
            ROOT + "/examples/data/corpus.txt", "--data-format", "bytes", "--steps", arguments.steps,
            "--batch", str(arguments.batch), "--global-batch",
            str(arguments.batch), "--eval-every", "0", "--out",
            directory + "/run")  # fmt: skip
        resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    fixed, per_sample = map(int, re.search(r"= (\d+) \+ b \* (\d+)", text).groups())
    planned = fixed + arguments.batch * per_sample
    if resident <= before or planned < 500e6:
        sys.exit("error: too small a model to tell: take one of 500 MB or more")
    excess = 100 * (resident / planned - 1)
    print(
        f"planned {planned / 2**20:.1f} MiB, resident {resident / 2**20:.1f} MiB: "
        f"{excess:.2f} % above, of {arguments.limit:g} % allowed"
    )
    return int(excess > arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
