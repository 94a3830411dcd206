# ===- bootstrap_job.py - Ranks that start, and strangers that call them ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Starts ranks without an MPI launcher, and speaks the protocol of BootstrapChannel.h."""

import contextlib
import hashlib
import hmac
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

LIMIT = 10.0  # seconds from the fault to the end of the last process
SECRET = "a secret of these tests, and of no job"
MAGIC, VERSION = b"POPLARTR", 2
CHALLENGE, WELCOME, OTHER_JOB, WRONG_PROOF = range(4)


class Failed(Exception):
    pass


def check(condition, message, *ranks):
    if not condition:
        outputs = "".join(f"\n--- {r.name}:\n{r.output()}" for r in ranks)
        raise Failed(message + outputs)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Job:
    """What ranks of a job have in common."""

    def __init__(self, program, world):
        self.program, self.world, self.port = program, world, free_port()
        self.directory = tempfile.mkdtemp(prefix="poplar-bootstrap-")
        self.ranks = []

    def start(self, rank, place=(), steps=3, options=(), **variables):
        """Starts a rank, by a command that `place` begins."""
        command = [*place, self.program, "--steps", str(steps), *options]
        started = Rank(self, rank, command, variables)
        self.ranks.append(started)
        return started

    def remove(self):
        for rank in self.ranks:
            rank.process.kill()
            rank.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Rank:
    def __init__(self, job, rank, command, variables):
        self.name = f"process {len(job.ranks)} (RANK={rank})"
        self.log = os.path.join(job.directory, f"log-{len(job.ranks)}")
        place = {
            "RANK": rank, "WORLD_SIZE": job.world, "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": job.port, "POPLAR_SECRET": SECRET, "OMP_NUM_THREADS": 1,
        }  # fmt: skip
        place.update(variables)
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("POPLAR_", "TORCHELASTIC_"))
        }
        environment.update({k: str(v) for k, v in place.items() if v is not None})
        # A directory of its own, where the others' reports are not.
        directory = self.log + ".out"
        os.mkdir(directory)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [*command, "--out", directory],
                stdout=log, stderr=subprocess.STDOUT, env=environment,
            )  # fmt: skip

    def output(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def wait_for(self, text, limit=20):
        end = time.monotonic() + limit
        while not re.search(text, self.output()):
            check(time.monotonic() < end, f"{self.name} does not say '{text}'", self)
            time.sleep(0.02)


def finish(ranks, limit=30.0):
    """Seconds until all have ended."""
    begin = time.monotonic()
    for rank in ranks:
        left = begin + limit - time.monotonic()
        try:
            rank.process.wait(max(left, 0.01))
        except subprocess.TimeoutExpired:
            raise Failed(
                f"after {limit} s, {rank.name} has not ended"
                + "".join(f"\n--- {r.name}:\n{r.output()}" for r in ranks)
            ) from None
    return time.monotonic() - begin


def succeed(ranks):
    finish(ranks)
    for rank in ranks:
        check(rank.process.returncode == 0, f"{rank.name} failed", *ranks)


def fail(ranks, *texts, limit=LIMIT):
    """All ranks end in time, with one of the texts."""
    elapsed = finish(ranks, limit)
    for rank in ranks:
        check(rank.process.returncode not in (0, None), f"{rank.name} succeeded", *ranks)
        if rank.process.returncode == -signal.SIGKILL:
            continue
        said = any(re.search(text, rank.output()) for text in texts)
        check(said, f"{rank.name} says none of {texts}", *ranks)
    print(f"  all ended after {elapsed:.1f} s", flush=True)


# ===-----------------------------------------------------------------------===#
# The protocol of BootstrapChannel.h, once more.
# ===-----------------------------------------------------------------------===#


def connect(port):
    end = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise Failed("nobody listens") from None
            time.sleep(0.02)


def receive(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def make_hello(rank, world, version=VERSION, secret=True, job=b""):
    head = MAGIC + hashlib.sha256(job).digest()
    return head + struct.pack("<Iiii", version, rank, world, secret) + os.urandom(32)


def make_proof(secret, hello, nonce):
    label = b"poplar rank's proof".ljust(32, b"\0")
    return hmac.digest(secret.encode(), label + hello + nonce, "sha256")


def call(port, hello, proof=None, secret=SECRET):
    """Shakes hands; the connection, the kind of the last answer, the nonce, and
    the proof that was sent."""
    connection = connect(port)
    connection.sendall(hello)
    magic, kind, _, nonce = struct.unpack("<8sII32s", receive(connection, 48))
    check(magic == MAGIC, "rank 0 has another magic")
    if kind != CHALLENGE:
        return connection, kind, nonce, None
    proof = proof or make_proof(secret, hello, nonce)
    connection.sendall(proof)
    _, kind, _, _ = struct.unpack("<8sII32s", receive(connection, 48))
    return connection, kind, nonce, proof


def throw(port, data):
    """A stranger says this, and stays."""
    connection = connect(port)
    address = "127.0.0.1:%d" % connection.getsockname()[1]
    with contextlib.suppress(OSError):
        connection.sendall(data)
    return connection, address


def make_record(key, kind, number, data, length=None):
    """A message after the handshake; it may lie about its length."""
    head = struct.pack("<4sIQII", b"PTRC", kind, number, length or len(data), 0)
    return head + data + hmac.digest(key, head + data, "sha256")


def make_card(rank, address=b"an address", length=None):
    names = b"a host".ljust(128, b"x") + b"a name".ljust(64, b"x")
    length = len(address) if length is None else length
    return struct.pack("<iiQ", rank, 1, 0) + names + struct.pack("<II", length, 0) + address
