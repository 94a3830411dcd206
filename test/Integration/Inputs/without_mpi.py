# ===- without_mpi.py - A job over TCP -------------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Three ranks without an MPI launcher train as under mpirun, to the bit: started
by scripts/start-ranks.py, and where this machine lets us, in network namespaces
joined by a shaped link. A rank that is told a wrong place, or finds nobody, says
so."""

import os
import subprocess
import sys

import jobs
from jobs import Plan, Rank

START = os.path.join(jobs.SOURCES, "scripts", "start-ranks.py")
STEPS = 5
SHAPED, CANNOT = "200mbit", 3


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    plan = Plan("gpt2", 3, (Rank(4, 2, 3), Rank(2, 2, 2, 2.0), Rank(3, 2, 1)))
    job = workshop.build(plan, "job")
    options = ["--steps", STEPS, "--lr", 1e-3]
    expected = workshop.train(job, "mpi-run", options)

    def train(name, *words):
        out = workshop.path(name)
        corpus = os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")
        command = ["train", "--data", corpus, "--out", out, *map(str, options)]
        command += ["--peak-gflops", "1", "--eval-every", "0", "--log-every", "1000"]
        status, output = jobs.execute([sys.executable, START, *words, "--", *command])
        return status, output, jobs.Run(out)

    def same(name, *words):
        status, output, run = train(name, *words)
        if status == CANNOT and "--rate" in words:
            print(f"skipped {name}: {output.strip()}")
            return
        failures = [f"exit status {status}\n{output}"] if status else []
        if not failures and run.losses != expected.losses:
            failures.append(f"losses {run.losses}, expected {expected.losses}")
        file = "model.safetensors"
        if not failures and run.checkpoint(STEPS, file) != expected.checkpoint(
            STEPS, file
        ):
            failures.append("has another model")
        report.check(name, failures)

    same("tcp", job)
    same("shaped-tcp", job, "--rate", SHAPED)

    def refused(name, text, program=os.path.join(job, "device", "train"), **place):
        places = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1"}
        done = subprocess.run(
            [program, "train", "--data", os.devnull]
            + ["--steps", "1", "--out", workshop.path(name)],
            env={**os.environ, **places, "POPLAR_START_SECONDS": "2", **place},
            capture_output=True,
            text=True,
            check=False,
        )
        failures = [] if done.returncode else ["succeeds"]
        if text not in done.stderr:
            failures.append(f"does not say '{text}': {done.stderr}")
        report.check(name, failures)

    refused("no-port", "MASTER_PORT is not set")
    refused("no-rank", "RANK=3: expected a number from 0 to 2", RANK="3")
    refused("no-number", "WORLD_SIZE=many: expected a number", WORLD_SIZE="many")
    refused("nobody", "rank 0 does not answer at MASTER_ADDR=127.0.0.1, port 1 in 2 s",
            MASTER_PORT="1", RANK="1")
    refused("nowhere", "MASTER_ADDR=no.such.host.invalid: ", MASTER_PORT="1",
            MASTER_ADDR="no.such.host.invalid")
    refused("alone", "the plan has 1 rank, but 3 were started",
            os.path.join(workshop.alone("gpt2"), "host", "train"))
    report.finish()


main()
