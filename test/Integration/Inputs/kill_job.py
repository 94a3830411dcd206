#!/usr/bin/env python3
# ===- kill_job.py - Kill random ranks of a job at random moments ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: kill_job.py POPLAR JOB DATA RUN [START_RANKS]

Starts the job of a directory written by `poplar build`, by `poplar train` or the
script START_RANKS, and again and again
kills (SIGKILL) or stops (SIGSTOP) one of its ranks at a random moment, in turns.
Each time the whole job must end with a failure within 10 seconds, name what
happened, leave no process behind and no checkpoint that is not whole: the next
round resumes from it.

POPLAR_KILLS is the number of rounds (3), POPLAR_KILL_SEED the seed.
"""

import os
import random
import signal
import subprocess
import sys
import time

DEADLINE = 10


def ranks_of(job):
    """Processes that run one of the job's executables."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            path = os.readlink(f"/proc/{entry}/exe")
        except OSError:
            continue
        if path.startswith(job + "/") and path.endswith("/train"):
            found.append(int(entry))
    return sorted(found)


def fail(message, output=""):
    sys.exit(f"kill_job: {message}\n{output}")


def main():
    poplar, job, data, run = sys.argv[1:5]
    job = os.path.realpath(job)
    start = [poplar, "train", job]
    if len(sys.argv) > 5:
        start = [sys.executable, sys.argv[5], job, "--", "train"]
    rounds = int(os.environ.get("POPLAR_KILLS", "3"))
    seed = int(os.environ.get("POPLAR_KILL_SEED", str(os.getpid())))
    print(f"seed {seed}")
    generator = random.Random(seed)
    log = run + ".log"
    resumed = 0
    for number in range(rounds):
        with open(log, "w") as file:
            process = subprocess.Popen(
                [*start, "--data", data, "--steps", "1000000", "--save-every",
                 "4", "--eval-every", "0", "--resume", "--out", run],
                stdout=file, stderr=subprocess.STDOUT,
                # Less than usual, so that a stop during the start is over in
                # time, too.
                env={**os.environ, "POPLAR_START_SECONDS": "6"},
            )  # fmt: skip
        # Somewhere between the start and well into the training.
        started = time.monotonic()
        while len(ranks_of(job)) < 2 and time.monotonic() - started < 60:
            time.sleep(0.05)
        time.sleep(generator.uniform(0.2, 3))
        ranks = ranks_of(job)
        if not ranks:
            fail("the job has not started", open(log).read())
        victim = generator.choice(ranks)
        sent = signal.SIGSTOP if number % 3 == 2 else signal.SIGKILL
        os.kill(victim, sent)
        killed = time.monotonic()
        try:
            status = process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            for rank in ranks_of(job):
                os.kill(rank, signal.SIGKILL)
            fail(f"round {number}: the job has not ended", open(log).read())
        seconds = time.monotonic() - killed
        output = open(log).read()
        if status == 0:
            fail(f"round {number}: the job ended with success", output)
        while ranks_of(job) and time.monotonic() - killed < DEADLINE:
            time.sleep(0.05)
        if ranks_of(job):
            fail(f"round {number}: processes {ranks_of(job)} are left", output)
        resumed += "resuming from" in output
        print(f"round {number}: {sent.name} of {victim}, over in {seconds:.1f} s")
    # What is there is whole.
    if os.path.islink(run + "/latest"):
        step = int(os.readlink(run + "/latest").rsplit("-", 1)[1])
        subprocess.run(
            [poplar, "train", job, "--data", data, "--steps", str(step + 2),
             "--eval-every", "0", "--resume", "--out", run],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        print(f"resumed {resumed} times and at the end, from step {step}")
    # All rounds may be over before a run has begun.
    names = os.listdir(run) if os.path.isdir(run) else []
    left = [name for name in names if name.startswith(".checkpoint")]
    if left:
        fail(f"unfinished checkpoints are left: {left}")


if __name__ == "__main__":
    main()
