# ===- workshop.py - Models, profiles and state of a benchmark -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What benchmarks share that hold plans against the clock: two equal hosts, with
a link between them that is injected; and, of unlike host types, a directory, in
which what was done is kept, and the model and profiles in it."""

import ctypes
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys

from commands import ROOT, read_rates, run

TYPES = ["avx512-f32", "avx2-f32", "sse41-f32"]
WARMUP_STEPS = 2
# The exit status where nodes cannot be made of namespaces.
CANNOT = 3


def add_options(parser, directory):
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--dir", default=f"{ROOT}/build/{directory}")
    parser.add_argument("--config", default=ROOT + "/examples/models/demo-llama.json")
    parser.add_argument("--types", help="by name, the fastest first")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, help="if not as in --config")
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--max-batch", type=int, default=16)
    parser.add_argument("--turn", type=float, default=4, help="seconds, about")


def write_equal_hosts(path, target, latency, bandwidth, seconds, one_node=False):
    """Two hosts, on nodes of their own unless they share units, of which each
    takes so many seconds for a sample."""
    micro_batches = [1, 2, 4, 8, 16]
    profiles = [
        {
            "device_type": "host",
            "stage": stage,
            "micro_batches": micro_batches,
            "seconds": [seconds * batch for batch in micro_batches],
        }
        for stage in range(4)
    ]
    counts = [2] if one_node else [1, 1]
    where = "inside" if one_node else "between"
    cluster = {
        "device_types": {
            "host": {"target": target, "memory": 4 << 30, "precision": "f32"}
        },
        "nodes": [
            {"name": f"node{i}", "devices": {"host": count}}
            for i, count in enumerate(counts)
        ],
        "links": [{where: "nodes", "latency": latency, "bandwidth": bandwidth}],
        "profiles": profiles,
    }
    with open(path, "w") as file:
        json.dump(cluster, file)


def come_first():
    """From now on, what this process starts has cores before other work of the
    machine, and as soon as it wakes up: by its priority, and by slices that are
    shorter than others' 3 ms, which Linux lets them finish otherwise. Communication
    threads ask for still shorter ones."""
    sched_setattr, policy, nice, nanoseconds = 314, 0, -20, 1_000_000
    attributes = struct.pack("IIQiIQQQ", 48, policy, 0, nice, 0, nanoseconds, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(sched_setattr, 0, attributes, 0):
        sys.exit(f"error: --priority: {os.strerror(ctypes.get_errno())}")


class FakedJob:
    """A built job of two ranks. They run on this machine as if each were a node,
    on a link if one is given: "LATENCY_US,GBPS"."""

    def __init__(self, path, samples, seq_len):
        self.path, self.tokens = path, samples * seq_len
        self.out = path + "-run"

    def train(self, steps, *flags, link=""):
        """What training prints."""
        shutil.rmtree(self.out, ignore_errors=True)
        if link:
            flags += ("--link-delay", link)
        return run(
            self.path + "/launch.sh", "train", "--data",
            ROOT + "/examples/data/corpus.txt", "--data-format", "bytes", "--steps",
            str(steps), "--eval-every", "0", "--skip-save", "--log-every", str(steps),
            "--out", self.out, *flags, POPLAR_LOCAL="1", POPLAR_FAKE_NODES="0,1",
        ).stdout  # fmt: skip

    def get_step_seconds(self, skipped):
        """The median of the run's steps, without the first ones."""
        return self.tokens / statistics.median(read_rates(self.out, skipped))


class Workshop:
    def __init__(self, arguments):
        arguments.poplar = os.path.abspath(arguments.poplar)
        self.arguments = arguments
        self.dir = os.path.abspath(arguments.dir)
        os.makedirs(self.path("profiles"), exist_ok=True)
        self.state = {}
        if os.path.exists(self.path("state.json")):
            with open(self.path("state.json")) as file:
                self.state = json.load(file)
        self.tokens = arguments.seq_len

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def save(self):
        with open(self.path("state.tmp"), "w") as file:
            json.dump(self.state, file, indent=1)
        os.replace(self.path("state.tmp"), self.path("state.json"))

    def poplar(self, *words):
        return run(self.arguments.poplar, *map(str, words)).stdout

    @staticmethod
    def get_words(steps, out):
        """A run of so many steps, beside those that are not counted."""
        steps += WARMUP_STEPS
        return ["train", "--data", ROOT + "/examples/data/corpus.txt", "--steps",
                str(steps), "--eval-every", "0", "--log-every", str(steps),
                "--peak-gflops", "100", "--out", out]  # fmt: skip

    def start(self, job, options, *words):
        """The ranks of a job, by scripts/start-ranks.py; ends the benchmark if they
        fail."""
        result = subprocess.run(
            [sys.executable, ROOT + "/scripts/start-ranks.py", self.path(job), *options,
             "--", *map(str, words)],
            capture_output=True, text=True,
        )  # fmt: skip
        if result.returncode == CANNOT:
            print(result.stderr.strip())
            sys.exit(CANNOT)
        if result.returncode:
            sys.exit(f"error: {job}: {result.stdout}{result.stderr}")

    def read_steps(self, out, batch):
        """Seconds of the steps of a run, of so many samples each."""
        return [batch * self.tokens / rate for rate in read_rates(out, WARMUP_STEPS)]

    def get_types(self):
        if self.arguments.types:
            return self.arguments.types.split(",")
        self.poplar("cluster", "detect", "-o", self.path("machine.json"))
        with open(self.path("machine.json")) as file:
            known = json.load(file)["device_types"]
        return [name for name in TYPES if name in known]

    def make_model(self):
        if os.path.exists(self.path("model.mlir")):
            return
        with open(self.arguments.config) as file:
            config = json.load(file)
        # Wide enough that a step is some tenths of a second.
        width = self.arguments.width
        config.update(hidden_size=width, intermediate_size=11 * width // 4)
        if self.arguments.layers:
            config.update(num_hidden_layers=self.arguments.layers)
        with open(self.path("config.json"), "w") as file:
            json.dump(config, file)
        self.poplar("import", self.path("config.json"), "--seq-len",
                    self.arguments.seq_len, "-o", self.path("model.mlir"))  # fmt: skip

    @staticmethod
    def describe_types(pair):
        return {
            t: {"target": "host:" + t, "memory": "4GiB", "threads": 1} for t in pair
        }

    def profile(self, pair, cluster, stage="all", under=()):
        """Each type by itself, while the other core is busy; or under a command
        that gives it its share of a core."""
        for device_type in pair:
            path = self.path("profiles", device_type + ".json")
            if os.path.exists(path):
                continue
            print(f"profiling {device_type}", flush=True)
            load = [] if under else ["--loaded"]
            run(
                *under, self.arguments.poplar, "profile", "--model",
                self.path("model.mlir"), "--cluster", cluster, "--device-type",
                device_type, "--zero", str(stage), *load, "--max-batch",
                str(self.arguments.max_batch), "-o", path,
            )  # fmt: skip

    def profiles_of(self, pair):
        """A directory with the profiles of two types only: a cluster of the two
        does not know the others."""
        directory = self.path("profiles-" + "-".join(pair))
        os.makedirs(directory, exist_ok=True)
        for name in pair:
            shutil.copy(self.path("profiles", name + ".json"), directory)
        return directory
