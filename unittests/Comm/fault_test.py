#!/usr/bin/env python3
# ===- fault_test.py - Kills jobs in many ways ------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Starts PoplarFaultJob under mpirun, does something bad to it at a random
moment, and checks that the whole job ends in time, says who failed, and leaves
no process."""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 10.0  # seconds from the fault to the end of the last process
RANKS = 3
EXPECTED = 100000  # bytes of a message

# Twice the time mpirun leaves its processes between SIGCONT, SIGTERM and
# SIGKILL; it waits for all of it, even when the processes have ended.
SIGKILL_TIMEOUT = 2


class Job:
    """A running job; `pids` are the ranks'."""

    def __init__(self, arguments, options, death=None):
        self.directory = tempfile.mkdtemp(prefix="poplar-fault-")
        self.log_path = os.path.join(self.directory, "log")
        command = [
            arguments.mpirun, "--allow-run-as-root", "--oversubscribe",
            "--bind-to", "none", "-np", str(RANKS), "-x", "POPLAR_FAILURE_REPORT",
            "--mca", "odls_base_sigkill_timeout", str(SIGKILL_TIMEOUT),
            # What a killed mpirun leaves behind goes with our directory.
            "--mca", "orte_tmpdir_base", self.directory,
            "--mca", "btl_vader_backing_directory", self.directory,
            arguments.job, "--out", self.directory] + options
        environment = dict(
            os.environ, OMP_NUM_THREADS="1",
            POPLAR_FAILURE_REPORT=os.path.join(self.directory, "failure"))
        self.victim = random.randrange(RANKS)
        if death:
            when = random.choice(("before", "after"))
            environment.update(
                POPLAR_MPI_PLUGIN=arguments.dying, POPLAR_TEST_PLUGIN=arguments.plugin,
                POPLAR_TEST_DEATH=f"{self.victim} {int(death)} {when}")
        with open(self.log_path, "wb") as log:
            self.launcher = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, env=environment)
        self.pids = {}

    def log(self):
        """What was printed, and the report: mpirun may lose last words."""
        text = open(self.log_path, errors="replace").read()
        report = os.path.join(self.directory, "failure")
        return text + (open(report).read() if os.path.exists(report) else "")

    def wait_for_start(self):
        end = time.time() + 60
        while True:
            ended = self.launcher.poll() is not None
            self.pids = {int(rank): int(pid) for rank, pid in
                         re.findall(r"^rank (\d+) pid (\d+)$", self.log(), re.M)}
            if len(self.pids) == RANKS:
                return
            check(self, not ended and time.time() < end,
                  "the job does not start")
            time.sleep(0.02)

    def processes(self):
        """The processes of this job that live, mpirun among them."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.directory.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def wait_for_end(self, limit=LIMIT):
        """Seconds until no process was left."""
        begin = time.time()
        while True:
            left = self.processes()
            if self.launcher.poll() is None:
                left.append(self.launcher.pid)
            elapsed = time.time() - begin
            if not left:
                return elapsed
            check(self, elapsed < limit, f"after {elapsed:.1f} s, processes "
                  f"{left} are left of {self.pids}, mpirun {self.launcher.pid}")
            time.sleep(0.05)

    def remove(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.launcher.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def check(job, condition, message):
    if not condition:
        raise AssertionError(f"{message}\n--- output:\n{job.log()}")


def check_named(job, rank, *texts):
    """The report names rank, host, device type and last collective."""
    host = os.uname().nodename
    match = re.search(rf"rank {rank} \({re.escape(host)}, host:test{rank}, "
                      r"pid \d+\).*", job.log())
    check(job, match, f"rank {rank} is not named")
    for text in texts:
        check(job, re.search(text, match.group()), f"no '{text}'")


def kill(arguments, job):
    """A rank is killed."""
    rank = random.randrange(RANKS)
    os.kill(job.pids[rank], signal.SIGKILL)
    elapsed = job.wait_for_end()
    check_named(job, rank, "has ended unexpectedly", "last collective: ")
    return elapsed


def stop(arguments, job):
    """A rank is stopped: it keeps its connections, and says nothing."""
    rank = random.randrange(RANKS)
    os.kill(job.pids[rank], signal.SIGSTOP)
    elapsed = job.wait_for_end()
    check_named(job, rank, "has sent nothing", "last collective: ")
    return elapsed


def launcher(arguments, job):
    """mpirun is killed, and cannot end its processes."""
    job.launcher.kill()
    return job.wait_for_end()


def agreed_stop(job, number):
    job.launcher.send_signal(number)
    elapsed = job.wait_for_end()
    steps = set()
    for rank in range(RANKS):
        path = os.path.join(job.directory, f"rank-{rank}")
        check(job, os.path.exists(path), f"rank {rank} did not save")
        steps.add(open(path).read())
    check(job, len(steps) == 1, f"ranks saved unlike steps: {steps}")
    return elapsed


def terminate(arguments, job):
    """mpirun is asked to end: the ranks save the same step first."""
    return agreed_stop(job, signal.SIGTERM)


def user(arguments, job):
    """The same, by a signal that mpirun only passes on."""
    elapsed = agreed_stop(job, signal.SIGUSR1)
    check(job, job.launcher.returncode == 0, "exit status is not 0")
    return elapsed


def throw(arguments, job):
    """A rank has an error of its own."""
    elapsed = job.wait_for_end()
    check_named(job, 1, "out of memory, for a test")
    return elapsed


def hang(arguments, job):
    """A rank lives, but does not go on; those that wait are not blamed."""
    elapsed = job.wait_for_end()
    check_named(job, 2, "last collective: ")
    check(job, "no progress for" in job.log(), "no reason given")
    check(job, "rank 0 (" not in job.log(), "an innocent rank is named")
    return elapsed


def end_kill(arguments, job):
    """A rank is killed in the end of MPI."""
    elapsed = job.wait_for_end()
    check_named(job, job.victim, "has ended unexpectedly")
    return elapsed


def end_stop(arguments, job):
    """A rank is stopped in the end of MPI."""
    elapsed = job.wait_for_end()
    check_named(job, job.victim, "has sent nothing for 4")
    return elapsed


def length(arguments, job):
    """A message that is longer or shorter than expected."""
    elapsed = job.wait_for_end()
    check_named(job, 0, f"expected {EXPECTED} bytes from rank 1, which sent ")
    return elapsed


def plan(arguments, job):
    """A rank holds another plan: found before the first step."""
    elapsed = job.wait_for_end(LIMIT + 60)
    check(job, re.search(r"do not have the same plan: most have 0*2, rank 1 "
                         r"\(.*host:test1\) has 0*1", job.log()),
          "the rank that differs is not named")
    return elapsed


def survive(arguments, job):
    """A rank stopped for less than the limit is no fault."""
    rank = random.randrange(RANKS)
    os.kill(job.pids[rank], signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(job.pids[rank], signal.SIGCONT)
    time.sleep(1)
    check(job, len(job.processes()) == RANKS + 1, "the job has ended")
    job.launcher.send_signal(signal.SIGUSR1)
    elapsed = job.wait_for_end()
    check(job, job.launcher.returncode == 0, "exit status is not 0")
    return elapsed


# The signal with which a rank dies in the end of MPI.
DEATHS = {"end-kill": signal.SIGKILL, "end-stop": signal.SIGSTOP}

# The case, options of the job, whether it acts on a running job, whether the
# job succeeds (None: mpirun's exit status says nothing).
CASES = {
    "kill": (kill, [], True, False),
    "stop": (stop, [], True, False),
    "launcher": (launcher, [], True, False),
    "terminate": (terminate, [], True, None),
    "user": (user, [], True, True),
    "survive": (survive, [], True, True),
    "throw": (throw, ["--throw", "1,20"], True, False),
    "hang": (hang, ["--hang", "2,20", "--stall", "2"], True, False),
    "end-kill": (end_kill, ["--steps", "5"], True, False),
    "end-stop": (end_stop, ["--steps", "5"], True, False),
    "shorter": (length, ["--message", f"{EXPECTED - 1},{EXPECTED}"], False, False),
    "longer": (length, ["--message", f"{EXPECTED + 1},{EXPECTED}"], False, False),
    "plan": (plan, ["--hash", "1"], False, False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--job", required=True)
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--plugin", help="libpoplar_mpi.so")
    parser.add_argument("--dying", help="libpoplar_dying.so")
    parser.add_argument("--count", type=int, default=int(
        os.environ.get("POPLAR_FAULT_TESTS", "1")))
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed or random.randrange(1 << 30)
    print(f"seed {seed}")
    random.seed(seed)
    function, options, running, succeeds = CASES[arguments.case]
    for number in range(arguments.count):
        job = Job(arguments, options, DEATHS.get(arguments.case))
        try:
            if running:
                job.wait_for_start()
            if running and arguments.case not in DEATHS:
                time.sleep(random.uniform(0, 1))
            elapsed = function(arguments, job)
            code = job.launcher.wait()
            check(job, succeeds is None or (code == 0) == succeeds,
                  f"mpirun's exit status is {code}")
            print(f"{arguments.case} {number}: ended after {elapsed:.2f} s, "
                  f"status {code}", flush=True)
        finally:
            job.remove()


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"failed: {error}")
