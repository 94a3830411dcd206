# ===- slurm_cluster.py - Slurm on this machine ----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A Slurm cluster for tests: one slurmctld and a slurmd for each node, all on this
machine, as the user at hand, in a directory of their own. Its users are told by
munge, with a key of the test's own, where munged is there."""

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time

START_SECONDS, JOB_SECONDS = 60, 300
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
# Debian keeps daemons out of the PATH of users.
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
TOOLS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo")


class Missing(Exception):
    """Why there is no cluster here."""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for _ in range(count)
        ]
        return [probe.getsockname()[1] for probe in probes]


class Cluster:
    """`partitions`: nodes of each; `gpus`: of each node, by Slurm's gres."""

    def __init__(self, partitions, cpus=4, gpus=""):
        for tool in TOOLS:
            if not shutil.which(tool, path=PATH):
                raise Missing(f"there is no {tool} (on Debian: slurm-wlm)")
        # Paths of sockets are short.
        self.directory = tempfile.mkdtemp(prefix="slurm-")
        self.processes = []
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SLURM_")},
            "PATH": PATH,
            "SLURM_CONF": self.path("slurm.conf"),
        }
        try:
            self.start(partitions, cpus, gpus)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def spawn(self, name, *command):
        with open(self.path(f"{name}.out"), "w") as log:
            self.processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=self.environment, start_new_session=True,
                )
            )  # fmt: skip

    def start_munge(self):
        """What of slurm.conf says who may speak."""
        if not shutil.which("munged", path=PATH):
            return ["AuthType=auth/none", "CredType=cred/none"]
        key, place = self.path("munge.key"), self.path("munge.socket")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
            file.write(os.urandom(128))
        self.spawn(
            "munged", "munged", "--foreground", "--force", "--num-threads=2",
            f"--key-file={key}", f"--socket={place}",
            f"--pid-file={self.path('munge.pid')}",
            f"--log-file={self.path('munge.log')}",
            f"--seed-file={self.path('munge.seed')}",
        )  # fmt: skip
        self.wait(lambda: os.path.exists(place), "munged does not start")
        return ["AuthType=auth/munge", "CredType=cred/munge", f"AuthInfo=socket={place}"]

    def start(self, partitions, cpus, gpus):
        names = [name for nodes in partitions.values() for name in nodes]
        control, *ports = free_ports(1 + len(names))
        host, user = socket.gethostname(), pwd.getpwuid(os.geteuid()).pw_name
        lines = [
            "ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={control}", f"SlurmUser={user}", f"SlurmdUser={user}",
            f"StateSaveLocation={self.path('state')}",
            f"SlurmdSpoolDir={self.path('spool.%n')}",
            f"SlurmctldPidFile={self.path('slurmctld.pid')}",
            f"SlurmdPidFile={self.path('slurmd.%n.pid')}",
            f"SlurmctldLogFile={self.path('slurmctld.log')}",
            f"SlurmdLogFile={self.path('slurmd.%n.log')}",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none", "MpiDefault=none",
            "AccountingStorageType=accounting_storage/none", "ReturnToService=2",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core",
            "SchedulerType=sched/backfill", "SlurmdParameters=config_overrides",
            "SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0",
            "SwitchType=switch/none", "KillWait=5", "GresTypes=gpu",
        ]  # fmt: skip
        lines += self.start_munge()
        for name, port in zip(names, ports):
            lines.append(
                f"NodeName={name} NodeHostName={host} NodeAddr=127.0.0.1 Port={port} "
                f"CPUs={cpus} RealMemory=1000 State=UNKNOWN {gpus and 'Gres=' + gpus}"
            )
        for number, (name, nodes) in enumerate(partitions.items()):
            default = "NO" if number else "YES"
            lines.append(
                f"PartitionName={name} Nodes={','.join(nodes)} Default={default} State=UP"
            )
        os.makedirs(self.path("state"))
        for file, text in (("slurm.conf", lines), ("gres.conf", ["AutoDetect=off"])):
            with open(self.path(file), "w") as stream:
                stream.write("\n".join(text) + "\n")
        self.spawn("slurmctld", "slurmctld", "-D")
        for name in names:
            self.spawn(name, "slurmd", "-D", "-N", name)
        self.wait(lambda: self.count_idle() == len(names), "Slurm does not start")

    def count_idle(self):
        done = self.run("sinfo", "--noheader", "--Node", "--format=%T")
        return done.stdout.split().count("idle") if done.returncode == 0 else 0

    def wait(self, condition, why):
        end = time.monotonic() + START_SECONDS
        while not condition():
            ended = [p.args[0] for p in self.processes if p.poll() is not None]
            if ended or time.monotonic() > end:
                raise Missing(f"{why}: {self.read_logs()}")
            time.sleep(0.1)

    def read_logs(self):
        """Their last lines."""
        texts = []
        for name in sorted(os.listdir(self.directory)):
            if name.endswith((".out", ".log")):
                with open(self.path(name), errors="replace") as file:
                    texts += [f"{name}: {line}" for line in file.readlines()[-3:]]
        return " ".join(texts)

    def run(self, *command, **environment):
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={**self.environment, **environment}, check=False, timeout=300,
        )  # fmt: skip

    def submit(self, options, command, **environment):
        """Number and output file of a batch job that has been submitted; what sbatch
        says, and no file, if it refuses."""
        output = self.path(f"job-{time.monotonic_ns()}.txt")
        options = ["--parsable", f"--output={output}", *options]
        done = self.run("sbatch", *options, *command, **environment)
        if done.returncode:
            return done.stdout + done.stderr, None
        return done.stdout.strip(), output

    def collect(self, job, output):
        """Waits for a job: exit status and output."""
        if output is None:
            return 1, job
        end = time.monotonic() + JOB_SECONDS
        state = ""
        while state not in ENDED and time.monotonic() < end:
            time.sleep(0.1)
            shown = self.run("scontrol", "show", "job", "-o", job).stdout
            found = re.search(r" JobState=(\w+) .* ExitCode=(\d+):(\d+)", shown)
            state = found[1] if found else ""
        text = f"job {job} is {state or 'unknown'}\n"
        if os.path.exists(output):
            with open(output, errors="replace") as file:
                text += file.read()
        return 0 if state == "COMPLETED" else 1, text

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
