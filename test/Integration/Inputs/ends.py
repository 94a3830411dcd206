#!/usr/bin/env python3
# ===- ends.py - Ends and ports of a job of one host ------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: ends.py DIRECTORY COMMAND... (which trains a job of several ranks)

Starts the job, and
- checks that none of its processes listens elsewhere than on the loopback;
- lets 200 strangers call each port at the start, and say less than they should,
  which must not keep the job from training;
- interrupts it as a terminal does: it saves, and ends with status 0 and no word of
  an error;
- kills its launcher, whose temporary directory the next one removes."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

directory, command = sys.argv[1], sys.argv[2:]
temporary = os.path.join(directory, "temporary")


def fail(message, *logs):
    sys.exit(message + "".join(f"\n--- {log}:\n{open(log).read()[-3000:]}" for log in logs))


class Job:
    def __init__(self, name, *options):
        self.log = os.path.join(directory, name + ".log")
        self.session = subprocess.Popen(
            [*command, "--out", os.path.join(directory, name), *options],
            stdout=open(self.log, "w"), stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "TMPDIR": temporary},
        )  # fmt: skip

    def output(self):
        with open(self.log) as file:
            return file.read()

    def wait_for(self, text, turn=lambda: None):
        end = time.monotonic() + 60
        while not re.search(text, self.output()):
            if time.monotonic() > end or self.session.poll() is not None:
                fail(f"the job does not say '{text}'", self.log)
            turn()
            time.sleep(0.005)

    def processes(self):
        found, children = {self.session.pid}, {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(pid))
        queue = list(found)
        while queue:
            more = children.get(queue.pop(), [])
            found.update(more)
            queue += more
        return found

    def listening(self):
        """(address, port) at which its processes listen."""
        inodes = set()
        for pid in self.processes():
            try:
                for name in os.listdir(f"/proc/{pid}/fd"):
                    link = os.readlink(f"/proc/{pid}/fd/{name}")
                    inodes.update(re.findall(r"socket:\[(\d+)\]", link))
            except OSError:
                pass
        found = set()
        for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
            with open("/proc/self/net/" + name) as table:
                rows = [row.split() for row in list(table)[1:]]
            for words in rows:
                if words[3] == "0A" and words[9] in inodes:
                    address, port = words[1].split(":")
                    parts = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
                    packed = struct.pack(f"={len(parts)}I", *parts)
                    found.add((socket.inet_ntop(family, packed), int(port, 16)))
        return found

    def end(self, number, status=0):
        os.killpg(self.session.pid, number)
        try:
            found = self.session.wait(30)
        except subprocess.TimeoutExpired:
            fail("the job does not end", self.log)
        if found != status:
            fail(f"the job ended with status {found}, expected {status}", self.log)


def call(address, port, held):
    """Strangers that say nothing, or half of what a greeting has, and stay."""
    for size in (0, 1, 50, 900) * 50:
        stranger = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        stranger.settimeout(0.2)
        held.append(stranger)
        try:
            stranger.connect((address, port))
            stranger.send(os.urandom(size))
        except OSError:
            pass


def main():
    os.makedirs(temporary)  # also the directory of all that is written
    # A shell that ignores it, as in the background, would keep it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seen, held = set(), []
    job = Job("run")

    def look():
        for address, port in job.listening() - seen:
            if not address.startswith(("127.", "::ffff:127.")) and address != "::1":
                fail(f"the job listens at {address}, port {port}", job.log)
            seen.add((address, port))
            # Where they are dropped, each waits.
            for _ in range(2):
                threading.Thread(target=call, args=(address, port, held), daemon=True).start()

    job.wait_for(r"(?m)^step 3/", look)
    job.end(signal.SIGINT)
    if not re.search(r"(?m)^stopped by a signal after step \d+; continue with --resume$",
                     job.output()):  # fmt: skip
        fail("the job does not say that it was stopped", job.log)
    if "rror" in job.output() or os.listdir(temporary):
        fail(f"an error, or what is left in {os.listdir(temporary)}", job.log)
    print(f"{len(seen)} ports, {len(held)} strangers, stopped")

    job = Job("killed")
    job.wait_for(r"(?m)^step 1/")
    killed = job.processes()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    left = os.listdir(temporary)
    while any(os.path.exists(f"/proc/{pid}") for pid in killed - {job.session.pid}):
        time.sleep(0.02)
    job.session.wait()
    job = Job("next")
    job.wait_for(r"(?m)^step 1/")
    job.end(signal.SIGTERM)
    if not left or os.listdir(temporary):
        fail(f"{left} was left, and now {os.listdir(temporary)}")
    print("nothing left")


main()
