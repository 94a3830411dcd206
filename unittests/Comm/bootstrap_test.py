#!/usr/bin/env python3
# ===- bootstrap_test.py - Starts of ranks that go wrong --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Starts ranks of PoplarFaultJob without an MPI launcher. Strangers must not
disturb the start; a rank that is wrong, ends or is stopped must end all ranks in
time, and each says why."""

import argparse
import concurrent.futures
import contextlib
import hmac
import itertools
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from bootstrap_job import (
    CHALLENGE, MAGIC, OTHER_JOB, SECRET, VERSION, WELCOME, WRONG_PROOF, Failed, Job, Rank, call,
    check, connect, fail, finish, free_port, make_card, make_hello, make_record, receive,
    succeed, throw,
)  # fmt: skip

# ===-----------------------------------------------------------------------===#
# Strangers
# ===-----------------------------------------------------------------------===#

GARBAGE = {
    "zeros": b"\0" * 70000,
    "ones": b"\xff" * 70000,
    "lengths": struct.pack("<I", 65536) * 17500,
    "random": os.urandom(70000),
    "magic": MAGIC + b"\0" * 70000,
    "magic-ones": MAGIC + b"\xff" * 70000,
}


def garbage(job):
    """Strangers send what is not the protocol; the job goes on, and names them."""
    hub = job.start(0)
    strangers = [throw(job.port, data) for data in GARBAGE.values()]
    other = job.start(1)
    succeed([hub, other])
    for connection, address in strangers:
        check(f"refused a caller, {address}: " in hub.output(), f"{address} is not named", hub)
        connection.close()


def silence(job):
    """Strangers that say nothing, or a byte now and then, keep nobody waiting."""
    hub = job.start(0)
    strangers = [throw(job.port, b"")[0] for _ in range(100)]
    slow, ended = throw(job.port, b"")[0], threading.Event()

    def drip():
        for byte in make_hello(1, 2):
            with contextlib.suppress(OSError):
                slow.sendall(bytes([byte]))
            if ended.wait(0.05):
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    begin = time.monotonic()
    other = job.start(1)
    succeed([hub, other])
    elapsed = time.monotonic() - begin
    check(elapsed < 5, f"the start took {elapsed:.1f} s", hub, other)
    ended.set()
    dripping.join()
    for connection in (*strangers, slow):
        connection.close()


def secret(job):
    """Who does not know the secret is refused, whatever it claims to be; a handshake
    that was overheard is worth nothing."""
    hub = job.start(0)
    wrong = "another secret, of the same length"
    for rank, world in ((1, 2), (0, 2), (7, 2), (-1, 2), (1, 3), (1, -1)):
        _, kind, _, _ = call(job.port, make_hello(rank, world), secret=wrong)
        check(kind == WRONG_PROOF, f"rank {rank} of {world} is answered {kind}", hub)
    # Rank 1 calls us, and we pass on what it says, but for its proof.
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        caller = job.start(1, MASTER_PORT=proxy.getsockname()[1])
        heard, _ = proxy.accept()
        hello = receive(heard, 88)
        through = connect(job.port)
        through.sendall(hello)
        heard.sendall(receive(through, 48))
        proof = receive(heard, 32)
    caller.process.kill()
    _, kind, _, _ = call(job.port, hello, proof)
    check(kind == WRONG_PROOF, f"an old handshake is answered {kind}", hub)
    # On the connection for which it was made, it is right, so it was not wrong.
    check(
        call(job.port, make_hello(1, 2, job=b"job other"))[1] == OTHER_JOB,
        "a rank of another job is not told so", hub,
    )  # fmt: skip
    other = job.start(1)
    succeed([hub, other])
    claims = hub.output().count("does not know the secret of this job")
    check(claims == 7, f"{claims} of 7 wrong proofs are reported", hub)


def flood(job):
    """More connections than rank 0 serves at a time."""
    hub = job.start(0)
    strangers = [throw(job.port, b"POPLAR")[0] for _ in range(400)]
    other = job.start(1)
    succeed([hub, other])
    lines = hub.output().count("refused a caller")
    check(lines == 10, f"{lines} lines about strangers", hub)
    for connection in strangers:
        connection.close()


def while_running(job):
    """Garbage at UCX's own ports, of all processes, while they train."""
    ranks = [job.start(rank, steps=500, UCX_TLS="tcp,self") for rank in (0, 1)]
    for rank in ranks:
        rank.wait_for(r"(?m)^rank \d pid")
    ports = {port for rank in ranks for port in listening(rank.process.pid)}
    for address, port in ports:
        check(address.startswith("127."), f"a rank listens at {address}:{port}", *ranks)
        for data in GARBAGE.values():
            connection = socket.create_connection((address, port), 5)
            with contextlib.suppress(OSError):
                connection.sendall(data)
            connection.close()
    print(f"  {len(ports)} ports")
    succeed(ranks)


def one_host(job):
    """A job that trains on one host listens nowhere, wherever its ranks have met."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        with contextlib.suppress(OSError):
            route.connect(("192.0.2.1", 9))  # sends nothing
        own = route.getsockname()[0]
    for address in {"127.0.0.1", "127.0.0.1" if own == "0.0.0.0" else own}:
        ranks = [job.start(rank, steps=1000000, MASTER_ADDR=address) for rank in (0, 1)]
        for rank in ranks:
            rank.wait_for(r"(?m)^rank \d pid")
        found = [place for rank in ranks for place in listening(rank.process.pid)]
        check(not found, f"ranks that met at {address} listen at {found}", *ranks)
        for rank in ranks:
            rank.process.send_signal(signal.SIGTERM)
        succeed(ranks)
        job.port = free_port()


def listening(pid):
    """(address, port) of TCP sockets on which a process listens."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
            if found:
                inodes.add(found[1])
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        with open(f"/proc/{pid}/net/{name}") as table:
            for row in list(table)[1:]:
                words = row.split()
                if words[3] == "0A" and words[9] in inodes:
                    address, port = words[1].split(":")
                    parts = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
                    packed = struct.pack(f"={len(parts)}I", *parts)
                    yield socket.inet_ntop(family, packed), int(port, 16)


# ===-----------------------------------------------------------------------===#
# Members that are wrong
# ===-----------------------------------------------------------------------===#


def twice(job):
    """Two processes of one rank."""
    ranks = [job.start(rank) for rank in (0, 1)]
    time.sleep(0.5)
    ranks.append(job.start(1))
    fail(ranks, "two processes were started with RANK=1")


def second_hub(job):
    """Two processes of rank 0: the second one cannot listen."""
    first = job.start(0)
    connect(job.port).close()
    fail([job.start(0)], "rank 0 cannot listen at .*Address already in use")
    succeed([first, job.start(1)])


def world(job):
    """One rank has another WORLD_SIZE."""
    ranks = [job.start(0), job.start(1), job.start(2, WORLD_SIZE=4)]
    fail(ranks, r"rank 2 .* was started with WORLD_SIZE=4, rank 0 with WORLD_SIZE=3")


def version(job):
    """One rank speaks another version."""
    ranks = [job.start(rank) for rank in (0, 1)]
    connection, kind, _, _ = call(job.port, make_hello(2, 3, version=VERSION + 1))
    check(kind == WELCOME, f"a member is answered {kind}", *ranks)
    fail(ranks, f"rank 2 .* has version {VERSION + 1} of the protocol between ranks")
    connection.close()


def records(job):
    """A member that sends what is no message, or no card of its own, ends the job."""
    message, card = "sent something that is not a message", "sent something other than the card of a rank"
    for make, text in (
        (lambda key: b"\xff" * 5000, message),
        (lambda key: make_record(b"another key", 1, 0, make_card(1)), message),
        (lambda key: make_record(key, 1, 7, make_card(1)), message),
        (lambda key: make_record(key, 1, 0, make_card(1), 1 << 31), message),
        (lambda key: make_record(key, 1, 0, make_card(2)), card),
        (lambda key: make_record(key, 1, 0, make_card(-1)), card),
        (lambda key: make_record(key, 1, 0, make_card(1)[:100]), card),
        (lambda key: make_record(key, 1, 0, make_card(1, length=1 << 30)), card),
        (lambda key: make_record(key, 4, 0, b"out of memory"), "rank 1 .*: out of memory"),
    ):
        hub = job.start(0)
        hello = make_hello(1, 3)
        connection, kind, nonce, _ = call(job.port, hello)
        check(kind == WELCOME, f"a member is answered {kind}", hub)
        label = b"poplar records to rank 0".ljust(32, b"\0")
        key = hmac.digest(SECRET.encode(), label + hello + nonce, "sha256")
        connection.sendall(make(key))
        fail([hub, job.start(2)], text)
        connection.close()
        job.port = free_port()


def impostor(job):
    """Who listens in place of rank 0, and does not know the secret, is not believed."""
    with socket.create_server(("127.0.0.1", job.port)) as server:
        caller = job.start(1)
        connection, _ = server.accept()
        receive(connection, 88)
        connection.sendall(struct.pack("<8sII", MAGIC, CHALLENGE, 1) + os.urandom(32))
        receive(connection, 32)
        connection.sendall(struct.pack("<8sII", MAGIC, WELCOME, 1) + os.urandom(32))
        fail([caller], "have different secrets")
        connection.close()


def secrets(job):
    """One rank has another secret, or none: it says so at once, and rank 0 says who
    was refused. Rank 0 goes on, as the caller may be anyone."""
    hub = job.start(0)
    fail([job.start(1, POPLAR_SECRET="another secret of a rank")], "have different secrets")
    fail([job.start(1, POPLAR_SECRET=None)], "rank 0 has a secret, and this rank none")
    succeed([hub, job.start(1)])
    check("claims to be rank 1" in hub.output(), "rank 0 does not tell", hub)


def secret_rules(job):
    """What a secret has to be, and where one is needed."""
    file = os.path.join(job.directory, "secret")
    with open(file, "w") as stream:
        stream.write(SECRET + "\n")
    os.chmod(file, 0o644)
    given = {"POPLAR_SECRET": None, "POPLAR_SECRET_FILE": file}
    fail([job.start(0, **given)], "other users may read or write it; run chmod 600")
    fail([job.start(0, **{**given, "POPLAR_SECRET_FILE": "/"})], "not a regular file")
    fail([job.start(0, POPLAR_SECRET_FILE=file)], "are both set; set one")
    fail([job.start(0, POPLAR_SECRET="short")], "a secret has at least 16")
    # An address for documentation: nothing is sent to it.
    fail(
        [job.start(r, POPLAR_SECRET=None, MASTER_ADDR="192.0.2.1") for r in (0, 1)],
        "have no secret by which they know each other",
    )
    os.chmod(file, 0o600)
    succeed([job.start(0, **given), job.start(1)])
    succeed([job.start(rank, POPLAR_SECRET=None) for rank in (0, 1)])


# ===-----------------------------------------------------------------------===#
# Members that end, and places that are wrong
# ===-----------------------------------------------------------------------===#


def two_of_three(job):
    """Ranks 0 and 1 have met, and rank 2 is late."""
    ranks = [job.start(rank) for rank in (0, 1)]
    time.sleep(1)
    return ranks


def kill(job):
    """A rank is killed while others are awaited."""
    ranks = two_of_three(job)
    ranks[1].process.kill()
    fail(ranks, r"rank 1 \(.*, pid \d+\) has ended unexpectedly")


def kill_hub(job):
    ranks = two_of_three(job)
    ranks[0].process.kill()
    fail(ranks, "rank 0 has ended unexpectedly")


def stop(job):
    """A rank is stopped while others are awaited."""
    ranks = two_of_three(job)
    ranks[1].process.send_signal(signal.SIGSTOP)
    fail([ranks[0]], r"rank 1 \(.*\) has sent nothing for 5 s: it is stopped")
    ranks[1].process.send_signal(signal.SIGCONT)
    fail([ranks[1]], "rank 0 has (ended the job|ended unexpectedly)")


def stop_hub(job):
    ranks = two_of_three(job)
    ranks[0].process.send_signal(signal.SIGSTOP)
    fail([ranks[1]], "rank 0 has sent nothing for 5 s: it is stopped")


def early(job):
    """A rank is stopped or killed at some moment of its start or of its first
    steps: the others end in time, from when it had called, and name it, also
    where the transport sees its end first."""
    kills = [(signal.SIGKILL, 0.25 + 0.07 * i) for i in range(15)]
    for number, delay in [(signal.SIGSTOP, 0.15)] + kills:
        ranks = [job.start(rank, steps=1000000, POPLAR_START_SECONDS=3) for rank in (0, 1, 2)]
        time.sleep(delay)
        ranks[2].process.send_signal(number)
        fail(ranks[:2], "rank 2")
        job.port = free_port()
        ranks[2].process.kill()


def lengths(job):
    """A message that is longer or shorter than expected, by any of UCX's protocols."""
    jobs = []
    for tls, expected in itertools.product((None, "tcp,self"), (100, 300000)):
        for sent in (1, expected - 1, expected + 1, 400000):
            options = ["--message", f"{sent},{expected}"]
            place = {"UCX_TLS": tls, "MASTER_PORT": free_port()}
            what = sent if sent < expected else "more"
            jobs.append((
                f"expected {expected} bytes from rank 1, which sent {what}\n",
                [job.start(rank, options=options, **place) for rank in (0, 1)],
            ))  # fmt: skip
    for text, ranks in jobs:
        fail(ranks, text, limit=20)


def end(job, number):
    """A rank is killed or stopped in the end of the transport, before or after the last
    barrier: the others end in time, and name it."""
    jobs = []
    for victim, when in itertools.product((0, 2), ("before", "after")):
        place = {
            "MASTER_PORT": free_port(), "POPLAR_TCP_PLUGIN": job.dying,
            "POPLAR_TEST_PLUGIN": job.plugin,
            "POPLAR_TEST_DEATH": f"{victim} {int(number)} {when}",
        }  # fmt: skip
        jobs.append((victim, [job.start(rank, **place) for rank in range(3)]))
    what = "ended unexpectedly" if number == signal.SIGKILL else "sent nothing for 4"
    for victim, ranks in jobs:
        fail([r for i, r in enumerate(ranks) if i != victim], rf"rank {victim} \(.* has {what}")


def end_kill(job):
    end(job, signal.SIGKILL)


def end_stop(job):
    end(job, signal.SIGSTOP)


def decline(job):
    """A rank that fails before it calls tells the others why, also where it is rank 0,
    and where it fails some time before they call, or after."""
    for victim, late in itertools.product((0, 2), (True, False)):
        order = [0, 1, 2]
        order.remove(victim)
        order.insert(2 if late else 0, victim)
        ranks = []
        for rank in order:
            options = ["--bogus", "1"] if rank == victim else []
            ranks.append(job.start(rank, options=options))
            time.sleep(0 if rank != victim or late else 3)
        fail(ranks, "unknown option --bogus")
        job.port = free_port()
    # All fail, or nobody is there.
    fail([job.start(rank, options=["--bogus", "1"]) for rank in (2, 0, 1)], "unknown option", limit=5)
    fail([job.start(1, options=["--bogus", "1"], POPLAR_START_SECONDS=2)], "unknown option", limit=5)


def ipv6(job):
    """Ranks do not meet by IPv6, and say so."""
    for address in ("::1", "fd00::1"):
        fail([job.start(1, MASTER_ADDR=address)], "has an IPv6 address alone.*IPv4")


def missing(job):
    """A rank does not come."""
    ranks = [job.start(rank, POPLAR_START_SECONDS=2) for rank in (0, 2)]
    fail(ranks, r"no word from rank 1 in 2 s \(POPLAR_START_SECONDS\)")


def port(job):
    """Another program listens at the port, and says nothing, or too much."""
    for data in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10):
        with socket.create_server(("127.0.0.1", 0)) as held:

            def greet(held=held, data=data):
                with contextlib.suppress(OSError):
                    while True:
                        held.accept()[0].sendall(data)

            job.port = held.getsockname()[1]
            threading.Thread(target=greet, daemon=True).start()
            ranks = [job.start(rank) for rank in (0, 1)]
            fail(ranks, "rank 0 cannot listen at .*Address already in use",
                 "does not answer as rank 0 of a job does")  # fmt: skip
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def two_namespaces():
    """Two network namespaces and a link between them, which is down: commands that run
    something there, and one that brings up an end. Nothing without the right to make them."""
    names = [f"poplar-test-{os.getpid()}-{i}" for i in range(2)]

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True).returncode == 0

    made = False
    try:
        made = shutil.which("ip") is not None and all(ip("netns", "add", n) for n in names) and ip(
            "link", "add", "end0", "netns", names[0], "type", "veth",
            "peer", "name", "end1", "netns", names[1],
        )  # fmt: skip
        for i, name in enumerate(names if made else ()):
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"10.99.0.{i + 1}/24", "dev", f"end{i}")
        bring_up = [lambda i=i, n=n: ip("-n", n, "link", "set", f"end{i}", "up")
                    for i, n in enumerate(names)]  # fmt: skip
        yield (["ip", "netns", "exec", names[0]], ["ip", "netns", "exec", names[1]],
               *bring_up) if made else None  # fmt: skip
    finally:
        for name in names if shutil.which("ip") else ():
            ip("netns", "del", name)


def link(job):
    """Ranks on two hosts whose network comes up as they start, at one end or at both; or at
    one end never, which is said with the device."""
    for late in ((), (0, 1), (1,), None):
        with two_namespaces() as made:
            if not made:
                print("  skipped: needs ip and the right to make network namespaces")
                return
            *places, up0, up1 = made
            ups = (up0, up1)
            for end in (0, 1):
                if end not in (late or ()) and not (late is None and end == 1):
                    ups[end]()
            ranks = [
                job.start(rank, places[rank], MASTER_ADDR="10.99.0.1") for rank in (0, 1)
            ]
            if late is None:
                fail([ranks[1]], "no route to MASTER_ADDR, 10.99.0.1 for 6 s|device end1,", limit=15)
                ranks[0].process.kill()
            else:
                time.sleep(1 if late else 0)
                for end in late:
                    ups[end]()
                succeed(ranks)


def unreachable(job):
    """Nothing comes back from the place of rank 0: here, a queue of connections that
    is full, behind which packets are dropped as by a firewall."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        job.port = full.getsockname()[1]
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", job.port))
        fail([job.start(1)], "rank 1 cannot join rank 0 at .*timed out.*firewalls")


def torchrun(job):
    """torchrun's agent holds MASTER_PORT, and other programs the first ports that the
    ranks would take instead."""
    with contextlib.ExitStack() as stack:
        agent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        place = {
            "MASTER_PORT": agent.getsockname()[1], "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": 0,
        }  # fmt: skip
        # Where they look is said by the one that is alone.
        alone = job.start(1, POPLAR_START_SECONDS=1, **place)
        fail([alone], "rank 0 does not answer at")
        ports = re.search(r"ports ([\d, ]+)", alone.output())[1].split(", ")
        check(len(ports) == 8, f"ports {ports}", alone)
        stack.enter_context(socket.create_server(("127.0.0.1", int(ports[0]))))
        # Another run on the same port, whose rank 0 listens at one of ours.
        other = job.start(0, POPLAR_MASTER_PORT=ports[1], **{**place, "TORCHELASTIC_RUN_ID": "x"})
        connect(int(ports[1])).close()
        succeed([job.start(rank, **place) for rank in (1, 0, 2)])
        check(other.process.poll() is None, "another run has ended", other)
        check("is a rank of another job" in other.output(), "it does not tell", other)


# ===-----------------------------------------------------------------------===#
# scripts/start-ranks.py
# ===-----------------------------------------------------------------------===#


class Started:
    """A job of start-ranks.py; `pids` are its ranks'."""

    def __init__(self, job):
        self.name, self.log = "start-ranks.py", os.path.join(job.directory, "log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, job.starter, "--ranks", str(job.world), "--", job.program,
                 "--out", job.directory, "--steps", "1000000"],
                stdout=log, stderr=subprocess.STDOUT,
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("POPLAR_")},
                    "TMPDIR": job.directory,
                },
            )  # fmt: skip
        job.ranks.append(self)
        self.pids = {}

    def wait_for_start(self, job):
        end = time.monotonic() + 20
        while len(self.pids) < job.world:
            check(time.monotonic() < end, "the job does not start", self)
            found = re.findall(r"^rank (\d+) pid (\d+)$", self.output(), re.MULTILINE)
            self.pids = {int(rank): int(pid) for rank, pid in found}
            time.sleep(0.02)
        return self

    output = Rank.output

    def check_gone(self):
        for pid in self.pids.values():
            check(not os.path.exists(f"/proc/{pid}"), f"process {pid} is left", self)


def launcher(job):
    """A rank of a running job is stopped, or killed: no process is left in time."""
    for number, text in (
        (signal.SIGSTOP, "rank 1 .*(was stopped for 4 s|has sent nothing)"),
        (signal.SIGKILL, r"rank 1 \(pid \d+\) was ended by SIGKILL"),
    ):
        started = Started(job).wait_for_start(job)
        os.kill(started.pids[1], number)
        fail([started], text)
        started.check_gone()


def starter(job):
    """start-ranks.py holds the port of its job, and leaves nothing when it is killed."""
    started = Started(job).wait_for_start(job)
    with open(f"/proc/{started.pids[1]}/environ") as file:
        port = int(re.search(r"MASTER_PORT=(\d+)", file.read())[1])
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
            raise Failed(f"port {port} is free for others")
        except OSError:
            pass
    started.process.kill()
    started.process.wait()
    end = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in started.pids.values()):
        check(time.monotonic() < end, "ranks are left", started)
        time.sleep(0.02)
    left = {name for name in os.listdir(job.directory) if name.startswith("poplar-")}
    check(len(left) == 1, f"left: {left}", started)
    # Whose start removes that; it is interrupted in time, and then again too early.
    for early in (False, True):
        started = Started(job)
        if not early:
            started.wait_for_start(job)
            check(not left & set(os.listdir(job.directory)), f"{left} is still there", started)
        else:
            children = f"/proc/{started.process.pid}/task/{started.process.pid}/children"
            while not open(children).read():
                time.sleep(0.002)
        started.process.send_signal(signal.SIGINT)
        finish([started])
        status, said = started.process.returncode, started.output()
        calm = "rror" not in said and "Traceback" not in said
        check(status in ((130, 0) if early else (0,)) and calm, f"status {status}", started)


def suspended(job):
    """All ranks are suspended for a while, and go on."""
    started = Started(job).wait_for_start(job)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in started.pids.values():
            os.kill(pid, number)
        time.sleep(5 if number == signal.SIGSTOP else 1)
    check(started.process.poll() is None, "the job has ended", started)
    started.process.terminate()
    succeed([started])


# The case, and how many ranks there are.
CASES = {
    "garbage": (garbage, 2), "silence": (silence, 2), "secret": (secret, 2),
    "flood": (flood, 2), "while-running": (while_running, 2), "one-host": (one_host, 2), "twice": (twice, 3),
    "second-hub": (second_hub, 2), "world": (world, 3), "version": (version, 3),
    "records": (records, 3), "impostor": (impostor, 2), "secrets": (secrets, 2),
    "secret-rules": (secret_rules, 2), "kill": (kill, 3),
    "kill-hub": (kill_hub, 3), "stop": (stop, 3), "stop-hub": (stop_hub, 3),
    "end-kill": (end_kill, 3), "end-stop": (end_stop, 3), "lengths": (lengths, 2),
    "decline": (decline, 3), "ipv6": (ipv6, 2), "link": (link, 2), "early": (early, 3), "missing": (missing, 3), "port": (port, 2),
    "unreachable": (unreachable, 2), "torchrun": (torchrun, 3),
    "launcher": (launcher, 3), "starter": (starter, 2), "suspended": (suspended, 2),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", choices=CASES, nargs="+", metavar="CASE")
    parser.add_argument("--job", required=True)
    parser.add_argument("--starter", help="start-ranks.py")
    parser.add_argument("--plugin", help="libpoplar_tcp.so")
    parser.add_argument("--dying", help="libpoplar_dying.so")
    parser.add_argument("--at-once", type=int, default=1, help="cases that run at a time (1)")
    arguments = parser.parse_args()
    # A shell in the background ignores it, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(name):
        function, count = CASES[name]
        job = Job(arguments.job, count)
        job.starter = arguments.starter
        job.plugin, job.dying = arguments.plugin, arguments.dying
        begin = time.monotonic()
        try:
            function(job)
        finally:
            job.remove()
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)

    # Most of the time they wait.
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        for done in [pool.submit(run, name) for name in arguments.cases]:
            done.result()


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"failed: {error}")
