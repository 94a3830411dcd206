# ===- packing.py - Documents that share samples --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains on documents of unlike lengths, several of which share a sample:
  alone      loss and gradients of a batch are those of its documents one by one,
             by the same program and by one without packing: losses within 1e-6,
             relatively, gradients within 1e-6 of the norm of all, in 2-norms
  together   pipeline stages, also of several chunks, devices that share units,
             and ZeRO follow one device: losses within 1e-5, updates as in
             equivalence.py
  --gpu      programs for GPUs, whose driver is emulated, follow the host: losses
             within 1e-5, 1 % in bf16"""

import array
import random

import jobs
import safetensors_reader
from jobs import DeviceType, Plan, Rank

LENGTHS = [[20, 11, 1], [32], [3, 9, 17], [31], [15, 8, 4, 2], [16, 16]]
STEPS, VOCABULARY = 4, 250
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("device", HOST),
    DeviceType("unit", HOST, recompute="recompute-unit"),
    DeviceType("attention", HOST, recompute="recompute-attention"),
    DeviceType("sse41", "host:sse41-f32"),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("hopper_bf16", "cuda:sm_90", "bf16"),
)
ALONE = ("llama", "gpt2", "qwen3", "qwen3_5", "phi3")
# Model, stage of ZeRO, schedule, groups (units, stage, parts), types by group.
TOGETHER = {
    "llama-zero3": ("llama", 3, "", (), ("unit", "device")),
    "gpt2-1f1b": (
        "gpt2",
        0,
        "1f1b",
        (((0, 2), 0), ((2, 4), 0)),
        ("device", "attention"),
    ),
    "llama-chunks": (
        "llama",
        1,
        "interleaved",
        (((0, 1, 2, 3), 1), ((1, 2, 3, 4), 1)),
        ("unit", "sse41"),
    ),
    "phi3-shared": ("phi3", 0, "", (((0, 4), 0, (1, 1)),), ("unit", "unit")),
    "gpt2-shared": ("gpt2", 1, "", (((0, 4), 1, (3, 1)),), ("device", "sse41")),
}
GPUS = [("gpt2", "ampere", 1e-5), ("llama", "hopper_bf16", 1e-2)]


def make_documents():
    """Ids and targets of each document, by sample."""
    numbers = random.Random(11)
    draw = lambda: numbers.randrange(5, VOCABULARY)
    samples = []
    for lengths in LENGTHS:
        samples.append([])
        for length in lengths:
            ids = [draw() for _ in range(length + 1)]
            targets = [t if numbers.random() < 0.8 else -1 for t in ids[1:]]
            samples[-1].append((ids[:-1], targets))
    return samples


def write(path, samples, with_positions=True):
    data = array.array("i")
    for documents in samples:
        ids, targets, positions = [], [], []
        for own, wanted in documents:
            ids += own
            targets += wanted
            positions += range(len(own))
        rest = jobs.SEQ_LEN - len(ids)
        data.extend(ids + [0] * rest)
        data.extend(targets + [-1] * rest)
        if with_positions:
            data.extend(positions + [0] * rest)
    with open(path, "wb") as file:
        data.tofile(file)
    return path


def measure(workshop, program, name, data, count):
    """Loss and gradients of the first batch."""
    path = workshop.path(f"{name}.safetensors")
    command = ["poplar", "train", program, "--data-ids", data, "--global-batch", count]
    command += ["--batch", 4, "--threads", 1, "--dump-gradients", path]
    output = jobs.run(list(map(str, command)))
    loss = float(output.split("loss ")[1].split()[0])
    return loss, safetensors_reader.read(path)[0]


def compare(ours, theirs):
    """The largest difference, of losses and of gradients, and what is wrong."""
    loss = abs(ours[0] - theirs[0]) / theirs[0]
    total = jobs.norm(x for _, values in theirs[1].values() for x in values)
    worst = max(
        jobs.norm(jobs.difference(ours[1][name][1], values)) / total
        for name, (_, values) in theirs[1].items()
    )
    wrong = [] if loss <= 1e-6 and worst <= 1e-6 else [f"off by {loss:g}, {worst:g}"]
    return loss, worst, wrong


def check_alone(workshop, plain, report, samples):
    packed = write(workshop.path("packed"), samples)
    single = [[document] for documents in samples for document in documents]
    one_by_one = write(workshop.path("single"), single)
    without = write(plain.path("single"), single, with_positions=False)
    for model in ALONE:
        program = workshop.alone(model)
        ours = measure(workshop, program, model, packed, len(samples))
        for name, theirs in (
            ("one by one", measure(workshop, program, f"{model}-1", one_by_one, len(single))),
            ("without", measure(plain, plain.alone(model), model, without, len(single))),
        ):
            loss, worst, wrong = compare(ours, theirs)
            report.check(f"{model} {name}", wrong, f"loss {loss:.1e}, gradients {worst:.1e}")


def main():
    def add(parser):
        parser.add_argument("--gpu", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add)
    # What is dropped depends on the place in the sample.
    options, directory = ["--dropout", "0"], arguments.directory
    workshop = jobs.Workshop(f"{directory}/packed", ["--packing", *options])
    plain, report = jobs.Workshop(f"{directory}/plain", options), jobs.Report()
    samples = make_documents()
    data = write(workshop.path("samples"), samples)
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5, "--data-ids", data]
    if arguments.gpu:
        for model, type, tolerance in GPUS:
            plan = Plan(model, 0, (Rank(3, 2, 3, type=type),), TYPES)
            jobs.follow(workshop, report, f"{model}-{type}", plan, options, tolerance)
        return report.finish()
    check_alone(workshop, plain, report, samples)
    for name, case in TOGETHER.items():
        jobs.follow(workshop, report, name, jobs.plan_six(*case, TYPES), options)
    return report.finish()


main()
