# ===- state_memory.py - Bytes of state, measured and by formula -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares the memory that every rank has allocated with the formulas of
Planner/Model/StateBytes.h, byte for byte, in every stage, on one to four ranks, in f32
and bf16:
               stage 0   stage 1   stage 2   stage 3
  parameters   all       all       all       shard     4 bytes; bf16: 2
  gradients    all       all       shard     shard     4 bytes
  optimizer    all       shard     shard     shard     8 bytes; bf16: 12

The elements of shards are taken from the plan. Padding is listed apart, and is
bounded. All of it, with activations and scratch, is what poplar build said.
What is sharded falls with the number of ranks as it should: largest shards are
ceil(elements / ranks), but for the alignment of their bounds."""

import concurrent.futures
import csv
import re

import jobs
from jobs import DeviceType, Plan, Rank

PARAMETER = re.compile(r"nn\.parameter @(\S+) : tensor<([0-9x]+)xf32>")
BUCKET = re.compile(r"zero\.bucket @\S+ \[(.*?)\] bounds \[(.*?)\]")
# A parameter starts at a multiple of 32 elements, an array of 64 bytes.
PARAMETER_ALIGNMENT, ARRAY_ALIGNMENT = 32, 64


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def shard_elements(workshop, plan, name):
    """Per rank, how many elements of parameters the plan has in its shards; the
    number of parameters and of buckets."""
    module = jobs.run(
        ["poplar-opt", "--specialize-device-types", workshop.planned(plan, name)]
    )
    sizes = {
        parameter: product(map(int, shape.split("x")))
        for parameter, shape in PARAMETER.findall(module)
    }
    elements = [0] * len(plan.ranks)
    # One program; several would repeat it all.
    buckets = BUCKET.findall(module)
    for parameters, bounds in buckets:
        bounds = [int(bound) for bound in bounds.split(",")]
        begin = 0
        for parameter in re.findall(r"@([^\s,]+)", parameters):
            end = begin + sizes[parameter]
            for rank in range(len(plan.ranks)):
                low, high = max(begin, bounds[rank]), min(end, bounds[rank + 1])
                elements[rank] += max(0, high - low)
            begin = -(-end // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
    return elements, len(sizes), len(buckets)


def expected_bytes(precision, stage, all_elements, shard):
    """Planner/Model/StateBytes.h."""
    parameter, optimizer = (2, 12) if precision == "bf16" else (4, 8)
    return {
        "parameters": parameter * (shard if stage >= 3 else all_elements),
        "gradients": 4 * (shard if stage >= 2 else all_elements),
        "optimizer": optimizer * (shard if stage >= 1 else all_elements),
    }


class Job:
    """What a plan makes the ranks allocate, against what it should."""

    def __init__(self, workshop, plan, name):
        self.failures = []
        self.plan, self.precision = plan, plan.types[0].precision
        self.shards, self.num_parameters, self.num_buckets = shard_elements(
            workshop, plan, name
        )
        self.elements = sum(self.shards)
        job = workshop.build(plan, name)
        table = workshop.path(f"{name}.csv")
        workshop.train(job, f"{name}-run", ["--steps", 1, "--report-memory", table])
        with open(table) as file:
            rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]
        said = jobs.printed_peaks(job)
        self.check(len(rows) == len(plan.ranks), f"{len(rows)} ranks reported")
        for row, shard in zip(rows, self.shards):
            self.check_rank(row, shard, said.get(row["rank"]))
        self.most_state = max(self.state_bytes(shard) for shard in self.shards)

    def check(self, passed, message):
        if not passed:
            self.failures.append(message)

    def state_bytes(self, shard):
        expected = expected_bytes(
            self.precision, self.plan.stage, self.elements, shard
        )
        return sum(expected.values())

    def check_rank(self, row, shard, said):
        rank, peak, padding = row["rank"], row["peak"], row["padding"]
        state = expected_bytes(self.precision, self.plan.stage, self.elements, shard)
        for kind, expected in state.items():
            self.check(
                row[kind] == expected,
                f"rank {rank} has {row[kind]} bytes of {kind}, not {expected}",
            )
        # Five arrays of a bucket, and every parameter in them, may end anywhere
        # before a multiple.
        bound = 5 * 4 * PARAMETER_ALIGNMENT * self.num_parameters
        bound += 5 * ARRAY_ALIGNMENT * self.num_buckets
        self.check(padding <= bound, f"rank {rank} has {padding} bytes of padding")
        rest = [row[kind] for kind in ("padding", "scratch", "transient", "batch")]
        self.check(min(rest) >= 0, f"rank {rank} has less than nothing of something")
        self.check(
            sum(state.values()) + sum(rest) == peak,
            f"rank {rank}: the parts do not add up to the peak of {peak} bytes",
        )
        self.check(
            peak == said,
            f"rank {rank} has allocated {peak} bytes, but poplar build said {said}",
        )

    def check_share(self, fewer):
        """Of equal shards; `fewer` is a job with fewer ranks, or None."""
        count = len(self.plan.ranks)
        slack = PARAMETER_ALIGNMENT * (self.num_parameters + self.num_buckets)
        bound = self.state_bytes(self.elements / count + slack)
        self.check(
            self.most_state <= bound,
            f"{self.most_state} bytes of state are more than {bound:.0f}",
        )
        if fewer:
            falls = self.plan.stage > 0
            self.check(
                (self.most_state < fewer.most_state) == falls,
                f"{self.most_state} bytes of state; with fewer ranks "
                f"{fewer.most_state}",
            )


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()

    def check(plan, name, fewer=None, equal=True):
        try:
            job = Job(workshop, plan, name)
        except jobs.JobError as error:
            report.check(name, [str(error)])
            return None
        if equal:
            job.check_share(fewer)
        report.check(name, job.failures, f"{job.most_state} bytes of state")
        return job

    def check_stage(precision, counts, stage):
        types = (DeviceType("device", jobs.best_f32_target(), precision),)
        job = None
        for count in counts:
            plan = Plan("gpt2", stage, (Rank(2, 2, 1),) * count, types)
            name = f"gpt2-{precision}-stage{stage}-ranks{count}"
            job = check(plan, name, job)
        ranks = (Rank(1, 3, 1, 0), Rank(4, 3, 2, 3), Rank(0, 3, 0, 1))
        name = f"llama-{precision}-stage{stage}-uneven"
        check(Plan("llama", stage, ranks, types), name, equal=False)

    cases = [("f32", (1, 2, 3, 4), stage) for stage in range(4)]
    if jobs.cpu_has("avx512bw"):
        cases += [("bf16", (1, 3), stage) for stage in range(4)]
    else:
        print("skipped: bf16, which needs AVX-512")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: check_stage(*case), cases))
    report.finish()


main()
