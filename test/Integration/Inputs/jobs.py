# ===- jobs.py - Plans, builds and runs of jobs for tests ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the tests of jobs share: plans written by hand, their executables, runs
of them, and comparisons with a run on one device. Standard library only."""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

SOURCES = os.path.normpath(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
)
CORPUS = os.path.join(SOURCES, "examples", "data", "corpus.txt")
sys.path.insert(0, os.path.join(SOURCES, "scripts", "goldens"))

from check_goldens import difference, norm, without_key_bias  # noqa: E402
import safetensors_reader  # noqa: E402

MODELS = ("llama", "gpt2", "bert")
SEQ_LEN = 32
LOSS_TOLERANCE = 1e-5
UPDATE_TOLERANCE = 1e-3
# Seconds of a command, and until all ranks of a job are there: other tests may
# keep the machine busy.
TIMEOUT, START_SECONDS = 600, 120


# Ascending, as POPLAR_MAX_ISA names them, and what Linux calls their features.
LEVELS = {"sse41": "sse4_1", "avx2": "avx2", "avx512": "avx512", "amx": "amx"}


def cpu_has(feature):
    """Whether the processor has it and POPLAR_MAX_ISA does not hide it."""
    most = os.environ.get("POPLAR_MAX_ISA") or "amx"
    hidden = list(LEVELS.values())[list(LEVELS).index(most) + 1 :]
    if feature.startswith(tuple(hidden)):
        return False
    with open("/proc/cpuinfo") as file:
        return feature in file.read()


def best_f32_target():
    """The widest vectors that this machine has."""
    for feature, target in (("avx512bw", "avx512"), ("avx2", "avx2")):
        if cpu_has(feature):
            return f"host:{target}-f32"
    return "host:sse41-f32"


@dataclass(frozen=True)
class DeviceType:
    name: str
    target: str
    precision: str = "f32"
    memory: int = 1 << 32
    recompute: str = "keep"

    def text(self):
        threads = " threads 1" if self.target.startswith("host") else ""
        return (
            f'cluster.device_type @{self.name} target "{self.target}" '
            f"memory {self.memory} precision {self.precision}{threads} "
            f'recompute "{self.recompute}"'
        )


@dataclass(frozen=True)
class Rank:
    """`steps` micro-steps of `micro_batch` samples, but `last` in the last."""

    micro_batch: int
    steps: int
    last: int
    state: float = 1.0
    type: str = "device"
    group: int = 0
    # In a plan of schedule "custom": (turn, chunk) in order.
    turns: tuple = ()
    node: str = "localhost"

    @property
    def samples(self):
        return (self.steps - 1) * self.micro_batch + self.last

    def text(self):
        turns = ""
        if self.turns:
            numbers, chunks = map(list, zip(*self.turns))
            turns = f" turns {numbers} chunks {chunks}"
        return (
            f'zero.rank @{self.type} node "{self.node}" group {self.group} '
            f"micro_batch {self.micro_batch} steps {self.steps} "
            f"last {self.last} threads 1 state {self.state:.1f}{turns}"
        )


@dataclass(frozen=True)
class Plan:
    model: str
    stage: int
    ranks: tuple
    types: tuple = (DeviceType("device", best_f32_target()),)
    # Of a pipeline: of its groups, the first unit and the end of each chunk, the
    # stage of ZeRO and, where ranks share units, how much of each they compute, and,
    # where not all pipelines do, how many ranks each has.
    groups: tuple = ()
    schedule: str = ""
    # What collectives carry, and shard groups: "gradient_wire i8 parameter_wire
    # bf16", "replicas 2".
    wires: str = ""
    # Of all links, in bytes a second.
    bandwidth: str = "1.0e+09"

    @property
    def samples(self):
        ranks = [rank for rank in self.ranks if rank.group == 0]
        shares = self.groups[0][2:] if self.groups else ()
        if len(shares) > 1:
            firsts = itertools.accumulate(shares[1][:-1], initial=0)
        else:
            firsts = range(0, len(ranks), len(shares[0]) if shares else 1)
        return sum(ranks[first].samples for first in firsts)

    def text(self):
        schedule = f'schedule "{self.schedule}" ' if self.schedule else ""
        used = {rank.type for rank in self.ranks}
        devices = {}
        for rank in self.ranks:
            devices.setdefault(rank.node, []).append(f"@{rank.type}")
        return "\n".join(
            [t.text() for t in self.types if t.name in used]
            + [
                f"cluster.node @{node} devices [{', '.join(types)}]"
                for node, types in devices.items()
            ]
            + [
                f"cluster.link {where} nodes latency 0.0 bandwidth {self.bandwidth}"
                for where in ("inside", "between")[: len(devices)]
            ]
            + [
                f"zero.plan stage {self.stage} global_batch {self.samples} "
                f'policy "exact" {schedule}{self.wires} {{'
            ]
            + [
                f"zero.group units {list(units)} stage {stage}"
                + "".join(f" tensor {list(d)}" for d in shares[1:])
                + "".join(f" tensor {len(p)}" for p in shares if len(shares) == 1)
                + "".join(f" parts {list(p)}" for p in shares[:1])
                for units, stage, *shares in self.groups
            ]
            + [rank.text() for rank in self.ranks]
            + ["}"]
        )


def plan_shared(model, pipelines, groups, samples, types, bandwidth=Plan.bandwidth):
    """Pipelines whose ranks share units. A group is (end, stage of ZeRO, ((type,
    part), ...), types of the last pipelines, which compute whole units). Each pipeline
    has its part of the samples, in three micro-steps, the last of them smaller."""
    own = samples // pipelines
    size = own // 3 + 1
    ranks, described, begin = [], [], 0
    for index, (end, stage, sharers, *rest) in enumerate(groups):
        beside = rest[0] if rest else ()
        sharing = pipelines - len(beside)
        shares = [tuple(part for _, part in sharers)] if len(sharers) > 1 else []
        if beside:
            shares.append((len(sharers),) * sharing + (1,) * len(beside))
        described.append(((begin, end), stage, *shares))
        begin = end
        ranks += [
            Rank(size, 3, own - 2 * size, type=type, group=index)
            for type in [type for type, _ in sharers] * sharing + list(beside)
        ]
    stage = max(stage for _, stage, *_ in groups)
    schedule = "1f1b" if len(groups) > 1 else ""
    return Plan(
        model, stage, tuple(ranks), types, tuple(described), schedule, "", bandwidth
    )


def plan_six(model, stage, schedule, groups, types, known):
    """A job of six samples. With groups (units, stage of ZeRO, and, where ranks share
    units, how much of each they compute): two micro-steps of three, on devices of these
    types. Without: four samples and two, in two micro-steps each."""
    shares = any(len(group) > 2 for group in groups)
    if groups:
        ranks = [
            Rank(3, 2, 3, type=type, group=0 if shares else index)
            for index, type in enumerate(types)
        ]
    else:
        ranks = [Rank(2, 2, 2, type=types[0]), Rank(1, 2, 1, type=types[1])]
    return Plan(model, stage, tuple(ranks), known, groups, schedule)


def add_plan(module, plan):
    """The text of a module with a plan."""
    return f"{module.rstrip().removesuffix('}')}\n{plan.text()}\n}}\n"


class JobError(Exception):
    """A command failed, or what it printed or wrote is not what it should."""


def execute(command):
    """Exit status and output of a command, which must not hang."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"POPLAR_START_SECONDS": str(START_SECONDS), **os.environ},
    ) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise JobError(f"{' '.join(command)}\n  hangs\n{output}") from None
    return process.returncode, output


def run(command):
    """The output of a command, which has to succeed."""
    status, output = execute(command)
    if status != 0:
        raise JobError(f"{' '.join(command)}\n  exit status {status}\n{output}")
    return output


class Run:
    """A directory that poplar train wrote."""

    def __init__(self, directory, output=""):
        self.directory, self.output = directory, output

    def column(self, name):
        with open(os.path.join(self.directory, "metrics.csv")) as file:
            return [float(row[name] or "nan") for row in csv.DictReader(file)]

    @property
    def losses(self):
        return self.column("loss")

    @property
    def validation_losses(self):
        """Of the steps after which there was a validation."""
        return [loss for loss in self.column("val_loss") if not math.isnan(loss)]

    @property
    def norms(self):
        return self.column("grad_norm")

    def checkpoint(self, step, file):
        """The bytes of a file of a checkpoint."""
        path = os.path.join(self.directory, f"checkpoint-{step}", file)
        with open(path, "rb") as stream:
            return stream.read()

    def tensors(self, file=None):
        """{name: (shape, values)} of the latest checkpoint: the weights, or those that
        are trained beside frozen ones."""
        latest = os.path.join(self.directory, "latest")
        for known in ("model.safetensors", "adapter_model.safetensors", "trained.safetensors"):
            if file is None and os.path.exists(os.path.join(latest, known)):
                file = known
        return safetensors_reader.read(os.path.join(latest, file))[0]


class Workshop:
    """Builds jobs in a directory, each once. Safe to use from threads."""

    def __init__(self, directory, import_options=()):
        self.directory, self.import_options = directory, list(import_options)
        self.locks, self.lock = {}, threading.Lock()
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def once(self, target, make):
        """Calls make(target) if no one has yet."""
        with self.lock:
            lock = self.locks.setdefault(target, threading.Lock())
        with lock:
            if not os.path.exists(target):
                make(target)
        return target

    def model(self, name):
        """One of MODELS, or one with as many blocks: "llama-6"; of a vocabulary:
        "llama@257"; or one whose logits are made in chunks of so many bytes a
        sample: "llama:8192"."""

        def make(target):
            base, _, chunk_bytes = name.partition(":")
            if chunk_bytes:
                text = pathlib.Path(self.model(base)).read_text()
                mark = f"{{nn.chunk_bytes = {chunk_bytes} : i64, nn.unit}}"
                head, loss = text.split("@loss(", 1)
                pathlib.Path(target).write_text(
                    head + "@loss(" + loss.replace("{nn.unit}", mark, 1)
                )
                return
            family, _, vocabulary = name.partition("@")
            family, _, blocks = family.partition("-")
            config = os.path.join(SOURCES, "examples", "models", f"tiny-{family}.json")
            if blocks or vocabulary:
                with open(config) as file:
                    options = json.load(file)
                layers = "n_layer" if family == "gpt2" else "num_hidden_layers"
                for key, wanted in (layers, blocks), ("vocab_size", vocabulary):
                    assert key in options
                    options[key] = int(wanted or options[key])
                config = self.path(f"{name}.json")
                with open(config, "w") as file:
                    json.dump(options, file)
            command = ["poplar", "import", config, "--seq-len", str(SEQ_LEN)]
            run([*command, *self.import_options, "-o", target])

        return self.once(self.path(f"{name}.mlir"), make)

    def buckets(self, name):
        """A model whose units are buckets of their own, however small."""

        def make(target):
            command = ["poplar-opt", "--zero-form-buckets=min-bytes=0"]
            run([*command, self.model(name), "-o", target])

        return self.once(self.path(f"{name}-buckets.mlir"), make)

    def planned(self, plan, name):
        """The module of a plan."""
        with open(self.buckets(plan.model)) as file:
            module = file.read()
        path = self.path(f"{name}.mlir")
        with open(path, "w") as file:
            file.write(add_plan(module, plan))
        return path

    def build(self, plan, name):
        """The directory of a job, with what poplar build printed in build.log."""

        def make(target):
            command = ["poplar", "build", self.planned(plan, name), "-o", target]
            # An emulated GPU compiles every kernel.
            used = {rank.type for rank in plan.ranks}
            if any(t.name in used and t.target.startswith("cuda:") for t in plan.types):
                command.append("--no-kv-cache")
            log = run(command)
            with open(os.path.join(target, "build.log"), "w") as file:
                file.write(log)

        return self.once(self.path(name), make)

    def alone(self, model):
        """The model's program for the machine at hand, alone."""

        def make(target):
            run(["poplar", "build", self.model(model), "--threads", "1", "-o", target])

        return self.once(self.path(f"{model}-alone"), make)

    def train(self, program, name, options=(), resume=False):
        """Trains for as long as the options say, on the examples' text unless
        they name other data."""
        out = self.path(name)
        if not resume:
            shutil.rmtree(out, ignore_errors=True)
        options = list(map(str, options))
        if not {"--data", "--data-ids"} & set(options):
            options += ["--data", CORPUS]
            # The vocabulary of tiny-bert has room for more than bytes.
            options += ["--data-format", "bytes"]
        command = ["poplar", "train", program, "--out", out, *options]
        command += ["--peak-gflops", "1", "--log-every", "1000"]
        if "--eval-every" not in options:
            command += ["--eval-every", "0"]
        return Run(out, run(command + ["--resume"] * resume))

    def train_alone(self, model, name, samples, options=()):
        """The same on one device, whole batches at once."""
        options = [*options, "--global-batch", samples, "--batch", samples]
        return self.train(self.alone(model), name, [*options, "--threads", 1])

    def initial_weights(self, model):
        still = ["--steps", 1, "--lr", 0, "--min-lr", 0, "--weight-decay", 0]
        return self.train_alone(model, f"{model}-initial", 1, still).tensors()


def printed_peaks(job):
    """The peak of each rank, in bytes, as poplar build printed it."""
    with open(os.path.join(job, "build.log")) as file:
        peaks = re.findall(r"^rank (\d+) .* \((\d+) bytes\)", file.read(), re.MULTILINE)
    return {int(rank): int(peak) for rank, peak in peaks}


def allocated_peaks(table):
    """The same as ranks have reported with --report-memory."""
    with open(table) as file:
        return {int(row["rank"]): int(row["peak"]) for row in csv.DictReader(file)}


def compare_losses(run, reference, tolerance=LOSS_TOLERANCE, last=None):
    """The largest relative difference of the losses up to step `last`, and what
    is wrong with it, if anything."""
    ours, theirs = run.losses, reference.losses
    if len(ours) != len(theirs) or not ours:
        return 0.0, [f"has {len(ours)} losses, expected {len(theirs)}"]
    ours, theirs = ours[:last], theirs[:last]
    # A step without targets has no loss, and has to have none in both.
    errors = [
        0.0 if math.isnan(x) and math.isnan(y) else abs(x - y) / abs(y)
        for x, y in zip(ours, theirs)
    ]
    worst = max(range(len(errors)), key=lambda step: errors[step])
    # Written so that a NaN fails.
    if all(error <= tolerance for error in errors):
        return errors[worst], []
    return errors[worst], [
        f"loss of step {worst + 1} is {ours[worst]:.9g}, "
        f"expected {theirs[worst]:.9g} within {tolerance:g}"
    ]


def compare_updates(run, reference, initial, tolerance=UPDATE_TOLERANCE):
    """The largest relative 2-norm of a difference of what training added to a
    tensor, and what is wrong. Biases of keys are left out: see
    check_goldens.py."""
    worst, failures = 0.0, []
    ours, theirs = run.tensors(), reference.tensors()
    if set(ours) != set(theirs):
        return worst, ["has other tensors"]
    for name, (shape, values) in sorted(theirs.items()):
        if ours[name][0] != shape:
            failures.append(f"{name} is {ours[name][0]}, expected {shape}")
            continue
        start = initial[name][1]
        expected = without_key_bias(name, difference(values, start))
        update = without_key_bias(name, difference(ours[name][1], start))
        size, error = norm(expected), norm(difference(update, expected))
        worst = max(worst, error / size if size else 0.0)
        if not error <= tolerance * size:
            failures.append(f"update of {name}: off by {error:.3g} of {size:.3g}")
    return worst, failures


def compare_validations(run, reference, count):
    """What is wrong with the validation losses of a run, of which there are `count`."""
    expected, found = reference.validation_losses, run.validation_losses
    failures = []
    if len(expected) != count or len(found) != count:
        failures.append(f"validates {len(found)} times, not {len(expected)}")
    for x, y in zip(found, expected):
        if not abs(x - y) <= LOSS_TOLERANCE * abs(y):
            failures.append(f"validation loss is {x:.9g}, expected {y:.9g}")
    return failures


def compare_runs(run, reference, initial, clip):
    """What compare_losses and compare_updates find, and that every gradient was
    clipped: losses, updates, what is wrong."""
    loss, failures = compare_losses(run, reference)
    update, more = compare_updates(run, reference, initial)
    if not min(run.norms) > clip:
        more.append(f"a gradient of norm {min(run.norms):g} is not clipped")
    return loss, update, failures + more


def follow(workshop, report, name, plan, options, tolerance=LOSS_TOLERANCE):
    """Checks that a job trains as one device does; updates only at the tolerance of
    equal formats."""
    reference = workshop.train_alone(plan.model, f"{name}-alone", plan.samples, options)
    initial = workshop.initial_weights(plan.model)
    try:
        run = workshop.train(workshop.build(plan, name), f"{name}-run", options)
    except JobError as error:
        return report.check(name, [str(error)])
    loss, failures = compare_losses(run, reference, tolerance)
    text = f"losses {loss:.1e}"
    if tolerance == LOSS_TOLERANCE:
        update, more = compare_updates(run, reference, initial)
        failures, text = failures + more, f"{text}, updates {update:.1e}"
    return report.check(name, failures, text)


def parse_arguments(description, add=lambda parser: None, steps=None):
    """`steps` is the default of --steps, which only some tests have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", help="for builds and runs; is emptied")
    if steps:
        parser.add_argument("--steps", type=int, default=steps, help=f"default: {steps}")
    add(parser)
    return parser.parse_args()


class Report:
    """Collects what failed and ends the test."""

    def __init__(self):
        self.checks, self.failures = 0, 0
        self.lock = threading.Lock()

    def check(self, name, failures, note=""):
        """One check: prints it, and each of its failures."""
        with self.lock:
            self.checks += 1
            self.failures += bool(failures)
            print(f"{'FAILED' if failures else 'ok':<7}{name}  {note}".rstrip())
            for failure in failures:
                print(f"       error: {name}: {failure}")
            sys.stdout.flush()

    def finish(self):
        print(f"{self.checks - self.failures} of {self.checks} checks passed")
        sys.exit(1 if self.failures or not self.checks else 0)
