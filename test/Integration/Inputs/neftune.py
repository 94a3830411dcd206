# ===- neftune.py - Noise on embeddings in training ------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains with the noise of NEFTune and checks that

  noise       is what this script draws: in a batch in which no token comes twice, it
              may as well be added to the table, whose loss and gradients are then those
              of a program without noise
  validation  has none: at a learning rate of 0, its loss is that of a program without,
              and the loss of training is not
  together    ZeRO, pipeline stages, also of several chunks, devices that share units,
              adapters and recomputation follow one device: losses within 1e-5, updates
              as in equivalence.py
  --gpu       a program for GPUs, whose driver is emulated, follows the host"""

import array
import math

import jobs
import safetensors_reader
from counters import draw_noise
from jobs import DeviceType, Plan, Rank

ALPHA, WIDTH, STEPS, SEED = 40, 64, 4, 7
TABLE = "model.embed_tokens.weight"
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("device", HOST),
    DeviceType("unit", HOST, recompute="recompute-unit"),
    DeviceType("attention", HOST, recompute="recompute-attention"),
    DeviceType("sse41", "host:sse41-f32"),
    DeviceType("ampere", "cuda:sm_80"),
)
ADAPTERS = ["--lora-rank", "4", "--lora-alpha", "8", "--lora-targets", "all-linear"]
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
    "llama-shared": ("llama", 0, "", (((0, 4), 0, (1, 1)),), ("unit", "unit")),
    "gpt2-shared": ("gpt2", 1, "", (((0, 4), 1, (3, 1)),), ("device", "sse41")),
}


def measure(workshop, name, checkpoint, data, batch):
    """Loss and gradients of the first batch, in micro-batches of `batch`."""
    path = workshop.path(f"{name}.safetensors")
    command = ["poplar", "train", workshop.alone("llama"), "--init", checkpoint]
    command += ["--data-ids", data, "--global-batch", 4, "--batch", batch, "--threads", 1]
    output = jobs.run(list(map(str, [*command, "--seed", SEED, "--dump-gradients", path])))
    loss = float(output.split("loss ")[1].split()[0])
    return loss, safetensors_reader.read(path)[0]


def check_noise(noisy, plain, report):
    samples, length = 4, jobs.SEQ_LEN
    ids = [(97 * i + 5) % 256 for i in range(samples * length)]
    assert len(set(ids)) == len(ids)
    data = array.array("i")
    for sample in range(samples):
        own = ids[sample * length : (sample + 1) * length]
        data.extend(own + own[1:] + [3])
    path = plain.path("distinct")
    with open(path, "wb") as file:
        data.tofile(file)
    still = ["--steps", 1, "--lr", 0, "--min-lr", 0, "--weight-decay", 0]
    start = plain.train_alone("llama", "start", 1, still).directory + "/latest"
    tensors, _ = safetensors_reader.read_bytes(start + "/model.safetensors")
    dtype, shape, values = tensors[TABLE]
    table = array.array("f", values)
    magnitude = ALPHA / math.sqrt(length * WIDTH)
    for sample in range(samples):
        noise = draw_noise(SEED, 0, sample, length * WIDTH, magnitude)
        for place, value in enumerate(noise):
            row = ids[sample * length + place // WIDTH]
            table[row * WIDTH + place % WIDTH] += value
    shifted = plain.train_alone("llama", "shifted", 1, still).directory + "/latest"
    tensors[TABLE] = (dtype, shape, table.tobytes())
    safetensors_reader.write(shifted + "/model.safetensors", tensors)
    expected, gradients = measure(plain, "expected", shifted, path, 4)
    without, _ = measure(plain, "without", start, path, 4)
    total = jobs.norm(x for _, values in gradients.values() for x in values)
    for batch in 4, 1:
        loss, found = measure(noisy, f"noise-{batch}", start, path, batch)
        error = abs(loss - expected) / expected
        worst = max(
            jobs.norm(jobs.difference(found[name][1], values)) / total
            for name, (_, values) in gradients.items()
        )
        # The noise has to matter.
        passed = error <= 1e-6 and worst <= 1e-5 and abs(without - expected) > 1e-2
        report.check(
            f"noise, batches of {batch}",
            [] if passed else [f"loss {loss:.9g}, expected {expected:.9g}; {worst:g}"],
            f"loss {error:.1e}, gradients {worst:.1e}, without noise {without - expected:+.3f}",
        )


def check_validation(noisy, plain, report):
    still = ["--steps", 2, "--lr", 0, "--min-lr", 0, "--weight-decay", 0, "--eval-every", 1]
    ours, theirs = (
        workshop.train_alone("llama", "validated", 4, still) for workshop in (noisy, plain)
    )
    same = ours.validation_losses == theirs.validation_losses != []
    differs = all(x != y for x, y in zip(ours.losses, theirs.losses))
    wrong = [] if same and differs else [f"{ours.losses} {ours.validation_losses}"]
    report.check("validation without noise", wrong)


def main():
    def add(parser):
        parser.add_argument("--gpu", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add)
    noise = ["--neftune-alpha", str(ALPHA), "--dropout", "0"]
    noisy = jobs.Workshop(f"{arguments.directory}/noisy", noise)
    report = jobs.Report()
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5]
    if arguments.gpu:
        plan = Plan("llama", 0, (Rank(3, 2, 3, type="ampere"),), TYPES)
        jobs.follow(noisy, report, "llama-ampere", plan, options)
        return report.finish()
    plain = jobs.Workshop(f"{arguments.directory}/plain", ["--dropout", "0"])
    check_noise(noisy, plain, report)
    check_validation(noisy, plain, report)
    for name, case in TOGETHER.items():
        jobs.follow(noisy, report, name, jobs.plan_six(*case, TYPES), options)
    adapted = jobs.Workshop(f"{arguments.directory}/adapted", noise + ADAPTERS)
    plan = jobs.plan_six(*TOGETHER["gpt2-1f1b"], TYPES)
    jobs.follow(adapted, report, "gpt2-adapters", plan, options)
    return report.finish()


main()
