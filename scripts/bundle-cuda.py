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

  scripts/bundle-cuda.py --chip sm_90              # poplar-cuda-sm_90.tar.gz
  scripts/bundle-cuda.py -o poplar-cuda.tar.xz     # for all chips

The bundle for one chip is a .tar.gz of 44 MiB at most, which python3 unpacks
without other programs: its larger executables hold machine code for that
generation of GPUs and no PTX. It can be made on any x86-64 host.

--small leaves the benchmarks out and takes tiny models for all: for tests."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "Integration", "Inputs"))
sys.path.insert(0, os.path.join(ROOT, "scripts", "goldens"))

import cuda_checks  # noqa: E402
import jobs  # noqa: E402
from jobs import DeviceType, Plan, Rank  # noqa: E402

CHIPS = "sm_70,sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120"
# Of a bundle for one chip, and for several.
LARGEST_BYTES = (44 << 20, 60 << 20)
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
# What every machine with glibc has. Everything else that an executable needs is
# in the bundle, or the bundle is not made.
C_LIBRARY = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
    "ld-linux-x86-64.so.2",
}  # fmt: skip


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
        # An emulated GPU, which runs the small bundle, reads PTX.
        self.smaller = [] if arguments.small else ["--no-ptx"]

    def path(self, *parts):
        path = os.path.join(self.root, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def keep(self, built, *place):
        """Puts an executable of a build and its program into the bundle."""
        for name in ("train", "program.so"):
            target = self.path(*place, "gpu", name)
            shutil.copy(os.path.join(built, "gpu", name), target)
            run("strip", target)
        shutil.copy(os.path.join(built, "ranks.txt"), self.path(*place, "ranks.txt"))
        return os.path.join(*place)

    def build(self, model, plan, name, *options):
        """Compiles a module with a plan; returns its directory and the bytes
        that it says rank 0 needs."""
        with open(model) as file:
            text = jobs.add_plan(file.read(), plan)
        source, target = self.work.path(name + ".mlir"), self.work.path(name)
        with open(source, "w") as file:
            file.write(text)
        log = run(
            "poplar", "build", source, "-o", target, "--no-kv-cache", *options
        )
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
                    "gradients": self.gradients(model, plan.samples),
                    "products": self.products(model, plan),
                    "tolerance": 1e-5 if precision == "f32" else 1e-2,
                })  # fmt: skip

    def gradients(self, model, samples):
        """[name, 2-norm] of the gradients of the first batch on the host, in the
        order of the model."""
        path = self.work.path(model + "-gradients.safetensors")
        self.work.once(path, lambda target: self.work.train_alone(
            model, model + "-gradients", samples,
            [*TRAINING_OPTIONS, "--dump-gradients", target],
        ))  # fmt: skip
        return list(cuda_checks.read_norms(path).items())

    def products(self, model, plan):
        """Norms around the products of the first micro-step on the host."""
        path = self.work.path(model + "-products.csv")
        batch = plan.ranks[0].micro_batch
        options = [*TRAINING_OPTIONS, "--global-batch", plan.samples, "--batch", batch]
        self.work.once(path, lambda target: self.work.train(
            self.work.alone(model), model + "-products",
            [*options, "--threads", 1, "--dump-products", target],
        ))  # fmt: skip
        return cuda_checks.read_products(path)

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
        built, size = self.build(
            self.imported(config, seq_len, model), plan, name, *self.smaller
        )
        info = run(os.path.join(built, "gpu", "train"), "info")
        flops = float(re.search(r"FLOPs per sample +(\S+)", info)[1])
        self.programs.append({
            "kind": "benchmark", "name": model, "model": model, "chip": chip,
            "precision": precision, "bytes": size, "seq_len": seq_len,
            "batch": micro_batch, "accumulate": steps, "ptx": self.small,
            "flops_per_sample": flops,
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
            built, size = self.build(model, plan, name, *self.smaller)
            paths.append(self.keep(built, "programs", name))
            sizes.append(size)
        self.programs.append({
            "kind": "pair", "name": "pair", "chip": chip, "precision": precision,
            "ptx": self.small,
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
        for name in ("check-kernels", "measure-gpu", "split-batch", "PoplarCommConformance"):
            target = self.path("bin", name)
            shutil.copy(os.path.join(build, "bin", name), target)
            run("strip", target)
        plugin = self.path("lib", "libpoplar_tcp.so")
        shutil.copy(os.path.join(build, "lib", "libpoplar_tcp.so"), plugin)
        run("strip", plugin)
        self.glibc = self.add_libraries()
        scripts = ("check-cuda.sh", "check_cuda.py", "check_cuda_torch.py", "start-ranks.py",
                   "cuda_checks.py", "cuda_libraries.py", "cuda_pair.py", "cuda_speed.py",
                   "gpu_peaks.py", "goldens/safetensors_reader.py")
        for name in scripts:
            shutil.copy(os.path.join(ROOT, "scripts", name), self.path(os.path.basename(name)))
        shutil.copy(os.path.join(ROOT, "examples", "data", "corpus.txt"), self.path("corpus.txt"))
        shutil.copy(os.path.join(ROOT, "LICENSE"), self.path("LICENSE"))

    def binaries(self):
        """All executables and libraries of the bundle."""
        for directory, _, files in os.walk(self.root):
            # Code of GPUs is ELF, too.
            paths = [os.path.join(directory, name) for name in files]
            for path in (p for p in paths if not p.endswith(".cubin")):
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path

    def add_libraries(self):
        """Copies the libraries that executables need and machines may lack;
        returns the oldest glibc that all of them run with."""
        for binary in list(self.binaries()):
            for name, place in re.findall(r"(\S+) => (/\S+)", run("ldd", binary)):
                if name not in C_LIBRARY:
                    shutil.copy(place, self.path("lib", name))
        here, versions = set(os.listdir(self.path("lib"))), [(2, 17)]
        for binary in self.binaries():
            needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", binary))
            missing = set(needed) - C_LIBRARY - here
            # Nothing of this host's may be needed beside what is copied.
            if missing or {"libdnnl.so.2", "libOpenCL.so.1"} & here:
                name = os.path.relpath(binary, self.root)
                sys.exit(f"bundle-cuda: error: {name} needs {', '.join(missing or here)}, "
                         "which machines with GPUs may lack")  # fmt: skip
            found = re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", binary))
            versions += [(2, int(minor)) for minor in found]
        return "%d.%d" % max(versions)

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
            "programs": self.programs,
        }  # fmt: skip
        self.add_tools()
        contents["glibc"] = self.glibc
        with open(self.path("bundle.json"), "w") as file:
            json.dump(contents, file, indent=1)


def run(*command):
    """The output of a command, which has to succeed."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"bundle-cuda: error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def pack(directory, output):
    """By what the name ends in."""
    if output.endswith(".gz"):
        with tarfile.open(output, "w:gz", compresslevel=9) as archive:
            archive.add(os.path.join(directory, "poplar-cuda"), "poplar-cuda")
        return
    # Executables differ in little but their kernels: a window that holds them
    # all.
    os.environ["XZ_OPT"] = "-9e --lzma2=dict=256MiB"
    run("tar", "-cJf", os.path.abspath(output), "-C", directory, "poplar-cuda")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--output",
        help="file to write, .tar.gz or .tar.xz (default: poplar-cuda-CHIP.tar.gz "
        "for one chip, poplar-cuda.tar.xz for several)",
    )  # fmt: skip
    parser.add_argument(
        "--chip", "--chips", dest="chips", default=CHIPS, metavar="CHIP[,CHIP...]",
        help="chips to make code for (default: all)",
    )  # fmt: skip
    parser.add_argument("--small", action="store_true", help="tiny models only")
    arguments = parser.parse_args()
    alone = "," not in arguments.chips
    output = arguments.output or (
        f"poplar-cuda-{arguments.chips}.tar.gz" if alone else "poplar-cuda.tar.xz"
    )
    if not output.endswith((".tar.gz", ".tar.xz")):
        parser.error("--output ends in .tar.gz or .tar.xz")
    if not shutil.which("poplar"):
        os.environ["PATH"] += os.pathsep + os.path.join(ROOT, "build", "release", "bin")
    with tempfile.TemporaryDirectory() as directory:
        maker = Maker(directory, arguments)
        maker.make()
        pack(directory, output)
    size, largest = os.path.getsize(output), LARGEST_BYTES[not alone]
    print(f"bundle: {output}, {size / 2**20:.1f} MiB, {len(maker.programs)} programs")
    if size > largest:
        sys.exit(f"bundle-cuda: error: more than {largest >> 20} MiB")


if __name__ == "__main__":
    main()
