# ===- check_cuda.py - The checks of check-cuda.sh --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs what a bundle holds (bundle-cuda.py) on the GPU at hand:

  kernels      every kernel, on recorded data, against what the host computed
  products     matrix products by cuBLASLt, likewise
  conformance  the communicators; NCCL among two GPUs, and where there is but one,
               alone on it
  training     losses of small models against those of a run on the host:
               1e-5 in f32, 1 % in bf16 and f16
  memory       what was allocated is what the plan says, to the byte; the GPU's
               memory in use meanwhile is no more than --overhead above it
  unlike pair  two ranks on this GPU with 3/4 and 1/4 of its processors (MPS),
               batches by Poplar's planner and uniform ones, against the sum of
               what the two do alone
  benchmarks   tokens/s, part of the rated FLOP/s, ratio to PyTorch

Standard library only; PyTorch is compared with where it is."""

import argparse
import contextlib
import csv
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import cuda_libraries

MPS_SHARES = (75, 25)
WARMUP_STEPS = 3
# Of the sum of what two ranks do alone.
PAIR_GOAL = 0.95


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def run(command, environment=None, timeout=3600):
    """The output of a command, which has to succeed."""
    result = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        env={**os.environ, **(environment or {})},
    )
    if result.returncode:
        lines = result.stdout.strip().splitlines() or ["(it said nothing)"]
        raise Failure(f"{os.path.basename(str(command[0]))}: {lines[-1]}")
    return result.stdout


def column(directory, name):
    with open(os.path.join(directory, "metrics.csv")) as file:
        return [float(row[name] or "nan") for row in csv.DictReader(file)]


def largest_difference(ours, theirs):
    """Relative; infinite where there are not as many."""
    if len(ours) != len(theirs) or not ours:
        return float("inf")
    # Written so that a NaN stays.
    worst = 0.0
    for x, y in zip(ours, theirs):
        error = abs(x - y) / abs(y)
        worst = worst if error <= worst else error
    return worst


def query_gpu(*fields):
    """What nvidia-smi says of the first GPU; empty where it says nothing."""
    visible = os.environ.get("POPLAR_CUDA_DEVICE", "0")
    try:
        text = run(
            ["nvidia-smi", "-i", visible, "--query-gpu=" + ",".join(fields),
             "--format=csv,noheader,nounits"], timeout=60,
        )  # fmt: skip
    except (OSError, Failure, subprocess.TimeoutExpired):
        return []
    return [word.strip() for word in text.strip().split(",")]


class MemoryWatch:
    """The most memory of the GPU in use while it lasts, beyond what was."""

    def __enter__(self):
        self.before, self.most, self.stop = self.used(), None, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        if self.before is not None:
            self.thread.start()
        return self

    def used(self):
        words = query_gpu("memory.used")
        return int(words[0]) << 20 if words and words[0].isdigit() else None

    def watch(self):
        while not self.stop.wait(0.05):
            now = self.used()
            if now is not None:
                self.most = max(self.most or 0, now - self.before)

    def __exit__(self, *ignored):
        self.stop.set()
        if self.before is not None:
            self.thread.join()


class Bundle:
    def __init__(self, directory, arguments):
        self.directory, self.arguments = os.path.abspath(directory), arguments
        with open(self.path("bundle.json")) as file:
            self.contents = json.load(file)
        self.emulated = arguments.emulated is not None
        libraries = [self.path("lib"), os.environ.get("LD_LIBRARY_PATH")]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
        os.environ["POPLAR_TCP_PLUGIN"] = self.path("lib", "libpoplar_tcp.so")
        if self.emulated:
            os.environ["POPLAR_CUDA_PATH"] = os.path.abspath(arguments.emulated)
            os.environ.setdefault("POPLAR_EMULATED_GPUS", "sm_90")
            cache = os.path.join(arguments.work, "emulated")
            os.environ.setdefault("POPLAR_EMULATED_CACHE", cache)
        else:
            path = ":".join(cuda_libraries.find_directories())
            os.environ["POPLAR_CUDA_PATH"] = path
        self.gpus = self.find_gpus()
        number = int(os.environ.setdefault("POPLAR_CUDA_DEVICE", "0"))
        if number >= len(self.gpus):
            raise Failure(f"POPLAR_CUDA_DEVICE is {number}: there are {len(self.gpus)} GPUs")
        self.gpu = self.gpus[number]

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def work(self, *parts):
        return os.path.join(self.arguments.work, *parts)

    def find_gpus(self):
        text = run([self.path("bin", "check-kernels"), "--gpus"])
        gpus = json.loads(text)["gpus"]
        if not gpus:
            raise Failure("there is no GPU")
        return gpus

    def chip(self, chips):
        """The newest of some chips whose code the GPU runs."""
        number = lambda chip: int(chip.removeprefix("sm_"))
        fitting = [c for c in chips if number(c) <= self.gpu["capability"]]
        if not fitting:
            raise Skip(f"the bundle has code for {', '.join(chips) or 'no chip'} only")
        return max(fitting, key=number)

    def programs(self, kind):
        """Of each name, the one for the GPU at hand."""
        names = {}
        for program in self.contents["programs"]:
            if program["kind"] == kind:
                names.setdefault(program["name"], {})[program["chip"]] = program
        chosen = []
        for name, by_chip in names.items():
            try:
                chosen.append(by_chip[self.chip(by_chip)])
            except Skip as skip:
                chosen.append({"name": name, "skip": str(skip)})
        return chosen

    def executable(self, program):
        return self.path(program["path"], "gpu", "train")

    def train(self, program, name, options, environment=None):
        """Trains on the bundle's text; returns the directory of the run."""
        out = self.work(name)
        shutil.rmtree(out, ignore_errors=True)
        command = [self.executable(program), "train", "--data-format", "bytes", "--data"]
        command += [self.path("corpus.txt"), "--out", out, *options]
        run(command + ["--eval-every", 0, "--log-every", 1000], environment)
        return out


# ===-----------------------------------------------------------------------===#
# The rows of the table: each yields (name, what came out), or raises.
# ===-----------------------------------------------------------------------===#


def check_kernels(bundle, products):
    for family in bundle.contents["kernels"]:
        sets = [s for s in family["sets"] if (s == "products") == products]
        try:
            chip = bundle.chip(family["chips"])
        except Skip:
            continue
        # One family fits a GPU best: the one with the newest chip.
        best = bundle.chip([c for f in bundle.contents["kernels"] for c in f["chips"]])
        if chip != best:
            continue
        for name in sets:
            command = [bundle.path("bin", "check-kernels"), "--chip", chip]
            row = f"products, {chip}" if products else f"kernels {name}, {chip}"
            yield row, lambda command=command, name=name, family=family: (
                run([*command, bundle.path("kernels", family["name"], name)])
                .strip()
                .splitlines()[-1]
                .split(": ", 1)[1]
            )


def check_conformance(bundle):
    suite = bundle.path("bin", "PoplarCommConformance")

    def by_tcp(ranks, *options):
        start = [sys.executable, bundle.path("start-ranks.py"), "--ranks", ranks, "--"]
        return [*start, suite, "--backend", "tcp", "--ranks", ranks, *options]

    cases = {
        "threads, 3 ranks": [suite, "--backend", "threads", "--ranks", 3],
        "tcp, 2 ranks": by_tcp(2),
    }
    # With two GPUs, one island. The second time, GPUs order the collectives.
    for ranks, islands in ((1, "0"), (2, "0,0")):
        nccl = by_tcp(ranks, "--islands", islands, "--or-skip", 1)
        cases[f"NCCL, {ranks} rank{'s' * (ranks > 1)}"] = nccl
        cases[f"NCCL by events, {ranks} rank{'s' * (ranks > 1)}"] = [
            *nccl, "--ordered", 1, "--gtest_filter=DeviceOrdered.*"
        ]  # fmt: skip
    for name, command in cases.items():

        def check(command=command):
            output = run(command)
            skipped = re.search(r"^skipped: (.*)", output, re.MULTILINE)
            if skipped:
                raise Skip(skipped[1])
            passed = re.search(r"\[  PASSED  \] (\d+ tests?)", output)
            if not passed:
                raise Failure("no test has passed")
            return passed[1] + " passed"

        yield "conformance " + name, check


def check_training(bundle):
    for program in bundle.programs("training"):

        def check(program=program):
            if "skip" in program:
                raise Skip(program["skip"])
            out = bundle.train(
                program, "training", [*program["options"], "--peak-gflops", 1]
            )
            error = largest_difference(column(out, "loss"), program["losses"])
            text = f"losses within {error:.1e} of the host's, {program['tolerance']:g} allowed"
            if not error <= program["tolerance"]:
                raise Failure(text)
            return text

        yield f"training {program['name']}, {program.get('chip', '')}", check


def check_memory(bundle):
    for program in bundle.programs("benchmark") or bundle.programs("training"):

        def check(program=program):
            require_room(bundle, program)
            report = bundle.work("memory.csv")
            options = ["--steps", 2, "--peak-gflops", 1, "--skip-save"]
            with MemoryWatch() as watch:
                bundle.train(program, "memory", [*options, "--report-memory", report])
            with open(report) as file:
                row = next(csv.DictReader(file))
            arena, own = int(row["arena"]), int(row["peak"]) - int(row["arena"])
            if arena != program["bytes"]:
                raise Failure(f"the arena has {arena} bytes, planned were {program['bytes']}")
            text = f"arena {arena} bytes as planned, {own} of the runtime's own"
            if watch.most is None:
                return text + "; process total: skipped, nvidia-smi does not tell"
            beyond = watch.most - arena - own
            text += f", {beyond / 2**20:.0f} MiB for context and libraries"
            if beyond > bundle.arguments.overhead * 2**20:
                raise Failure(f"{text}; at most {bundle.arguments.overhead} are allowed")
            return text

        yield f"memory {program['name']}", check


def require_room(bundle, program):
    if "skip" in program:
        raise Skip(program["skip"])
    words = query_gpu("memory.total")
    if words and words[0].isdigit():
        total = int(words[0]) << 20
        if program["bytes"] + (bundle.arguments.overhead << 20) > total:
            raise Skip(f"needs {program['bytes'] / 2**30:.1f} GiB of the GPU")


@contextlib.contextmanager
def mps(bundle):
    """NVIDIA's multi-process service, with a control daemon of our own. Yields
    the environment of its clients."""
    directory = bundle.work("mps")
    os.makedirs(directory, exist_ok=True)
    environment = {
        "CUDA_MPS_PIPE_DIRECTORY": directory,
        "CUDA_MPS_LOG_DIRECTORY": directory,
    }
    try:
        run(["nvidia-cuda-mps-control", "-d"], environment, timeout=60)
    except (OSError, Failure, subprocess.TimeoutExpired) as error:
        raise Skip(f"MPS cannot be started: {error}") from None
    try:
        yield environment
    finally:
        subprocess.run(
            ["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=60,
            env={**os.environ, **environment}, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def start_pair(commands, environments):
    """Starts a command per rank; returns what rank 0 said."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = []
    for rank, (command, environment) in enumerate(zip(commands, environments)):
        place = {"RANK": str(rank), "WORLD_SIZE": str(len(commands))}
        place.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        ranks.append(
            subprocess.Popen(
                [str(word) for word in command], text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment, **place},
            )  # fmt: skip
        )
    outputs = [process.communicate(timeout=3600)[0] for process in ranks]
    for process, output in zip(ranks, outputs):
        if process.returncode:
            raise Failure(output.strip().splitlines()[-1] if output.strip() else "a rank failed")
    return outputs[0]


class Pair:
    """Two ranks of one model on one GPU."""

    def __init__(self, bundle, program, environments):
        self.bundle, self.program = bundle, program
        self.environments, self.runs = environments, 0
        self.alone = {**program, "path": program["alone"]}

    def profile(self, rank):
        """{micro-batch: seconds} of a rank's share of the GPU, others idle."""
        out = self.bundle.work(f"profile{rank}.json")
        run(
            [self.bundle.executable(self.alone), "profile", "--out", out,
             "--max-batch", self.program["max_batch"]], self.environments[rank],
        )  # fmt: skip
        with open(out) as file:
            profile = json.load(file)["profiles"][0]
        return dict(zip(profile["micro_batches"], profile["seconds"]))

    def split(self, policy, curves):
        text = [",".join(f"{b}={s:.9g}" for b, s in c.items()) for c in curves]
        command = [self.bundle.path("bin", "split-batch"), policy]
        lines = run([*command, self.program["global_batch"], *text]).splitlines()
        return [tuple(map(int, line.split())) for line in lines]

    def speed_alone(self, rank):
        """Tokens per second of whole iterations by one rank, the other idle."""
        out = self.bundle.train(
            self.alone, f"alone{rank}",
            ["--steps", WARMUP_STEPS + 5, "--skip-save", "--peak-gflops", 1],
            self.environments[rank],
        )  # fmt: skip
        return statistics.median(column(out, "tokens_per_s")[WARMUP_STEPS:])

    def train(self, shares, steps):
        """The directory of a run with these batches."""
        self.runs += 1
        ranks, out = self.bundle.work(f"ranks{self.runs}.txt"), self.bundle.work(f"pair{self.runs}")
        shutil.rmtree(out, ignore_errors=True)
        with open(ranks, "w") as file:
            for rank, (micro, count, last) in enumerate(shares):
                file.write(f"{rank} localhost gpu 1 {micro} {count} {last}\n")
        command = [
            self.bundle.executable(self.program), "train", "--data-format", "bytes", "--data",
            self.bundle.path("corpus.txt"), "--ranks", ranks, "--out", out,
            "--steps", steps, "--peak-gflops", 1, "--skip-save",
            "--eval-every", 0, "--log-every", 1000,
        ]  # fmt: skip
        start_pair([command] * 2, self.environments)
        return out


def check_pair(bundle):
    programs = bundle.programs("pair")
    if not programs:
        return
    program = programs[0]
    tokens = program["global_batch"] * program["seq_len"]

    def same_curve():
        """The batches change nothing but the time: also in the emulation."""
        pair = Pair(bundle, program, [{}, {}])
        samples, third = program["global_batch"], program["global_batch"] // 3
        uniform = [(1, samples // 2, 1), (1, samples - samples // 2, 1)]
        uneven = [(2, third, 2), (1, samples - 2 * third, 1)]
        ours, theirs = (column(pair.train(s, 2), "loss") for s in (uneven, uniform))
        error = largest_difference(ours, theirs)
        limit = program["tolerance"]
        text = f"losses with uneven batches within {error:.1e} of those with even ones"
        if not error <= limit:
            raise Failure(f"{text}, {limit:g} allowed")
        return text

    def shares():
        if bundle.emulated:
            raise Skip("an emulated GPU has neither shares nor speeds")
        with mps(bundle) as service:
            pair = Pair(
                bundle, program,
                [{**service, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)}
                 for share in MPS_SHARES],
            )  # fmt: skip
            curves = [pair.profile(rank) for rank in range(2)]
            alone = [pair.speed_alone(rank) for rank in range(2)]
            speeds = {}
            for policy in ("exact", "uniform"):
                out = pair.train(pair.split(policy, curves), WARMUP_STEPS + 5)
                rates = column(out, "tokens_per_s")[WARMUP_STEPS:]
                speeds[policy] = statistics.median(rates)
        ideal = sum(alone)
        part = speeds["exact"] / ideal
        text = (
            f"alone {alone[0]:.0f} + {alone[1]:.0f} tokens/s; Poplar's plan "
            f"{speeds['exact']:.0f}, {part:.3f} of their sum; uniform "
            f"{speeds['uniform']:.0f}; {speeds['exact'] / speeds['uniform']:.2f} x "
            f"uniform ({tokens} tokens a step)"
        )
        if part < PAIR_GOAL:
            raise Failure(f"{text}; {PAIR_GOAL} is the goal")
        return text

    if "skip" in program:
        yield "unlike pair", lambda: (_ for _ in ()).throw(Skip(program["skip"]))
        return
    yield "two ranks, one GPU", same_curve
    yield f"unlike pair, {MPS_SHARES[0]} : {MPS_SHARES[1]}", shares


def rated_flops(bundle, precision):
    """FLOP/s of the GPU by its maker's data sheet, if it is in the library."""
    name = bundle.gpu["name"].lower()
    for keys, rates in bundle.contents["rated_flops"]:
        if all(key in name for key in keys):
            return rates.get(precision)
    return None


def pytorch_speed(bundle, program):
    """Tokens per second by PyTorch, or why there are none."""
    try:
        text = run(
            [sys.executable, bundle.path("check_cuda_torch.py"),
             "--config", bundle.path("models", program["model"] + ".json"),
             "--batch", program["batch"], "--seq-len", program["seq_len"],
             "--precision", program["precision"]],
        )  # fmt: skip
    except Failure as failure:
        return None, str(failure)
    words = text.strip().splitlines()[-1].split(None, 1)
    return (float(words[1]), "") if words[0] == "tokens/s" else (None, text.strip())


def check_benchmarks(bundle):
    for program in bundle.programs("benchmark"):

        def measure(program=program):
            if bundle.emulated:
                raise Skip("nothing that is emulated says how fast a GPU is")
            require_room(bundle, program)
            rates = []
            for _ in range(bundle.arguments.rounds):
                out = bundle.train(
                    program, "benchmark",
                    ["--steps", WARMUP_STEPS + 10, "--skip-save", "--peak-gflops", 1],
                )  # fmt: skip
                rates += column(out, "tokens_per_s")[WARMUP_STEPS:]
            rate = statistics.median(rates)
            text = f"{rate:.0f} tokens/s"
            peak = rated_flops(bundle, program["precision"])
            if peak:
                flops = rate * program["flops_per_sample"] / program["seq_len"]
                text += f", {100 * flops / peak:.1f} % of {peak / 1e12:.0f} TFLOP/s"
            else:
                text += ", rated FLOP/s not known"
            other, why = pytorch_speed(bundle, program)
            if other is None:
                return f"{text}; PyTorch: skipped, {why}"
            text += f"; PyTorch {other:.0f}, {rate / other:.2f} x"
            return text

        name = f"benchmark {program['name']}, {program.get('precision', '')}"
        yield name, measure


CHECKS = {
    "kernels": lambda bundle: check_kernels(bundle, False),
    "products": lambda bundle: check_kernels(bundle, True),
    "conformance": check_conformance,
    "training": check_training,
    "memory": check_memory,
    "pair": check_pair,
    "benchmarks": check_benchmarks,
}


def print_row(state, seconds, name, text):
    print(f"| {state:<7} | {seconds:6.1f} s | {name} | {text} |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle")
    parser.add_argument("--emulated", metavar="DIR", help="with an emulated driver")
    parser.add_argument("--only", help="of: " + ", ".join(CHECKS))
    parser.add_argument("--keep", metavar="DIR", help="what the runs leave behind")
    parser.add_argument("--rounds", type=int, default=3, help="of each benchmark")
    parser.add_argument(
        "--overhead", type=int, default=1024,
        help="MiB of the GPU that context and libraries may take beside the plan",
    )  # fmt: skip
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else list(CHECKS)
    if set(wanted) - set(CHECKS):
        parser.error("--only: there are " + ", ".join(CHECKS))
    with tempfile.TemporaryDirectory(prefix="poplar-check-") as temporary:
        arguments.work = arguments.keep or temporary
        os.makedirs(arguments.work, exist_ok=True)
        try:
            bundle = Bundle(arguments.bundle, arguments)
        except (Failure, ValueError) as failure:
            sys.exit(f"check-cuda: error: {failure}")
        what = "emulated, nothing ran on a GPU" if bundle.emulated else "a GPU"
        driver = query_gpu("driver_version") or ["?"]
        print(
            f"{bundle.gpu['name']} (sm_{bundle.gpu['capability']}), {what}; CUDA of the "
            f"driver {bundle.gpu['cuda']}, driver {driver[0]}; bundle of {bundle.contents['made_of']}\n"
        )
        print("| state   |     time | what | how |\n| --- | --- | --- | --- |")
        counts = {"ok": 0, "FAILED": 0, "skipped": 0}
        for name in wanted:
            for row, check in CHECKS[name](bundle):
                begin = time.monotonic()
                try:
                    state, text = "ok", check()
                except Skip as skip:
                    state, text = "skipped", str(skip)
                except (Failure, OSError, subprocess.TimeoutExpired, KeyError) as failure:
                    state, text = "FAILED", str(failure)
                counts[state] += 1
                print_row(state, time.monotonic() - begin, row, text)
    print("\n" + ", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["FAILED"] or not counts["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
