# ===- doctor.py - What poplar doctor finds --------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs poplar doctor over jobs on the host and on emulated GPUs, which are well
or not: what is wrong is said with the rank, and the exit status is 1. What would
end a job ends poplar train, too, before it writes anything. --gpus: those on
emulated GPUs."""

import os

import jobs
from jobs import DeviceType, Plan, Rank

HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("host", HOST),
    DeviceType("slow", "host:sse41-f32"),
    DeviceType("ampere", "cuda:sm_80"),
)


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--gpus", action="store_true")
    )
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()

    def build(*types):
        ranks = tuple(Rank(2, 1, 2, type=name) for name in types)
        return workshop.build(Plan("gpt2", 2, ranks, TYPES), "-".join(types))

    def check(name, command, well, *texts, **variables):
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            status, output = jobs.execute(command)
        except jobs.JobError as error:
            return report.check(name, [str(error)])
        finally:
            os.environ.clear()
            os.environ.update(before)
        failures = [] if (status == 0) == well else [f"exit status {status}"]
        failures += [f"does not say '{text}'" for text in texts if text not in output]
        report.check(name, failures + ([output] if failures else []))

    ready = "the job can run"
    if not arguments.gpus:
        job = build("host", "slow", "host")
        doctor = ["poplar", "doctor", job]
        check("hosts", doctor, True, "3 ranks added up", ready, "needs", "free", "slow")
        # Every rank has a thread; the process has one core.
        narrow = ["taskset", "-c", "0", *doctor]
        check("few cores", narrow, True, "the plan gives them 3 threads", ready)
        # Ranks that have a core each are bound to it, which makes them no fewer.
        if len(os.sched_getaffinity(0)) >= 2:
            output = jobs.execute(["poplar", "doctor", build("host", "slow")])[1]
            failed = "the plan gives them" in output or ready not in output
            report.check("cores of bound ranks", [output] if failed else [])
        return report.finish()

    os.environ["POPLAR_EMULATED_GPUS"] = "sm_80,sm_80"
    job = build("ampere", "host", "ampere")
    doctor = ["poplar", "doctor", job]
    nccl = "collectives of ranks 0, 2: NCCL 2.28.9"
    check("gpus", doctor, True, nccl, "emulated GPU 1 (sm_80)", "3 ranks added up", ready)
    check(
        "newer chip",
        doctor,
        True,
        "note: rank 0 (",
        "its GPU is sm_90, and the program is for sm_80",
        ready,
        POPLAR_EMULATED_GPUS="sm_90,sm_90",
    )
    check(
        "no peers",
        doctor,
        True,
        "its GPU cannot read the memory of those of ranks 2",
        ready,
        POPLAR_EMULATED_NO_PEERS="1",
    )
    gone = "needs the 2. GPU for sm_80 of this machine"
    check("one gpu", doctor, False, "failed: rank 2 (", gone, POPLAR_EMULATED_GPUS="sm_80")
    memory = "the plan needs "
    check("memory", doctor, False, "failed: rank 0 (", memory, POPLAR_EMULATED_MEMORY="10000")
    check(
        "interface",
        doctor,
        False,
        "failed: rank 0 (",
        "NCCL_SOCKET_IFNAME=nonesuch0, but its host has only: ",
        NCCL_SOCKET_IFNAME="nonesuch0",
    )
    check(
        "failing library",
        doctor,
        False,
        "NCCL 2.28.9 cannot go on: remote process exited",
        POPLAR_EMULATED_NCCL_FAIL="1",
    )
    check(
        "hanging library",
        doctor,
        False,
        "no progress for 10",
        "in phase 'the doctor's all-reduce'",
        POPLAR_EMULATED_NCCL_HANG="1",
    )
    out = workshop.path("run")
    train = ["poplar", "train", job, "--data", os.devnull, "--steps", "1", "--out", out]
    check("train", train, False, "failed: rank 0 (", memory, POPLAR_EMULATED_MEMORY="10000")
    report.check("nothing is written", ["wrote to --out"] * os.path.lexists(out))
    report.finish()


if __name__ == "__main__":
    main()
