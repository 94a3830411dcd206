#!/usr/bin/env python3
# ===- compare-builds.py - Two builds of Poplar, in turns -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares a build of Poplar with an earlier one: how long it compiles and plans,
how fast its programs train, and how large they are. Both builds take turns, and
every ratio is of this build to the earlier one.

  bench/compare-builds.py --before ../old/build/release/bin/poplar

Ratios of times and sizes above 1 are worse, ratios of tokens/s below 1.
"""

import argparse
import importlib
import json
import os
import shutil
import statistics
import sys
import tempfile

from commands import ROOT, read_rates, run
from gpt2 import WARMUP_STEPS, Poplar
from simulate import LLAMA_70B, time, write_cluster

compile_time = importlib.import_module("compile-time")

MODELS = ROOT + "/examples/models/"
# Options of `poplar plan`.
JOBS = {
    "two ranks, ZeRO 0": ["--policy", "exact", "--zero", "0"],
    "two ranks, ZeRO 2": ["--policy", "exact", "--zero", "2"],
    "two ranks, ZeRO 3": ["--policy", "exact", "--zero", "3"],
    "pipeline of two stages": ["--zero", "0", "--micro-batch", "4", "--pipeline", "host+host"],
}


class Table:
    def __init__(self):
        print("| what | before | after | after / before |\n| --- | --- | --- | --- |")

    @staticmethod
    def row(name, before, after, unit):
        print(f"| {name} | {before:.4g} {unit} | {after:.4g} {unit} | {after / before:.3f} |",
              flush=True)  # fmt: skip


def compare_compilation(drivers, table, rounds):
    """Processor time of poplar build."""
    with open(MODELS + "tinyllama-1.1b.json") as file:
        config = json.load(file)
    for multiple in (1, 4):
        layers = config["num_hidden_layers"] * multiple
        seconds = [[], []]
        for _ in range(rounds):
            for turn, driver in enumerate(drivers):
                arguments = argparse.Namespace(poplar=driver, seq_len=1024, precision="f32")
                with tempfile.TemporaryDirectory() as directory:
                    _, processor, _, _ = compile_time.measure(
                        arguments, {**config, "num_hidden_layers": layers}, directory
                    )
                seconds[turn].append(processor)
        table.row(f"`poplar build`, TinyLlama of {layers} layers", *map(min, seconds), "s")


def compare_planning(drivers, table, rounds, directory):
    """Processor time of poplar plan and poplar simulate."""
    for devices in (128, 2048):
        write_cluster(directory + "/cluster.json", devices, [3], 1)
        seconds = {"plan": [[], []], "simulate": [[], []]}
        for _ in range(rounds):
            for turn, driver in enumerate(drivers):
                model, plan = (f"{directory}/{name}{turn}.mlir" for name in ("70b", "plan"))
                if not os.path.exists(model):
                    with open(directory + "/config.json", "w") as file:
                        json.dump(LLAMA_70B, file)
                    run(driver, "import", directory + "/config.json", "-o", model)
                commands = {
                    "plan": ["--model", model, "--cluster", directory + "/cluster.json",
                             "--global-batch", str(12 * devices), "--policy", "exact",
                             "--zero", "3", "-o", plan],
                    "simulate": [plan],
                }  # fmt: skip
                for command, words in commands.items():
                    seconds[command][turn].append(time(driver, command, *words)[0])
        for command, turns in seconds.items():
            table.row(f"`poplar {command}`, 70B on {devices} devices", *map(min, turns), "s")


def compare_speed(drivers, table, rounds, directory):
    """Tokens per second of GPT-2 124M on one thread, and the sizes of programs."""
    sides = []
    for turn, driver in enumerate(drivers):
        os.makedirs(f"{directory}/gpt2-{turn}")
        sides.append(Poplar(driver, f"{directory}/gpt2-{turn}", 4))
    for precision in ("f32", "bf16"):
        for tokens in (64, 256):
            rates = [[], []]
            for _ in range(rounds):
                for turn, side in enumerate(sides):
                    rates[turn].append(side.turn(4, tokens, 1, precision))
            table.row(f"GPT-2 124M, {precision}, 4x{tokens}, one thread",
                      *map(statistics.median, rates), "tokens/s")  # fmt: skip
            sizes = [measure_program(s.program(tokens, precision)) for s in sides]
            table.row(f"its executable, {precision}, {tokens} tokens", *sizes, "bytes")


def measure_program(job):
    """Bytes of the executable and, where it loads one, of its program."""
    found = [path for path, _, names in os.walk(job) if "train" in names]
    if not found:
        sys.exit(f"error: {job} holds no executable")
    files = (os.path.join(found[0], name) for name in ("train", "program.so"))
    return sum(os.path.getsize(file) for file in files if os.path.exists(file))


def write_profiles(path):
    """Adds made-up curves to a cluster file, so that all builds make one plan."""
    with open(path) as file:
        cluster = json.load(file)
    cluster["profiles"] = [
        {"device_type": "host", "stage": stage, "micro_batches": [1, 2, 4],
         "seconds": [0.3, 0.5, 0.9], "optimizer": 0.1}
        for stage in range(4)
    ]  # fmt: skip
    with open(path, "w") as file:
        json.dump(cluster, file)


def compare_jobs(drivers, table, rounds, directory):
    """Tokens per second of jobs of two ranks, and the sizes of their programs."""
    for number, (name, options) in enumerate(JOBS.items()):
        jobs = []
        for turn, driver in enumerate(drivers):
            base = f"{directory}/job-{number}-{turn}"
            run(driver, "import", MODELS + "demo-llama.json", "-o", base + "-model.mlir")
            run(driver, "cluster", "detect", "--devices", "host=2", "-o", base + ".json")
            write_profiles(base + ".json")
            run(driver, "plan", "--model", base + "-model.mlir", "--cluster", base + ".json",
                "--global-batch", "32", *options, "-o", base + ".mlir")  # fmt: skip
            run(driver, "build", base + ".mlir", "-o", base)
            jobs.append(base)
        rates = [[], []]
        for _ in range(rounds):
            for turn, driver in enumerate(drivers):
                out = directory + "/run"
                run(driver, "train", jobs[turn], "--data", ROOT + "/examples/data/corpus.txt",
                    "--steps", str(WARMUP_STEPS + 10), "--eval-every", "0", "--out", out)  # fmt: skip
                rates[turn].append(statistics.median(read_rates(out, WARMUP_STEPS)))
                shutil.rmtree(out)
        table.row(f"{name}, demo-llama", *map(statistics.median, rates), "tokens/s")
        sizes = [measure_program(job) for job in jobs]
        table.row("its executable", *sizes, "bytes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", required=True, help="poplar of the earlier build")
    parser.add_argument("--after", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("compilation", "planning", "speed", "jobs"))
    arguments = parser.parse_args()
    drivers = [os.path.abspath(arguments.before), os.path.abspath(arguments.after)]
    table = Table()
    with tempfile.TemporaryDirectory() as directory:
        common = (drivers, table, arguments.rounds)
        parts = {
            "compilation": lambda: compare_compilation(*common),
            "planning": lambda: compare_planning(*common, directory),
            "speed": lambda: compare_speed(*common, directory),
            "jobs": lambda: compare_jobs(*common, directory),
        }
        for name, part in parts.items():
            if arguments.only in (None, name):
                part()


if __name__ == "__main__":
    main()
