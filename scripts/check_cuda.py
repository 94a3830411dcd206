# ===- check_cuda.py - The checks of check-cuda.sh --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs what a bundle holds (bundle-cuda.py) on the GPU at hand, what tells most
first:

  environment  libraries and their versions, PyTorch, highest rates
  kernels      every kernel, on recorded data, against what the host computed
  products     matrix products by cuBLASLt, likewise
  sweep        TFLOP/s of the models' products: vocabularies as they are and padded,
               epilogues in cuBLASLt and in a kernel, the algorithms chosen
  step         where the time of a step goes, kernel by kernel: bytes, GB/s,
               TFLOP/s, and shares of the roofline
  divergence   what every unit's products are given and give in the first micro-step,
               then the gradients of the first batch: the first that is not the host's
  benchmarks   tokens/s and MFU; then PyTorch's
  training     losses of small models against those of a run on the host:
               1e-5 in f32, 1 % in bf16 and f16
  memory       what was allocated is what the plan says, to the byte; the GPU's
               memory in use meanwhile is no more than --overhead above it
  conformance  the communicators; NCCL among two GPUs, and where there is but one,
               alone on it
  pair         two ranks on this GPU with 3/4 and 1/4 of its processors (MPS),
               batches by Poplar's planner and uniform ones, against the sum of
               what the two do alone

Rows are printed as they come, and once more at the end, in less than 12,000
characters. In --out lie table.txt, results.json and log.txt, with the output of
every command. Standard library only; PyTorch is compared with where it is."""

import argparse
import json
import os
import sys
import tempfile
import time

import cuda_checks as checks
import cuda_speed
from cuda_checks import Bundle, Failure, Runner, Skip, query_gpu
from cuda_pair import check_pair

# In the order of the table, with the share of the deadline by whose end a
# section begins nothing new; what one leaves, the next ones have.
SECTIONS = [
    ("environment", 0.10, checks.check_environment),
    ("kernels", 0.30, lambda bundle: checks.check_kernels(bundle, False)),
    ("products", 0.35, lambda bundle: checks.check_kernels(bundle, True)),
    ("sweep", 0.40, cuda_speed.check_sweep),
    ("step", 0.50, cuda_speed.check_step),
    ("divergence", 0.55, checks.check_divergence),
    ("benchmarks", 0.85, checks.check_benchmarks),
    ("training", 0.90, checks.check_training),
    ("memory", 0.93, checks.check_memory),
    ("conformance", 0.97, checks.check_conformance),
    ("pair", 1.00, check_pair),
]
STATES = ("ok", "FAILED", "skipped", "not run")
# Characters of the table that is printed at the end.
LONGEST_TABLE = 11500


class Clock:
    """The time that is left, of all and for a row."""

    def __init__(self, deadline):
        self.begin, self.deadline = time.monotonic(), deadline
        self.end_of_row = deadline

    def spent(self):
        return time.monotonic() - self.begin

    def left(self):
        return min(self.deadline, self.end_of_row) - self.spent()

    def begin_row(self, seconds, share):
        """A row has the rest of its section's share, and thrice what it needs
        if that is more: a row that hangs does not take the time of all others."""
        end = max(self.deadline * share, self.spent() + 3 * seconds)
        self.end_of_row = min(self.deadline, end)

    def allows(self, seconds, share):
        """Whether something of so many seconds may begin in a section that is to
        be over when `share` of the deadline is spent."""
        return self.spent() + seconds <= self.deadline * share


class Table:
    def __init__(self, directory):
        self.rows, self.directory = [], directory
        self.begin("")

    def path(self, name):
        return os.path.join(self.directory, name)

    def begin(self, title):
        self.title = title

    def add(self, section, name, state, seconds, text):
        self.rows.append(
            {"section": section, "name": name, "state": state,
             "seconds": round(seconds, 2), "text": text}
        )  # fmt: skip
        print(format_row(self.rows[-1]), flush=True)
        # Whole at any time: a run may be cut off.
        with open(self.path("results.json"), "w") as file:
            json.dump({"title": self.title, "rows": self.rows}, file, indent=1)
        with open(self.path("table.txt"), "w") as file:
            file.write(self.format())

    def count(self, state):
        return sum(row["state"] == state for row in self.rows)

    def summary(self):
        return ", ".join(f"{self.count(state)} {state}" for state in STATES)

    def format(self, longest=None):
        """With texts cut, if need be, so that all rows fit into `longest`."""
        width = None
        if longest:
            bare = sum(len(format_row(row, 0)) + 1 for row in self.rows)
            width = max((longest - bare - len(self.title) - 200) // max(len(self.rows), 1), 0)
            # What short rows leave, long ones have.
            spare = sum(max(width - len(row["text"]), 0) for row in self.rows)
            long = [row for row in self.rows if len(row["text"]) > width]
            width += spare // max(len(long), 1)
        rows = "\n".join(format_row(row, width) for row in self.rows)
        return f"{self.title}\n\n{HEAD}\n{rows}\n\n{self.summary()}\n"


HEAD = "| state   |     time | what | how |\n| --- | --- | --- | --- |"


def format_row(row, width=None):
    text = " ".join(row["text"].split()).replace("|", "/")
    if width is not None and len(text) > width:
        text = text[: max(width - 3, 0)] + "..."
    return f"| {row['state']:<7} | {row['seconds']:6.1f} s | {row['name']} | {text} |"


def run_row(table, clock, section, share, row):
    name, least, check = row
    if not clock.allows(least, share):
        table.add(section, name, "not run", 0,
                  f"{least} s are needed, and the deadline leaves none for it")  # fmt: skip
        return
    begin = time.monotonic()
    clock.begin_row(least, share)
    try:
        state, text = "ok", check()
    except Skip as skip:
        state, text = "skipped", str(skip)
    except Exception as failure:  # a row that breaks is one row
        named = isinstance(failure, Failure)
        state, text = "FAILED", str(failure) if named else repr(failure)
    table.add(section, name, state, time.monotonic() - begin, text)


def describe(bundle):
    what = "emulated, nothing ran on a GPU" if bundle.emulated else "a GPU"
    driver = query_gpu("driver_version") or ["?"]
    gpu = bundle.gpu
    return (
        f"{gpu['name']} (sm_{gpu['capability']}), {what}; {gpu['multiprocessors']} "
        f"multiprocessors at {gpu['clock_khz'] / 1000:.0f} MHz; CUDA of the driver "
        f"{gpu['cuda']}, driver {driver[0]}; bundle of {bundle.contents['made_of']}"
    )


def parse():
    names = [name for name, _, _ in SECTIONS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle")
    parser.add_argument("--emulated", metavar="DIR", help="run on an emulated driver")
    parser.add_argument("--only", help="sections to run, of: " + ", ".join(names))
    parser.add_argument(
        "--deadline", type=float, default=540, metavar="SECONDS",
        help="end within this time; what does not fit is not begun (default: 540)",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="DIR", default=os.environ.get("OUT", "check-cuda-out"),
        help="where table, results and log are kept (default: $OUT, or check-cuda-out)",
    )  # fmt: skip
    parser.add_argument("--keep", metavar="DIR", help="keep the files of the runs")
    parser.add_argument(
        "--overhead", type=int, default=1024,
        help="MiB of the GPU that context and libraries may take beside the plan "
        "(default: 1024)",
    )  # fmt: skip
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else names
    if set(wanted) - set(names):
        parser.error("--only: there are " + ", ".join(names))
    if arguments.deadline <= 0:
        parser.error("--deadline is positive")
    return arguments, wanted


def main():
    arguments, wanted = parse()
    clock = Clock(arguments.deadline)
    os.makedirs(arguments.out, exist_ok=True)
    table = Table(arguments.out)
    with tempfile.TemporaryDirectory(prefix="poplar-check-") as temporary, open(
        table.path("log.txt"), "w"
    ) as log:
        arguments.work = arguments.keep or temporary
        os.makedirs(arguments.work, exist_ok=True)
        try:
            bundle = Bundle(arguments.bundle, arguments, Runner(clock, log))
        except (Failure, ValueError) as failure:
            sys.exit(f"check-cuda: error: {failure}")
        table.begin(describe(bundle))
        print(f"{table.title}\n\n{HEAD}", flush=True)
        for section, share, rows in SECTIONS:
            if section in wanted:
                # One section alone has all the time.
                share = share if len(wanted) > 1 else 1
                for row in rows(bundle):
                    run_row(table, clock, section, share, row)
    print(f"\nAll rows again, after {clock.spent():.0f} s; more in {arguments.out}\n")
    print(table.format(LONGEST_TABLE), flush=True)
    return 1 if table.count("FAILED") or not table.count("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
