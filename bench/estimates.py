#!/usr/bin/env python3
# ===- estimates.py - Estimated steps beside measured ones -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Says how far the estimates of --estimate-profiles are from measurements.

  bench/estimates.py products --check
  bench/estimates.py --poplar build/release/bin/poplar training
  bench/estimates.py --poplar build/release/bin/poplar ratios
  bench/estimates.py --poplar build/release/bin/poplar host avx2-f32 sse41-f32

Measurements of GPUs are those that others have published: bench/measurements.json,
with the source of each. None was made with Poplar.

products: large matrix products by themselves, by card (bench/products.py).
--check fails if the constants in Roofline.cpp are not those of the fit.

training: tokens a second of trainers with fused attention, against the estimate
of a step by `poplar plan`: of each class, the first, third, ... measurement is
fitted (one factor a class, which is printed: 1.00 if the constants are those of
the fit), the others check it. What was measured includes the optimizer and
collectives; the estimate has the optimizer's share and no collectives.

ratios: one trainer on several cards; estimated and measured speed as multiples
of the speed of an A100. Nothing is fitted to them.

host: this machine's device types, measured by `poplar profile`. Their flops are
measured with a large matrix product by the profiled program itself, their
bandwidth by copying 512 MiB.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time

import products
from commands import ROOT, run

MODELS = os.path.join(ROOT, "examples", "models")

# Of the family of GPT-2: width, heads, layers, entries of the vocabulary.
GPT = {
    "mpt-125m": (768, 12, 12, 50432),
    "mpt-350m": (1024, 16, 24, 50432),
    "mpt-760m": (1536, 12, 24, 50432),
    "mpt-1b": (2048, 16, 24, 50432),
    "mpt-3b": (2560, 20, 32, 50432),
    "mpt-7b": (4096, 32, 32, 50432),
    "mpt-13b": (5120, 40, 40, 50432),
    "mpt-30b": (7168, 56, 48, 50432),
    "gpt2": (768, 12, 12, 50304),
    "languini-small": (768, 12, 12, 16384),
    "languini-medium": (1024, 16, 24, 16384),
    "languini-large": (1536, 16, 24, 16384),
}
# Published models that are examples.
EXAMPLES = {"tinyllama": "tinyllama-1.1b", "bert-large": "bert-large"}
# What the ratios are multiples of.
REFERENCE = "a100-80"


# A profile in a plan.
PROFILE = re.compile(
    r"cluster.profile @(\S+) stage (\d) micro_batches \[(.*?)\] seconds \[(.*?)\]"
    r".* optimizer (\S+) "
)


def read_estimates(text):
    """Of the profiles in a plan: by device type, in stage 0."""
    found = {}
    for name, stage, batches, seconds, optimizer in PROFILE.findall(text):
        if stage == "0":
            found[name.strip('"')] = {
                "micro_batches": [int(batch) for batch in batches.split(", ")],
                "seconds": [float(second) for second in seconds.split(", ")],
                "optimizer": float(optimizer),
            }
    return found


class Bench:
    def __init__(self, poplar, directory):
        self.poplar, self.directory = poplar, directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, contents):
        with open(self.path(name), "w") as file:
            json.dump(contents, file)
        return self.path(name)

    def import_model(self, config, seq_len):
        model = self.path("model.mlir")
        config = config if isinstance(config, str) else self.write("config.json", config)
        command = [self.poplar, "import", config, "--seq-len", str(seq_len)]
        run(*command, "--dropout", "0", "-o", model)
        return model

    def write_cluster(self, types):
        return self.write(
            "cluster.json",
            {
                "device_types": types,
                "nodes": [{"name": "n", "devices": list(types)}],
                "links": [{"inside": "nodes", "latency": 0, "bandwidth": 1e12}],
            },
        )

    def estimate(self, model, types):
        command = [self.poplar, "plan", model, "--cluster", self.write_cluster(types)]
        command += ["--policy", "exact", "--global-batch", "1", "-o", "-"]
        return read_estimates(run(*command).stdout)


def seconds_at(profile, batch):
    """Straight lines between the points, and from the last two."""
    points = list(zip(profile["micro_batches"], profile["seconds"]))
    (b0, t0), (b1, t1) = points[-2:]
    for low, high in zip(points, points[1:]):
        if low[0] <= batch <= high[0]:
            (b0, t0), (b1, t1) = low, high
    return t0 + (t1 - t0) * (batch - b0) / (b1 - b0)


def get_config(model, seq_len):
    if model in EXAMPLES:
        return os.path.join(MODELS, EXAMPLES[model] + ".json")
    width, heads, layers, vocabulary = GPT[model]
    with open(os.path.join(MODELS, "gpt2-124m.json")) as file:
        config = json.load(file)
    config.update(n_embd=width, n_head=heads, n_layer=layers, n_ctx=seq_len)
    config.update(n_positions=seq_len, vocab_size=vocabulary)
    return config


def summarize(errors):
    magnitudes = [abs(error) for error in errors]
    print(
        f"error of the estimate: median {100 * statistics.median(errors):+.0f} %, "
        f"of its size: median {100 * statistics.median(magnitudes):.0f} %, "
        f"largest {100 * max(magnitudes):.0f} % ({len(errors)} points)"
    )


class Training:
    """Rows of bench/measurements.json, and their estimates."""

    def __init__(self, bench, rows):
        self.bench, self.profiles = bench, {}
        self.rows = [
            dict(zip(("device", "format", "model", "tokens", "batch", "recompute",
                      "ranks", "accumulation", "rate", "source"), row))
            for row in rows
        ]  # fmt: skip
        self.cards = products.load(products.LIBRARY)["devices"]

    def estimate(self, row):
        """Seconds of a micro-step, with its share of the optimizer."""
        key = (row["model"], row["tokens"], row["recompute"])
        if key not in self.profiles:
            alike = [other for other in self.rows
                     if (other["model"], other["tokens"], other["recompute"]) == key]
            types = {
                other["device"]: {
                    "device": other["device"], "memory": "4TiB",
                    "precision": other["format"], "recompute": row["recompute"],
                } for other in alike
            }  # fmt: skip
            model = self.bench.import_model(get_config(*key[:2]), row["tokens"])
            self.profiles[key] = self.bench.estimate(model, types)
        profile = self.profiles[key][row["device"]]
        update = profile["optimizer"] / row["ranks"] / row["accumulation"]
        return seconds_at(profile, row["batch"]) + update

    def get_class(self, row):
        card = products.Card(row["device"], self.cards[row["device"]], 1)
        return "half rate" if card.half else f"{card.generation}, full rate"


def compare_training(bench):
    training = Training(bench, products.load(products.MEASUREMENTS)["training"])
    parts, classes = {"fit": [], "check": []}, {}
    print("device   model     tokens batch  recompute       class"
          "                  part  measured s  estimate s  error")  # fmt: skip
    for row in training.rows:
        measured = row["batch"] * row["tokens"] / row["rate"]
        estimate = training.estimate(row)
        group = classes.setdefault(training.get_class(row), [])
        part = "check" if len(group) % 2 else "fit"
        group.append(estimate / measured)
        parts[part].append(estimate / measured - 1)
        print(
            f"{row['device']:<8} {row['model']:<10} {row['tokens']:>5} {row['batch']:>5}"
            f"  {row['recompute']:<15} {training.get_class(row):<22} {part:<5}"
            f" {measured:>10.3f} {estimate:>11.3f} {100 * parts[part][-1]:>+5.0f} %"
        )
    for name, group in classes.items():
        print(f"{name}: factor of the fit {statistics.median(group[::2]):.2f}; of its check")
        if group[1::2]:
            summarize([ratio - 1 for ratio in group[1::2]])
    for part, errors in parts.items():
        print(part)
        summarize(errors)


def compare_ratios(bench):
    rows = products.load(products.MEASUREMENTS)["ratios"]
    training = Training(
        bench, [row[:5] + ["keep", 1, 1] + row[5:] for row in rows]
    )  # fmt: skip
    reference = {
        row["model"]: row for row in training.rows if row["device"] == REFERENCE
    }
    errors = []

    def get_rate(row):
        return row["batch"] * row["tokens"] / training.estimate(row)

    print(f"device        model            measured  estimate, of {REFERENCE}  error")
    for row in training.rows:
        if row["device"] == REFERENCE:
            continue
        base = reference[row["model"]]
        measured = row["rate"] / base["rate"]
        estimate = get_rate(row) / get_rate(base)
        errors.append(estimate / measured - 1)
        print(
            f"{row['device']:<13} {row['model']:<16} {measured:>8.3f} {estimate:>9.3f}"
            f" {100 * errors[-1]:>+22.0f} %"
        )
    summarize(errors)


def measure_bandwidth():
    """Bytes read and written per second, of the fastest of a few copies."""
    source = bytearray(os.urandom(1 << 20) * 512)
    target = bytearray(len(source))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - start)
    return 2 * len(source) / best


def measure_flops(bench, device_type):
    """Of large products, as a program says at its start."""
    figures = {"flops": {device_type["precision"]: 1e9}, "bandwidth": 1e9}
    cluster = bench.write_cluster({"t": dict(device_type, **figures)})
    model, plan, job = bench.path("tiny.mlir"), bench.path("tiny"), bench.path("job")
    config = os.path.join(MODELS, "tiny-llama.json")
    run(bench.poplar, "import", config, "--seq-len", "32", "-o", model)
    command = [bench.poplar, "plan", model, "--cluster", cluster]
    run(*command, "--global-batch", "1", "-o", plan)
    run(bench.poplar, "build", plan, "-o", job)
    data = os.path.join(ROOT, "examples", "data", "corpus.txt")
    command = [os.path.join(job, "t", "train"), "train", "--data", data]
    result = run(*command, "--steps", "1", "--out", bench.path("run"))
    return float(re.search(r"([0-9.]+) GFLOP/s measured", result.stdout).group(1)) * 1e9


def compare_host(bench, arguments):
    bandwidth = measure_bandwidth()
    print(f"bandwidth {bandwidth / 1e9:.1f} GB/s, {arguments.model}")
    model = bench.import_model(
        os.path.join(MODELS, arguments.model + ".json"), arguments.seq_len
    )
    errors = []
    for name in arguments.types:
        base = {"target": "host:" + name, "memory": "8GiB", "threads": 1}
        cluster = bench.write_cluster({name: base})
        profile = bench.path("profile.json")
        command = [bench.poplar, "profile", "--model", model, "--cluster", cluster]
        run(*command, "--device-type", name, "--zero", "0", "-o", profile)
        with open(profile) as file:
            measured = json.load(file)["profiles"][0]
        flops = {
            precision: measure_flops(bench, dict(base, precision=precision))
            for precision in {"f32", name.split("-")[1]} & {"f32", "bf16"}
        }
        figures = dict(base, flops=flops, bandwidth=bandwidth)
        estimated = bench.estimate(model, {name: figures})[name]
        print(f"{name}: {', '.join(f'{k} {v / 1e9:.0f} GFLOP/s' for k, v in flops.items())}")
        print("  batch  measured s  estimate s  error")
        for batch, seconds in zip(measured["micro_batches"], measured["seconds"]):
            estimate = seconds_at(estimated, batch)
            errors.append(estimate / seconds - 1)
            print(f"  {batch:>5} {seconds:>11.4f} {estimate:>11.4f} {100 * errors[-1]:>+5.0f} %")
        update = estimated["optimizer"] / measured["optimizer"] - 1
        print(
            f"  optimizer {measured['optimizer']:.4f} s, "
            f"estimate {estimated['optimizer']:.4f} s, {100 * update:+.0f} %"
        )
    summarize(errors)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default="build/release/bin/poplar")
    commands = parser.add_subparsers(dest="command", required=True)
    large = commands.add_parser("products")
    large.add_argument("--check", action="store_true", help="compare with Roofline.cpp")
    commands.add_parser("training")
    commands.add_parser("ratios")
    host = commands.add_parser("host")
    host.add_argument("types", nargs="+", metavar="TYPE", help="as in avx2-f32")
    host.add_argument("--model", default="demo-llama", help="of examples/models")
    host.add_argument("--seq-len", type=int, default=128)
    arguments = parser.parse_args()
    if arguments.command == "products":
        sys.exit(products.show(arguments.check))
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(os.path.abspath(arguments.poplar), directory)
        if arguments.command == "training":
            compare_training(bench)
        elif arguments.command == "ratios":
            compare_ratios(bench)
        else:
            compare_host(bench, arguments)


if __name__ == "__main__":
    main()
