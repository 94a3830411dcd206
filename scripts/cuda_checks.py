# ===- cuda_checks.py - The rows of check_cuda.py's table -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Each section of the table is a generator of rows: (name, least seconds that
the row needs, function). The function returns what came out, or raises Failure
or Skip. Standard library only."""

import csv
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading

import cuda_libraries
import safetensors_reader
from gpu_peaks import peak_flops

WARMUP_STEPS = 3
# How far the norm of a gradient may be from the recorded one.
GRADIENT_TOLERANCE = {"f32": 1e-4, "bf16": 0.05, "f16": 0.05}
# Processes that a set of kernels is given after errors of the GPU.
MOST_RESTARTS = 10


class Failure(Exception):
    pass


class Skip(Exception):
    pass


class Runner:
    """Runs commands, none longer than what is left of the deadline, and keeps
    all that they say in one file."""

    def __init__(self, clock, log):
        self.clock, self.log = clock, log
        # As it was given to us: for programs that are not the bundle's.
        self.outside = dict(os.environ)

    def execute(self, command, environment=None, own=True, limit=None, late=False):
        """(exit status, output). `own`: a program of the bundle; `late`: run it
        for `limit` seconds whatever the deadline is."""
        command = [str(word) for word in command]
        self.log.write(f"$ {' '.join(command)}\n")
        self.log.flush()
        left = self.clock.left() - 1
        limit = limit if late else min(limit or left, left)
        if limit <= 0:
            raise Failure("the deadline has come")
        try:
            result = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=limit,
                env={**(os.environ if own else self.outside), **(environment or {})},
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            self.log.write((late.stdout or b"").decode(errors="replace"))
            raise Failure(f"{os.path.basename(command[0])} did not end in {limit:.0f} s") from None
        output = result.stdout.decode(errors="replace")
        self.log.write(output + f"[exit {result.returncode}]\n\n")
        self.log.flush()
        return result.returncode, output

    def run(self, command, environment=None, own=True, limit=None, late=False):
        """The output of a command, which has to succeed."""
        status, output = self.execute(command, environment, own, limit, late)
        if status:
            raise Failure(f"{os.path.basename(str(command[0]))}: {find_reason(status, output)}")
        return output


def find_reason(status, output):
    """The line that tells why a command failed."""
    lines = output.strip().splitlines() or ["(it said nothing)"]
    errors = [line for line in lines if "error:" in line or line.startswith("FAILED")]
    reason = (errors or lines[-1:])[-1]
    return f"{reason} (signal {-status})" if status < 0 else reason


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
        text = subprocess.run(
            ["nvidia-smi", "-i", visible, "--query-gpu=" + ",".join(fields),
             "--format=csv,noheader,nounits"], capture_output=True, text=True,
            timeout=20, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
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
    def __init__(self, directory, arguments, runner):
        self.directory, self.arguments = os.path.abspath(directory), arguments
        self.runner = runner
        with open(self.path("bundle.json")) as file:
            self.contents = json.load(file)
        self.check_glibc()
        self.emulated = arguments.emulated is not None
        # What benchmarks have measured: tokens per second by program.
        self.rates = {}
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

    def check_glibc(self):
        name = os.confstr("CS_GNU_LIBC_VERSION") or "no glibc"
        here = re.search(r"glibc (\d+)\.(\d+)", name)
        needed = self.contents["glibc"]
        if not here or [int(n) for n in here.groups()] < [int(n) for n in needed.split(".")]:
            raise Failure(f"the bundle needs glibc {needed}, and this system has {name}; "
                          "make the bundle on a system as old as this one")  # fmt: skip

    def run(self, *arguments, **options):
        return self.runner.run(*arguments, **options)

    def find_gpus(self):
        text = self.run([self.path("bin", "measure-gpu"), "--gpus"], limit=60, late=True)
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

    def runs(self, program):
        """Whether the GPU at hand runs a program's code."""
        chip, capability = int(program["chip"].removeprefix("sm_")), self.gpu["capability"]
        return program.get("ptx", True) or (
            chip // 10 == capability // 10 and chip <= capability
        )

    def programs(self, kind):
        """Of each name, the one for the GPU at hand."""
        names = {}
        for program in self.contents["programs"]:
            if program["kind"] == kind and self.runs(program):
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
        self.run(command + ["--eval-every", 0, "--log-every", 1000], environment)
        return out


# ===-----------------------------------------------------------------------===#
# The sections.
# ===-----------------------------------------------------------------------===#


def check_environment(bundle):
    def libraries():
        text = bundle.run([bundle.path("bin", "measure-gpu"), "--libraries"])
        entries = json.loads(text)["libraries"]
        missing = [e["name"] for e in entries if "missing" in e]
        found = [f"{e['name']} {e['version']} ({e['path']})" for e in entries if "path" in e]
        text = "; ".join(found) + (f"; not found: {', '.join(missing)}" if missing else "")
        # NCCL and cuDNN may be missing: what needs them says so.
        if {"driver", "cublaslt"} & set(missing):
            raise Failure(text)
        return text

    def torch():
        script = "import torch; print(torch.__version__, torch.version.cuda, torch.__file__)"
        status, output = bundle.runner.execute(
            [sys.executable, "-c", script], own=False, limit=60
        )
        if status:
            raise Skip(find_reason(status, output))
        return "PyTorch %s for CUDA %s (%s)" % tuple(output.split(None, 2)[:3])

    def peaks():
        size = ["64"] if bundle.emulated else []
        text = bundle.run([bundle.path("bin", "measure-gpu"), "--peaks", *size])
        values = json.loads(text)
        bundle.measured = values
        copy = values["copy_bytes_per_s"] / 1e9
        products = []
        for name, rate in values.items():
            if name == "copy_bytes_per_s":
                continue
            rated = rated_flops(bundle, name)
            share = f" of {rated / 1e12:.0f} rated" if rated else ""
            products.append(f"{name} {rate / 1e12:.4g}{share}")
        return f"copy {copy:.4g} GB/s; products in TFLOP/s: " + ", ".join(products)

    yield "libraries", 2, libraries
    yield "PyTorch", 20, torch
    yield "peaks", 5, peaks


def check_cases(bundle, command, directory):
    """Runs all cases of a directory. An error of the GPU spoils its process: the
    next one goes on behind the case that caused it."""
    with open(os.path.join(directory, "cases.json")) as file:
        names = [case["name"] for case in json.load(file)["cases"]]
    failures, done, skipped = [], 0, 0
    # Machine code, so that none of the time is the driver's compiler's.
    chip = command[command.index("--chip") + 1]
    image = ["--cubin"] * os.path.exists(os.path.join(directory, chip + ".cubin"))
    loaded = "" if image else "no cubin in the bundle; "
    for _ in range(MOST_RESTARTS):
        status, output = bundle.runner.execute(
            [*command, *image, "--all", "--from", done, directory]
        )
        if image and "GPUs of its generation alone" in output:
            image, loaded = [], "the GPU takes no cubin; "
            continue
        if done == 0:
            loaded += "".join(re.findall(r"^image +(.*)$", output, re.MULTILINE))
        lines = re.findall(r"^(ok|FAILED|skipped)\s+(.*)$", output, re.MULTILINE)
        failures += [text for state, text in lines if state == "FAILED"]
        skipped += sum(state == "skipped" for state, _ in lines)
        done += len(lines)
        if done >= len(names):
            break
        # check-kernels names the case unless the process died.
        case, reason = names[done] + ": ", find_reason(status, output)
        failures.append(reason if case in reason else case + reason)
        done += 1
    passed = done - len(failures) - skipped
    text = f"{passed} of {len(names)} cases passed ({loaded})"
    if skipped:
        text += f", {skipped} skipped"
    if failures or done < len(names):
        left = f"; {len(names) - done} not run" * (done < len(names))
        raise Failure(f"{text}{left}; " + "; ".join(failures[:5]))
    return text


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
        command = [bundle.path("bin", "check-kernels"), "--chip", chip]
        for name in sets:
            row = f"products, {chip}" if products else f"kernels {name}, {chip}"
            directory = bundle.path("kernels", family["name"], name)
            yield row, 2, lambda d=directory: check_cases(bundle, command, d)


def read_norms(path):
    """2-norms of the f32 tensors of a safetensors file."""
    tensors, _ = safetensors_reader.read(path)
    return {name: math.sqrt(sum(x * x for x in values)) for name, (_, values) in tensors.items()}


def check_gradients(bundle):
    """Gradients of the first batch, from the loss backwards: the first tensor
    whose norm is not the host's names the unit to look at."""
    for program in bundle.programs("training"):
        if "gradients" not in program:
            continue

        def compare(program=program):
            path = bundle.work("gradients.safetensors")
            options = [*program["options"], "--peak-gflops", 1, "--dump-gradients", path]
            bundle.train(program, "divergence", options)
            ours, tolerance = read_norms(path), GRADIENT_TOLERANCE[program["precision"]]
            worst = 0.0
            # A gradient that is 0 but for rounding has no digits to compare: that
            # of the bias of keys, which a softmax does not see.
            largest = max(recorded for _, recorded in program["gradients"])
            least = 1e-4 * tolerance * largest
            # The backward pass goes from the last tensor to the first.
            for name, recorded in reversed(program["gradients"]):
                error = abs(ours.get(name, float("nan")) - recorded) / max(recorded, least)
                if not error <= tolerance:
                    raise Failure(f"the first to differ is {name}: norm {ours.get(name)}, "
                                  f"recorded {recorded:.6g}")  # fmt: skip
                worst = max(worst, error)
            return (f"norms of {len(ours)} gradients within {worst:.1e} of the host's, "
                    f"{tolerance:g} allowed")  # fmt: skip

        yield f"gradients {program['name']}, {program['chip']}", 3, compare


def read_products(path):
    """[name, norm of the operand, norm of the result or None] of --dump-products."""
    with open(path) as file:
        return [[row["product"], float(row["operand"]),
                 float(row["result"]) if row["result"] else None]
                for row in csv.DictReader(file)]  # fmt: skip


def find_divergence(ours, recorded, tolerance):
    """(what is first wrong, or None; the largest error)."""
    worst, known = 0.0, {name: values for name, *values in ours}
    before = "the input"
    for name, *values in recorded:
        if name not in known:
            return f"there is no product {name}", worst
        for what, mine, theirs in zip(("given", "result"), known[name], values):
            # An epilogue has changed it on one of the two.
            if mine is None or theirs is None:
                continue
            error = abs(mine - theirs) / max(abs(theirs), 1e-12)
            if not error <= tolerance:
                place = f"between {before} and {name}" if what == "given" else f"in the product {name}"
                return (f"the first difference is {place}: norm {mine:.6g}, "
                        f"recorded {theirs:.6g}"), worst  # fmt: skip
            worst = max(worst, error)
        before = name
    return None, worst


def check_outputs(bundle):
    """What every product of the first micro-step is given, and its result, forward
    and then backward: the first that differs names the unit, and the side of the
    product on which to look."""
    for program in bundle.programs("training"):
        if "products" not in program:
            continue

        def compare(program=program):
            path = bundle.work("products.csv")
            options = [*program["options"], "--peak-gflops", 1, "--dump-products", path]
            bundle.train(program, "divergence", options)
            recorded, ours = program["products"], read_products(path)
            # Gradients in f16 are multiplied by a scale, and those on the host are not.
            if program["precision"] == "f16":
                recorded = [row for row in recorded if row[0].endswith("#1")]
            tolerance = GRADIENT_TOLERANCE[program["precision"]]
            wrong, worst = find_divergence(ours, recorded, tolerance)
            if wrong:
                raise Failure(wrong)
            return (f"norms around {len(recorded)} products within {worst:.1e} of the "
                    f"host's, {tolerance:g} allowed")  # fmt: skip

        yield f"outputs {program['name']}, {program['chip']}", 3, compare


def check_divergence(bundle):
    yield from check_outputs(bundle)
    yield from check_gradients(bundle)


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
            output = bundle.run(command)
            skipped = re.search(r"^skipped: (.*)", output, re.MULTILINE)
            if skipped:
                raise Skip(skipped[1])
            passed = re.search(r"\[  PASSED  \] (\d+ tests?)", output)
            if not passed:
                raise Failure("no test has passed")
            return passed[1] + " passed"

        yield "conformance " + name, 3, check


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

        yield f"training {program['name']}, {program.get('chip', '')}", 3, check


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

        yield f"memory {program['name']}", 5, check


def require_room(bundle, program):
    if "skip" in program:
        raise Skip(program["skip"])
    words = query_gpu("memory.total")
    if words and words[0].isdigit():
        total = int(words[0]) << 20
        if program["bytes"] + (bundle.arguments.overhead << 20) > total:
            raise Skip(f"needs {program['bytes'] / 2**30:.1f} GiB of the GPU")


def rated_flops(bundle, precision):
    """The GPU's highest FLOP/s in a format; None if it is not known."""
    gpu = bundle.gpu
    if bundle.emulated:
        return None
    return peak_flops(
        gpu["capability"], gpu["multiprocessors"], gpu["clock_khz"], gpu["name"], precision
    )


def check_benchmarks(bundle):
    """Ours first: PyTorch compiles for minutes."""
    programs = bundle.programs("benchmark")
    for program in programs:

        def measure(program=program):
            if bundle.emulated:
                raise Skip("nothing that is emulated says how fast a GPU is")
            require_room(bundle, program)
            out = bundle.train(
                program, "benchmark",
                ["--steps", WARMUP_STEPS + 10, "--skip-save", "--peak-gflops", 1],
            )  # fmt: skip
            rate = statistics.median(column(out, "tokens_per_s")[WARMUP_STEPS:])
            bundle.rates[program["name"]] = rate
            flops = rate * program["flops_per_sample"] / program["seq_len"]
            text = f"{rate:.0f} tokens/s, {flops / 1e12:.1f} TFLOP/s"
            peak = rated_flops(bundle, program["precision"])
            if peak:
                text += f", {100 * flops / peak:.1f} % MFU of {peak / 1e12:.0f} rated"
            else:
                text += ", rated FLOP/s not known"
            reached = getattr(bundle, "measured", {}).get(program["precision"])
            if reached:
                text += f", {100 * flops / reached:.1f} % of the measured product"
            return text

        yield f"benchmark {program['name']}, {program.get('precision', '')}", 30, measure
    for index, program in enumerate(programs):

        def compare(program=program, later=len(programs) - index - 1):
            if bundle.emulated:
                raise Skip("nothing that is emulated says how fast a GPU is")
            require_room(bundle, program)
            # What is left is for those that come, too.
            limit = (bundle.runner.clock.left() - 2) / (later + 1)
            status, output = bundle.runner.execute(
                [sys.executable, bundle.path("check_cuda_torch.py"),
                 "--config", bundle.path("models", program["model"] + ".json"),
                 "--batch", program["batch"], "--seq-len", program["seq_len"],
                 "--accumulate", program["accumulate"], "--precision", program["precision"],
                 "--data", bundle.path("corpus.txt"),
                 "--deadline", int(limit)], own=False,
            )  # fmt: skip
            found = re.findall(r"^tokens/s (\S+) (.*)$", output, re.MULTILINE)
            if not found:
                none = re.search(r"^none (.*)$", output, re.MULTILINE)
                if none and status == 0:
                    raise Skip(none[1])
                raise Failure(find_reason(status, output))
            rate, how = max(((float(r), how) for r, how in found))
            text = f"{rate:.0f} tokens/s ({how}, the best of {len(found)})"
            own = bundle.rates.get(program["name"])
            return text + (f"; Poplar {own:.0f}, {own / rate:.2f} x" if own else "")

        yield f"PyTorch {program['name']}, {program.get('precision', '')}", 45, compare
