#!/usr/bin/env python3
# ===- estimates.py - Estimated steps beside measured ones -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Says how far the estimates of --estimate-profiles are from measurements.

  bench/estimates.py --poplar build/release/bin/poplar published
  bench/estimates.py --poplar build/release/bin/poplar host avx2-f32 sse41-f32

published: training throughput that others have published of GPUs: MosaicML,
LLM Foundry, scripts/train/benchmarking/README.md, models MPT, bf16, FSDP on
8 GPUs of a node, 2048 tokens a sample. What they measured includes collectives
and the optimizer; the estimate has the optimizer's share and no collectives.

host: this machine's device types, measured by `poplar profile`. Their flops are
measured with a large matrix product by the profiled program itself, their
bandwidth by copying 512 MiB.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time

from commands import ROOT, run

MODELS = os.path.join(ROOT, "examples", "models")
GPUS_PER_NODE = 8

# Width, heads, layers.
MPT = {
    "125m": (768, 12, 12),
    "350m": (1024, 16, 24),
    "760m": (1536, 12, 24),
    "1b": (2048, 16, 24),
    "3b": (2560, 20, 32),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 56, 48),
}
# Device, model, micro-batch, tokens per second and GPU, recomputation, steps of
# gradient accumulation.
PUBLISHED = [
    ("a100-80", "125m", 32, 141737, "keep", 2),
    ("a100-80", "350m", 32, 58782, "keep", 2),
    ("a100-80", "760m", 24, 32434, "keep", 2),
    ("a100-80", "1b", 14, 20513, "keep", 4),
    ("a100-80", "3b", 10, 10811, "keep", 2),
    ("a100-80", "7b", 6, 4641, "keep", 2),
    ("a100-80", "13b", 2, 2262, "keep", 3),
    ("a100-80", "30b", 3, 916, "recompute-unit", 21),
    ("a100-40", "7b", 12, 3679, "recompute-unit", 4),
    ("a100-40", "13b", 4, 1668, "recompute-unit", 16),
    ("h100", "760m", 24, 63147, "keep", 2),
    ("h100", "1b", 14, 45455, "keep", 1),
    ("h100", "7b", 6, 10643, "keep", 1),
    ("h100", "13b", 2, 4792, "keep", 1),
    ("h100", "30b", 3, 2002, "recompute-unit", 21),
]


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
            found[name] = {
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
        return read_estimates(run(*command, "--global-batch", "1", "-o", "-").stdout)


def seconds_at(profile, batch):
    """Straight lines between the points, and from the last two."""
    points = list(zip(profile["micro_batches"], profile["seconds"]))
    (b0, t0), (b1, t1) = points[-2:]
    for low, high in zip(points, points[1:]):
        if low[0] <= batch <= high[0]:
            (b0, t0), (b1, t1) = low, high
    return t0 + (t1 - t0) * (batch - b0) / (b1 - b0)


def mpt_config(width, heads, layers, seq_len):
    with open(os.path.join(MODELS, "gpt2-124m.json")) as file:
        config = json.load(file)
    config.update(
        n_embd=width,
        n_head=heads,
        n_layer=layers,
        n_ctx=seq_len,
        n_positions=seq_len,
        vocab_size=50432,
    )
    return config


def summarize(errors):
    magnitudes = [abs(error) for error in errors]
    print(
        f"error of the estimate: median {100 * statistics.median(errors):+.0f} %, "
        f"of its size: median {100 * statistics.median(magnitudes):.0f} %, "
        f"largest {100 * max(magnitudes):.0f} % ({len(errors)} points)"
    )


def compare_published(bench):
    seq_len = 2048
    print("device    model  batch  recompute         measured s  estimate s  error")
    errors = []
    for device, name, batch, rate, recompute, accumulation in PUBLISHED:
        model = bench.import_model(mpt_config(*MPT[name], seq_len), seq_len)
        types = {"d": {"device": device, "memory": "4TiB", "recompute": recompute}}
        profile = bench.estimate(model, types)["d"]
        measured = batch * seq_len / rate
        update = profile["optimizer"] / GPUS_PER_NODE / accumulation
        estimate = seconds_at(profile, batch) + update
        errors.append(estimate / measured - 1)
        print(
            f"{device:<9} {name:<6} {batch:>5}  {recompute:<16} {measured:>11.3f}"
            f" {estimate:>11.3f} {100 * errors[-1]:>+5.0f} %"
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
    commands.add_parser("published")
    host = commands.add_parser("host")
    host.add_argument("types", nargs="+", metavar="TYPE", help="as in avx2-f32")
    host.add_argument("--model", default="demo-llama", help="of examples/models")
    host.add_argument("--seq-len", type=int, default=128)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(os.path.abspath(arguments.poplar), directory)
        if arguments.command == "published":
            compare_published(bench)
        else:
            compare_host(bench, arguments)


if __name__ == "__main__":
    main()
