#!/usr/bin/env python3
# ===- start-ranks.py - Starts a job without an MPI launcher ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Starts all ranks of a job on this machine, which then talk over TCP: each is
told its rank, and where rank 0 is, by RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT. Unless POPLAR_SECRET or POPLAR_SECRET_FILE is set, they get a random
secret of their own, so that nobody else can join.

  scripts/start-ranks.py DIR -- train --data text.txt --steps 100 --out RUN

With --rate, every node of the plan becomes a network namespace, whose link to
the others carries no more than that (tc's tbf), in each direction:

  scripts/start-ranks.py DIR --rate 100mbit -- train ...

With --links, pairs of nodes get the bandwidths and latencies that a cluster file
gives them (tc's htb and netem), each pair a link of its own:

  scripts/start-ranks.py DIR --links cluster.json -- train ...

With --cpu-share, every rank gets that share of a core and no more, so that more
ranks than there are cores do not wait for each other (a control group's quota):

  scripts/start-ranks.py DIR --cpu-share 0.45 -- train ...

All three need root, the first two also ip and tc (on Debian: iproute2); without them
the exit status is 3. A kernel without netem keeps to the bandwidths and says so. Ends
with status 1, and ends the other ranks, when one of them fails, or is stopped
(SIGSTOP) while others go on. On SIGINT, SIGTERM or SIGHUP the ranks save, and end with
status 0; a second SIGINT ends them at once. If they have not come so far that they could
save, the status is 130, 143 or 129."""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CANNOT = 3
# How long what exceeds the rate waits, and what may go at once: as little as lets
# the rate be kept, or a message would be through before it is shaped.
QUEUE_SECONDS, BURST_SECONDS, LEAST_BURST = 0.05, 0.0002, 16 << 10
# With its headers less than a burst.
LARGEST_PACKET = 16000
# How long a rank may be stopped while others run, and what the others have to end
# by themselves when one has failed, in seconds.
STOPPED_SECONDS, GRACE_SECONDS = 4, 3
# In which a rank gets its share of a core.
PERIOD_MICROSECONDS = 5000
EARLY = "stopped by a signal before the ranks could save"
BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


class Impossible(Exception):
    pass


class Unshapable(Impossible):
    def __str__(self):
        return f"cannot shape a link: {self.args[0]}"


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise Unshapable(f"ip {' '.join(words)}: {done.stderr.strip()}")


def parse_rate(text):
    """Bit/s of "100mbit", or nothing."""
    unit = BITS.get(text[-4:])
    try:
        return float(text[:-4]) * unit if unit else None
    except ValueError:
        return None


def tc(*words):
    done = subprocess.run(["tc", *words], capture_output=True, text=True)
    if done.returncode:
        raise Unshapable(f"tc {' '.join(words)}: {done.stderr.strip()}")


def limit_packets(namespace, device):
    # What is larger than a burst would be cut into packets of 1,500 bytes, each
    # with interrupts of its own, which took much of a core; network cards have
    # none of that.
    ip("-n", namespace, "link", "set", device, "gso_max_size", str(LARGEST_PACKET))


def get_burst(rate):
    return f"{max(LEAST_BURST, int(rate / 8 * BURST_SECONDS))}b"


class EqualLinks:
    """What every node sends and receives is no more than `rate`."""

    def __init__(self, rate):
        self.rate = rate

    def shape(self, number, namespace, switch, port):
        for place, device in ((namespace, "eth0"), (switch, port)):
            limit_packets(place, device)
            tc("-n", place, "qdisc", "add", "dev", device, "root", "tbf", "burst",
               get_burst(parse_rate(self.rate)), "latency", f"{QUEUE_SECONDS:g}s",
               "rate", self.rate)  # fmt: skip


class Links:
    """From every node to every other one: bit/s and seconds."""

    def __init__(self, path, nodes):
        with open(path) as file:
            cluster = json.load(file)
        self.pairs = {
            pair: find_link(cluster, *(nodes[i] for i in pair), path)
            for pair in itertools.permutations(range(len(nodes)), 2)
        }
        self.delays = True

    def shape(self, number, namespace, switch, port):
        limit_packets(namespace, "eth0")
        device = ["-n", namespace, "dev", "eth0"]

        def add(what, *words):
            tc(*device[:2], what, "add", *device[2:], *words)

        add("qdisc", "root", "handle", "1:", "htb")
        for (sender, receiver), (rate, latency) in self.pairs.items():
            if sender != number:
                continue
            name = f"1:{receiver + 1:x}"
            burst = get_burst(rate)
            add("class", "parent", "1:", "classid", name, "htb", "rate",
                f"{rate:.0f}bit", "burst", burst, "cburst", burst)  # fmt: skip
            address = get_address(receiver) + "/32"
            add("filter", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst",
                address, "flowid", name)  # fmt: skip
            self.delay(add, name, rate, latency)

    def delay(self, add, name, rate, latency):
        queue = max(LEAST_BURST, int(rate / 8 * (QUEUE_SECONDS + 2 * latency)))
        if self.delays and latency > 0:
            try:
                return add("qdisc", "parent", name, "netem", "delay",
                           f"{latency * 1e6:.0f}us", "limit", "10000")  # fmt: skip
            except Impossible:
                self.delays = False
                print("start-ranks: this kernel has no netem: links keep to their "
                      "bandwidths, not to their latencies", file=sys.stderr)  # fmt: skip
        add("qdisc", "parent", name, "bfifo", "limit", str(queue))


def find_link(cluster, sender, receiver, path):
    """The last word of a cluster file on a pair: that of the two nodes, else that
    of all (docs/cluster-file.md)."""
    found = None
    for link in cluster["links"]:
        if link.get("between") == "nodes":
            found = found or link
        elif sorted(link.get("between", [])) == sorted([sender, receiver]) or (
            link.get("from") == sender and link.get("to") == receiver
        ):
            found = link
            break
    if found is None:
        raise ValueError(f"{path} has no link from {sender} to {receiver}")
    return found["bandwidth"] * 8, found["latency"]


def get_address(number):
    return f"10.77.{(number + 1) // 256}.{(number + 1) % 256}"


@contextlib.contextmanager
def namespaces(nodes, links):
    """Commands that run something on a node, and the address of the first; the
    nodes hang on a switch, which is a namespace of its own."""
    for tool in ("ip", "tc"):
        if not shutil.which(tool):
            raise Unshapable(f"there is no {tool}; on Debian: apt-get install iproute2")
    prefix = f"poplar-{os.getpid()}-"
    switch = prefix + "switch"
    made = []

    def add(name):
        ip("netns", "add", name)
        made.append(name)
        ip("-n", name, "link", "set", "lo", "up")

    try:
        add(switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number in range(len(nodes)):
            name, port = f"{prefix}{number}", f"port{number}"
            add(name)
            link = ["type", "veth", "peer", "name", port, "netns", switch]
            ip("-n", name, "link", "add", "eth0", *link)
            ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            ip("-n", name, "addr", "add", get_address(number) + "/16", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            links.shape(number, name, switch, port)
        yield {
            node: ["ip", "netns", "exec", f"{prefix}{number}"]
            for number, node in enumerate(nodes)
        }, get_address(0)
    finally:
        for name in reversed(made):
            subprocess.run(["ip", "netns", "del", name], check=False)


def make_group(name, share):
    """A control group that gets this share of a core: its directory."""
    quota = int(share * PERIOD_MICROSECONDS)
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        root, limits = "/sys/fs/cgroup", {"cpu.max": f"{quota} {PERIOD_MICROSECONDS}"}
        with open(root + "/cgroup.subtree_control", "w") as file:
            file.write("+cpu")
    else:
        root = "/sys/fs/cgroup/cpu"
        limits = {"cpu.cfs_period_us": PERIOD_MICROSECONDS, "cpu.cfs_quota_us": quota}
    directory = os.path.join(root, name)
    os.mkdir(directory)
    for key, value in limits.items():
        with open(os.path.join(directory, key), "w") as file:
            file.write(str(value))
    return directory


@contextlib.contextmanager
def core_shares(share, commands):
    """The commands, each in a control group of its own; as they are without a share."""
    groups = []
    try:
        try:
            for rank in range(len(commands) if share else 0):
                groups.append(make_group(f"poplar-{os.getpid()}-{rank}", share))
        except OSError as error:
            raise Impossible(f"cannot limit the share of a core: {error}") from None
        enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"']
        yield [[*enter, group, *command] for group, command in zip(groups, commands)] or commands
    finally:
        for group in groups:
            with contextlib.suppress(OSError):
                os.rmdir(group)


def hold_port():
    """A port of the loopback that nobody else gets for as long as the socket lives; rank
    0, which sets SO_REUSEADDR as well, can listen there."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def end_with_parent():
    """In a rank: the kernel ends it when start-ranks.py is killed."""
    set_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))


@contextlib.contextmanager
def make_directory():
    """A temporary directory; those whose start-ranks.py was killed go."""
    prefix = f"poplar-ranks-{socket.gethostname()}-"
    for name in os.listdir(tempfile.gettempdir()):
        path = os.path.join(tempfile.gettempdir(), name)
        pid = name[len(prefix) :].partition(".")[0]
        if name.startswith(prefix) and pid.isdigit() and not os.path.exists("/proc/" + pid):
            with contextlib.suppress(OSError):
                if os.lstat(path).st_uid == os.getuid():
                    shutil.rmtree(path, ignore_errors=True)  # not through a link
    with tempfile.TemporaryDirectory(prefix=f"{prefix}{os.getpid()}.") as directory:
        yield directory


def find_secret():
    """What the ranks know each other by, unless the user has chosen."""
    chosen = os.environ.get("POPLAR_SECRET") or os.environ.get("POPLAR_SECRET_FILE")
    return {} if chosen else {"POPLAR_SECRET": secrets.token_hex(32)}


def is_stopped(process):
    try:
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "Tt"
    except OSError:
        return False


class Ranks:
    """Processes of a job; `running` are those that have not ended."""

    def __init__(self):
        self.running, self.asked, self.stopped_since = {}, 0, None

    def start(self, commands, environment):
        self.holder = hold_port()
        port = self.holder.getsockname()[1]
        place = {"WORLD_SIZE": str(len(commands)), "MASTER_PORT": str(port)}
        # Rank 0 last, so that the others have to wait for it.
        for rank, command in reversed(list(enumerate(commands))):
            if self.asked:
                break
            variables = {**os.environ, **environment, **place, "RANK": str(rank)}
            # A group of its own: an interrupt from the terminal reaches it once.
            self.running[rank] = subprocess.Popen(
                command, env=variables, start_new_session=True, preexec_fn=end_with_parent
            )

    def stop(self, number):
        """Asks the ranks to save and to end."""
        self.asked = number
        # They know nothing of terminals.
        passed = signal.SIGTERM if number == signal.SIGHUP else number
        for process in list(self.running.values()):
            process.send_signal(passed)

    def find_failure(self):
        """Why the job has to end, "" if a rank has said so itself, or None."""
        failure = None
        for rank, process in list(self.running.items()):
            status = process.poll()
            if status is None:
                continue
            del self.running[rank]
            if status < 0 and self.asked and failure is None:
                failure = EARLY
            elif status < 0:
                name = signal.Signals(-status).name
                failure = f"rank {rank} (pid {process.pid}) was ended by {name}"
            elif status and failure is None:
                failure = ""
        return self.find_stopped() if failure is None else failure

    def find_stopped(self):
        """As long as all are, somebody has suspended the job."""
        stopped = [rank for rank in self.running if is_stopped(self.running[rank])]
        if not stopped or len(stopped) == len(self.running):
            self.stopped_since = None
            return None
        now = time.monotonic()
        self.stopped_since = self.stopped_since or now
        if now - self.stopped_since < STOPPED_SECONDS:
            return None
        names = ", ".join(f"rank {r} (pid {self.running[r].pid})" for r in stopped)
        return f"{names} was stopped for {STOPPED_SECONDS} s"

    def end(self, grace=GRACE_SECONDS):
        """The ranks tell each other, and say which of them failed."""
        end = time.monotonic() + grace
        while self.running and time.monotonic() < end:
            time.sleep(0.02)
            awake = False
            for rank, process in list(self.running.items()):
                if process.poll() is not None:
                    del self.running[rank]
                elif not is_stopped(process):
                    awake = True
            # Who is stopped cannot end by itself.
            if not awake:
                break
        for process in self.running.values():
            process.kill()
            process.wait()


def run(commands, environment, share):
    """All at once; the exit status."""
    with core_shares(share, commands) as commands, make_directory() as directory:
        # The first rank to say why the job ends is the only one. It writes to a
        # file, which is printed last, here or by who has named it.
        own = os.path.join(directory, "failure")
        report = {}
        if "POPLAR_FAILURE_REPORT" not in os.environ:
            report["POPLAR_FAILURE_REPORT"] = own
        ranks = Ranks()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # nohup ignores SIGHUP, and so do the ranks.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda number, frame: ranks.stop(number))
        ranks.start(commands, {**environment, **find_secret(), **report})
        # Before all ranks had started, they could save nothing.
        failure = EARLY if len(ranks.running) < len(commands) else None
        while ranks.running and failure is None:
            time.sleep(0.02)
            failure = ranks.find_failure()
        if failure:
            print(f"start-ranks: {failure}", file=sys.stderr, flush=True)
        ranks.end(0 if failure == EARLY else GRACE_SECONDS)
        if os.path.exists(own):
            with open(own, errors="replace") as file:
                print(file.read(), end="", file=sys.stderr, flush=True)
        if failure is None:
            return 0
        return 128 + ranks.asked if ranks.asked and failure else 1


def read_ranks(directory):
    """(node, executable) of each rank, from the build's ranks.txt."""
    ranks = []
    with open(os.path.join(directory, "ranks.txt")) as file:
        for line in file:
            if not line.startswith("#"):
                _, node, device_type = line.split()[:3]
                ranks.append((node, os.path.join(directory, device_type, "train")))
    return ranks


def main():
    # Until there are ranks to stop.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [-h] (DIR | --ranks N) [--rate RATE | --links FILE]"
        " [--cpu-share SHARE] -- COMMAND...",
    )
    parser.add_argument("directory", nargs="?", metavar="DIR", help="of poplar build")
    parser.add_argument(
        "--ranks", type=int, help="instead: so many run COMMAND, each a node"
    )
    parser.add_argument("--rate", help="of every node's link: 500kbit, 100mbit, 1gbit")
    parser.add_argument("--links", metavar="FILE", help="cluster file with nodes' links")
    parser.add_argument("--cpu-share", type=float, help="of a core, for each rank: 0.45")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    arguments, command = parser.parse_args(words[:split]), words[split + 1 :]
    if not command:
        parser.error("what the ranks are to do comes behind --")
    if (arguments.directory is None) == (arguments.ranks is None):
        parser.error("either a directory or --ranks")
    if arguments.rate and not parse_rate(arguments.rate):
        parser.error(f"--rate {arguments.rate}: expected such as 500kbit, 100mbit, 1gbit")

    if arguments.rate and arguments.links:
        parser.error("either --rate or --links")
    share = arguments.cpu_share
    if share is not None and not 0.01 <= share <= 1:
        parser.error(f"--cpu-share {share}: expected 0.01 to 1")

    if arguments.ranks:
        ranks = [(str(rank), command) for rank in range(arguments.ranks)]
    else:
        try:
            ranks = [(node, [exe, *command]) for node, exe in read_ranks(arguments.directory)]
        except (OSError, ValueError) as error:
            parser.error(f"{arguments.directory} is not what poplar build wrote: {error}")
    try:
        if not arguments.rate and not arguments.links:
            address = {"MASTER_ADDR": "127.0.0.1"}
            return run([command for _, command in ranks], address, share)
        return run_on_links(arguments, ranks, parser)
    except Impossible as error:
        print(f"start-ranks: {error}", file=sys.stderr)
        return CANNOT


def run_on_links(arguments, ranks, parser):
    nodes = list(dict.fromkeys(node for node, _ in ranks))
    try:
        links = EqualLinks(arguments.rate)
        if arguments.links:
            links = Links(arguments.links, nodes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"--links {arguments.links}: {error}")
    with namespaces(nodes, links) as (prefixes, address):
        # Shared memory would go past the link.
        environment = {"MASTER_ADDR": address, "UCX_TLS": "tcp,self"}
        commands = [prefixes[node] + command for node, command in ranks]
        return run(commands, environment, arguments.cpu_share)


if __name__ == "__main__":
    sys.exit(main())
