# ===- wrong_starts.py - Jobs started with the wrong programs --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Starts ranks with programs of another plan, in another order, too many and too
few of them. Each job is refused, by name of the rank that is wrong, before it
writes anything."""

import os

import jobs
from jobs import DeviceType, Plan, Rank

TYPES = (
    DeviceType("first", jobs.best_f32_target()),
    DeviceType("second", "host:sse41-f32"),
)


def mpirun(*programs):
    """One rank of each program."""
    command = ["mpirun", "--bind-to", "none", "--oversubscribe"]
    for index, program in enumerate(programs):
        command += [":"] * (index > 0) + ["-np", "1", program]
        command += ["train", "--data", os.devnull, "--steps", "1", "--out", "OUT"]
    return command


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    if os.getuid() == 0:
        os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"

    def plan(samples, types):
        ranks = tuple(Rank(count, 1, count, type=t) for count, t in zip(samples, types))
        return Plan("gpt2", 2, ranks, TYPES)

    def build(name, *shape):
        job = workshop.build(plan(*shape), name)
        return {t: os.path.join(job, t, "train") for t in shape[1]}

    same = ["first"] * 3
    ours = build("ours", (2, 2, 1), same)["first"]
    other = build("other", (2, 1, 2), same)["first"]
    mixed = build("mixed", (2, 1), ["first", "second"])

    def refused(name, command, *texts):
        out = workshop.path(f"{name}-run".replace(" ", "-"))
        try:
            status, output = jobs.execute(
                [out if word == "OUT" else word for word in command]
            )
        except jobs.JobError as error:
            return report.check(name, [str(error)])
        failures = [] if status else ["succeeds"]
        failures += [f"does not say '{text}'" for text in texts if text not in output]
        if os.path.lexists(out):
            failures.append("wrote to --out")
        report.check(name, failures + ([output] if failures else []))

    refused(
        "another plan",
        mpirun(ours, other, ours),
        "the ranks do not have the same plan: most have ",
        ", rank 1 (",
        ", first) has ",
    )
    refused(
        "another split of a last rank",
        mpirun(ours, ours, other),
        "the ranks do not have the same plan: most have ",
        ", rank 2 (",
    )
    refused("too few", mpirun(ours, ours), "the plan has 3 ranks, but 2 were started")
    refused("too many", mpirun(*[ours] * 4), "the plan has 3 ranks, but 4 were started")
    refused(
        "one alone",
        mpirun(ours)[6:],
        "the plan has 3 ranks, but 1 was started",
        "start the job with poplar train or launch.sh",
    )
    refused(
        "wrong order",
        mpirun(mixed["second"], mixed["first"]),
        "runs the program of device type ",
        "; the order of launch.sh is that of the plan",
    )
    refused(
        "one type for both",
        mpirun(mixed["first"], mixed["first"]),
        "rank 1",
        "runs the program of device type first, but the plan has this rank on second",
    )
    report.finish()


main()
