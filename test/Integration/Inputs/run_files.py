# ===- run_files.py - What happens to the files of a run -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: run_files.py DIR CORPUS

Trains the program in DIR and kills it, starts it twice, cuts its corpus and
removes its directory."""

import os
import shutil
import socket
import subprocess
import sys
import time

SECONDS = 120


def fail(*words):
    sys.exit("error: " + " ".join(map(str, words)))


class Job:
    """A run that goes on until something happens to it."""

    def __init__(self, directory, corpus):
        self.program = os.path.join(directory, "program", "host", "train")
        self.directory, self.corpus = directory, corpus

    def start(self, run, *options, steps=100_000_000):
        command = [self.program, "train", "--data", self.corpus, "--out", run]
        command += ["--steps", steps, "--eval-every", 0, "--global-batch", 1]
        command += ["--threads", 1, "--peak-gflops", 1, "--schedule", "constant"]
        return subprocess.Popen(
            [*map(str, command + ["--warmup", 0]), *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def wait_for(process, path, rows=0):
        """Until it exists; of metrics.csv, until it has as many rows."""

        def is_there():
            if not os.path.exists(path):
                return False
            return not rows or len(read_steps(os.path.dirname(path))) >= rows

        end = time.monotonic() + SECONDS
        while not is_there():
            if process.poll() is not None:
                fail("ended too early:", process.communicate())
            if time.monotonic() > end:
                process.kill()
                fail("never wrote", path)
            time.sleep(0.01)

    @staticmethod
    def finish(process, status, *texts):
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            fail("goes on:", process.communicate())
        if process.returncode != status:
            fail(f"exit status {process.returncode}, expected {status}:", errors)
        for text in texts:
            if text not in output + errors:
                fail(f"does not say '{text}':", output + errors)
        return output


def read_steps(run):
    with open(os.path.join(run, "metrics.csv")) as file:
        return [int(line.split(",")[0]) for line in file.read().split("\n")[1:-1]]


def main():
    directory, corpus = sys.argv[1:]
    job = Job(directory, corpus)

    # Killed at any time, rows are there up to the last checkpoint.
    run = os.path.join(directory, "killed")
    rare = ["--save-every", 5, "--log-every", 1000000]
    for round_number in range(1, 4):
        process = job.start(run, *rare, *["--resume"][: round_number - 1])
        job.wait_for(process, os.path.join(run, f"checkpoint-{round_number * 20}"))
        process.kill()
        process.communicate()
        saved = int(os.readlink(os.path.join(run, "latest")).split("-")[1])
        steps = read_steps(run)
        if steps[:saved] != list(range(1, saved + 1)):
            fail(f"saved step {saved}, and metrics.csv has rows of", steps)
    goal = saved + 3
    job.finish(job.start(run, *rare, "--resume", steps=goal), 0)
    if read_steps(run) != list(range(1, goal + 1)):
        fail("resumed to step", goal, "with rows of", read_steps(run))

    # Rows that are missing all the same are told of.
    path = os.path.join(run, "metrics.csv")
    with open(path) as file:
        rows = file.read().split("\n")
    with open(path, "w") as file:
        file.write("\n".join(rows[:11] + rows[16:20] + rows[21:]))
    job.finish(
        job.start(run, "--resume", steps=goal + 1), 0,
        f"note: '{run}/metrics.csv' has no rows of steps 11 to 15, 20\n",
    )  # fmt: skip

    # One process at a time, and no lock of one that was killed.
    run = os.path.join(directory, "locked")
    process = job.start(run, "--save-every", 5)
    job.wait_for(process, os.path.join(run, "latest"))
    for more in (["--resume"], []):
        second = job.start(run, *more)
        if more:
            host = socket.gethostname()
            text = f"'{run}' is in use by process {process.pid} on {host}; "
        else:
            text = f"'{run}' holds a run already"
        job.finish(second, 1, text)
    process.kill()
    process.communicate()
    saved = int(os.readlink(os.path.join(run, "latest")).split("-")[1])
    job.finish(job.start(run, "--resume", steps=saved + 1), 0)
    if os.path.exists(os.path.join(run, "lock")):
        fail("the lock was left behind")

    # A directory that goes away.
    run = os.path.join(directory, "removed")
    process = job.start(run, "--log-every", 1)
    job.wait_for(process, os.path.join(run, "metrics.csv"), 1)
    os.rename(run, run + "-elsewhere")
    job.finish(process, 1, f"'{run}/metrics.csv' was removed or replaced")
    if os.path.exists(run):
        fail("a new directory was made")

    # A corpus that is cut.
    job.corpus = os.path.join(directory, "cut.txt")
    shutil.copy(corpus, job.corpus)
    process = job.start(os.path.join(directory, "cut"))
    job.wait_for(process, os.path.join(directory, "cut", "metrics.csv"), 1)
    os.truncate(job.corpus, 1)
    job.finish(process, 1, f"train: error: '{job.corpus}' was cut short")

    job.corpus = corpus

    # State in a checkpoint that is not what it should be.
    run = os.path.join(directory, "killed")
    with open(os.path.join(run, "latest", "state.json"), "w") as file:
        file.write("[" * 20_000_000)
    job.finish(job.start(run, "--resume"), 1, "JSON nested too deeply")
    print("all as expected")


main()
