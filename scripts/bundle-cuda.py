#!/usr/bin/env python3
# ===- bundle-cuda.py - What a machine with a GPU needs for its checks ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Makes a bundle for check-cuda.sh: executables for GPUs, their kernels with
recorded data, the communicators' conformance suite, and the scripts; no LLVM
and no compiler is needed where it runs. Takes a while: every model is compiled
for every chip.

  scripts/bundle-cuda.py -o poplar-cuda.tar.xz

--small leaves the benchmarks out and takes tiny models for all: for tests."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "Integration", "Inputs"))

import jobs  # noqa: E402
from jobs import DeviceType, Plan, Rank  # noqa: E402

CHIPS = "sm_70,sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120"
LARGEST_BYTES = 60 << 20
# bf16 came with this one.
FIRST_WITH_BF16 = 80
TRAINING_STEPS = 5
# What the losses of small models are compared over.
TRAINING_OPTIONS = ["--steps", TRAINING_STEPS, "--lr", 1e-3, "--clip", 0.5]
# Model, tokens of a sample, samples of a micro-batch and of an iteration.
BENCHMARKS = [
    ("gpt2-124m", 1024, 16, 64),
    ("llama-0.5b", 1024, 8, 32),
    ("tinyllama-1.1b", 2048, 4, 16),
]
# Few parameters for much computation: two ranks that share a GPU talk through
# the host's memory.
PAIR = {"n_embd": 384, "n_layer": 6, "n_head": 6, "n_positions": 1024, "n_ctx": 1024}
PAIR_SEQ_LEN, PAIR_SAMPLES, PAIR_LARGEST = 1024, 512, 32
# Libraries that a machine may lack, beside the C library.
LIBRARIES = ("libgomp", "libucp", "libucs", "libuct", "libucm", "libnuma")


def number(chip):
    return int(chip.removeprefix("sm_"))


def half_format(chip):
    return "bf16" if number(chip) >= FIRST_WITH_BF16 else "f16"


class Maker:
    def __init__(self, directory, arguments):
        self.directory, self.small = directory, arguments.small
        self.chips = arguments.chips.split(",")
        self.work = jobs.Workshop(os.path.join(directory, "work"))
        self.root = os.path.join(directory, "poplar-cuda")
        os.makedirs(self.root)
        self.programs = []

    def path(self, *parts):
        path = os.path.join(self.root, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def keep(self, built, *place):
        """Puts an executable of a build into the bundle."""
        target = self.path(*place, "gpu", "train")
        shutil.copy(os.path.join(built, "gpu", "train"), target)
        run("strip", target)
        shutil.copy(os.path.join(built, "ranks.txt"), self.path(*place, "ranks.txt"))
        return os.path.join(*place)

    def build(self, model, plan, name):
        """Compiles a module with a plan; returns its directory and the bytes
        that it says rank 0 needs."""
        with open(model) as file:
            text = jobs.add_plan(file.read(), plan)
        source, target = self.work.path(name + ".mlir"), self.work.path(name)
        with open(source, "w") as file:
            file.write(text)
        log = run("poplar", "build", source, "-o", target)
        return target, int(re.search(r"rank 0 .*\((\d+) bytes\)", log)[1])

    def add_training(self, chip):
        for model in ("gpt2",) if self.small else jobs.MODELS:
            for precision in ("f32", half_format(chip)):
                plan = Plan(
                    model, 0, (Rank(3, 2, 2, type="gpu"),),
                    (DeviceType("gpu", "cuda:" + chip, precision),),
                )  # fmt: skip
                name = f"{model}-{precision}-{chip}"
                built, size = self.build(self.work.buckets(model), plan, name)
                reference = self.work.train_alone(
                    model, model + "-host", plan.samples, TRAINING_OPTIONS
                )
                self.programs.append({
                    "kind": "training", "name": f"tiny {model} {precision}",
                    "chip": chip, "precision": precision, "bytes": size,
                    "path": self.keep(built, "programs", name),
                    "options": list(map(str, TRAINING_OPTIONS)),
                    "losses": reference.losses,
                    "tolerance": 1e-5 if precision == "f32" else 1e-2,
                })  # fmt: skip

    def imported(self, config, seq_len, name):
        """A model ready for a plan."""

        def make(target):
            run(
                "poplar", "import", config, "--seq-len", str(seq_len),
                "--dropout", "0", "-o", target + ".model",
            )  # fmt: skip
            run("poplar-opt", "--zero-form-buckets", target + ".model", "-o", target)

        return self.work.once(self.work.path(name + "-model.mlir"), make)

    def add_benchmark(self, chip, model, seq_len, micro_batch, samples):
        precision = half_format(chip)
        config = os.path.join(ROOT, "examples", "models", model + ".json")
        shutil.copy(config, self.path("models", model + ".json"))
        steps = samples // micro_batch
        plan = Plan(
            model, 0, (Rank(micro_batch, steps, micro_batch, type="gpu"),),
            (DeviceType("gpu", "cuda:" + chip, precision, 80 << 30),),
        )  # fmt: skip
        name = f"{model}-{precision}-{chip}"
        built, size = self.build(self.imported(config, seq_len, model), plan, name)
        info = run(os.path.join(built, "gpu", "train"), "info")
        flops = float(re.search(r"FLOPs per sample +(\S+)", info)[1])
        self.programs.append({
            "kind": "benchmark", "name": model, "model": model, "chip": chip,
            "precision": precision, "bytes": size, "seq_len": seq_len,
            "batch": micro_batch, "flops_per_sample": flops,
            "path": self.keep(built, "programs", name),
        })  # fmt: skip

    def add_pair(self, chip):
        """Two ranks, and one for the speed of a share alone."""
        with open(os.path.join(ROOT, "examples", "models", "tiny-gpt2.json")) as file:
            config = json.load(file)
        seq_len, samples, largest, precision = 32, 12, 4, "f32"
        if not self.small:
            config.update(PAIR)
            seq_len, samples, largest = PAIR_SEQ_LEN, PAIR_SAMPLES, PAIR_LARGEST
            precision = half_format(chip)
        source = self.work.path("pair.json")
        with open(source, "w") as file:
            json.dump(config, file)
        types = (DeviceType("gpu", "cuda:" + chip, precision, 80 << 30),)
        model = self.imported(source, seq_len, "pair")
        paths, sizes = [], []
        for ranks in (2, 1):
            each = samples // ranks
            plan = Plan("pair", 0, (Rank(1, each, 1, type="gpu"),) * ranks, types)
            name = f"pair{ranks}-{chip}"
            built, size = self.build(model, plan, name)
            paths.append(self.keep(built, "programs", name))
            sizes.append(size)
        self.programs.append({
            "kind": "pair", "name": "pair", "chip": chip, "precision": precision,
            "path": paths[0], "alone": paths[1], "bytes": sizes[0],
            "seq_len": seq_len, "global_batch": samples, "max_batch": largest,
            "tolerance": 1e-5 if precision == "f32" else 1e-2,
        })  # fmt: skip

    def add_kernels(self):
        """Data is shared by chips that run the same kernels."""
        families = []
        for name, chips in (
            ("f16", [c for c in self.chips if number(c) < FIRST_WITH_BF16]),
            ("bf16", [c for c in self.chips if number(c) >= FIRST_WITH_BF16]),
        ):
            if not chips:
                continue
            directory = self.path("kernels", name)
            sets = ["products", "tiny-gpt2-" + name] if self.small else []
            run("kernel-cases", ",".join(chips), directory, *sets)
            families.append(
                {"name": name, "chips": chips, "sets": sorted(os.listdir(directory))}
            )
        return families

    def add_tools(self):
        """Programs, the libraries that they need, and scripts."""
        build = os.path.dirname(os.path.dirname(shutil.which("poplar")))
        programs = ["check-kernels", "measure-gpu", "split-batch", "PoplarCommConformance"]
        for name in programs:
            target = self.path("bin", name)
            shutil.copy(os.path.join(build, "bin", name), target)
            run("strip", target)
        plugin = os.path.join(build, "lib", "libpoplar_tcp.so")
        shutil.copy(plugin, self.path("lib", "libpoplar_tcp.so"))
        for binary in (plugin, *(os.path.join(build, "bin", p) for p in programs),
                       self.path(self.programs[0]["path"], "gpu", "train")):  # fmt: skip
            for name, place in re.findall(r"(\S+) => (\S+)", run("ldd", binary)):
                if name.startswith(LIBRARIES):
                    shutil.copy(place, self.path("lib", name))
        scripts = ("check-cuda.sh", "check_cuda.py", "check_cuda_torch.py", "start-ranks.py",
                   "cuda_libraries.py")
        for name in scripts:
            shutil.copy(os.path.join(ROOT, "scripts", name), self.path(name))
        shutil.copy(os.path.join(ROOT, "examples", "data", "corpus.txt"), self.path("corpus.txt"))
        shutil.copy(os.path.join(ROOT, "LICENSE"), self.path("LICENSE"))

    def rated_flops(self):
        """[words of a GPU's name, {format: FLOP/s}], the most words first."""
        with open(os.path.join(ROOT, "lib", "Import", "DeviceLibrary.json")) as file:
            devices = json.load(file)["devices"].values()
        rates = []
        for device in devices:
            if device["target"].startswith("cuda:"):
                words = device["name"].lower().split()
                # "80 GB" is "80gb" to the driver, and "NVIDIA" goes without saying.
                text = " ".join(w for w in words if w != "nvidia").replace(" gb", "gb")
                rates.append((text.split(), device.get("flops", {})))
        return sorted(rates, key=lambda entry: -len(entry[0]))

    def make(self):
        for chip in self.chips:
            print(f"bundle: {chip}", flush=True)
            self.add_training(chip)
            self.add_pair(chip)
            for benchmark in () if self.small else BENCHMARKS:
                self.add_benchmark(chip, *benchmark)
        commit = run("git", "-C", ROOT, "describe", "--always", "--dirty").strip()
        contents = {
            "made_of": commit, "kernels": self.add_kernels(),
            "programs": self.programs, "rated_flops": self.rated_flops(),
        }  # fmt: skip
        self.add_tools()
        with open(self.path("bundle.json"), "w") as file:
            json.dump(contents, file, indent=1)


def run(*command):
    """The output of a command, which has to succeed."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"bundle-cuda: error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", default="poplar-cuda.tar.xz")
    parser.add_argument("--chips", default=CHIPS)
    parser.add_argument("--small", action="store_true", help="tiny models only")
    arguments = parser.parse_args()
    if not shutil.which("poplar"):
        os.environ["PATH"] += os.pathsep + os.path.join(ROOT, "build", "release", "bin")
    with tempfile.TemporaryDirectory() as directory:
        maker = Maker(directory, arguments)
        maker.make()
        # Executables differ in little but their kernels: a window that holds
        # them all.
        os.environ["XZ_OPT"] = "-1" if arguments.small else "-9e --lzma2=dict=256MiB"
        run("tar", "-cJf", os.path.abspath(arguments.output), "-C", directory, "poplar-cuda")
    size = os.path.getsize(arguments.output)
    print(f"bundle: {arguments.output}, {size / 2**20:.1f} MiB, {len(maker.programs)} programs")
    if size > LARGEST_BYTES:
        sys.exit(f"bundle-cuda: error: more than {LARGEST_BYTES >> 20} MiB")


if __name__ == "__main__":
    main()
