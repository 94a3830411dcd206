#!/usr/bin/env python3
# ===- check_lossy.py - Lossy gradients against PyTorch --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny-llama on two ranks of two nodes in stage 0, with exact gradients and
with such in blocks of int8 with error feedback (docs/lossy-wires.md), here and in
PyTorch: gradients are transformers', and what becomes of them is written again
below. From the same weights, on the same batches, at a constant learning rate
without warm-up. Compares losses step by step:

  exact     |l - l*| <= 1e-4 |l*| for the first steps: later ones differ, because at
            high learning rates small differences grow from step to step
  int8      the same

and prints, of every step, the losses and how far those with int8 are from the
exact ones, here and there. With --seeds, other data, and only what PyTorch makes
of it: how often exact and rounded curves jump, and with what kind of rounding.

Needs the packages of requirements.txt and a build of the project:
  venv/bin/python scripts/goldens/check_lossy.py --poplar build/release/bin/poplar
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BLOCK = 256
PARAMETER_ALIGNMENT, SHARD_ALIGNMENT = 32, 16
BETA1, BETA2, EPSILON, DECAY, CLIP = 0.9, 0.95, 1e-8, 0.1, 1.0
TOLERANCE, COMPARED = 1e-4, 5


def run(*command, **environment):
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment}
    )
    if result.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def round_blocks(values):
    """What the wire carries of them, in blocks of int8."""
    count = values.numel()
    blocks = torch.nn.functional.pad(values, (0, -count % BLOCK)).view(-1, BLOCK)
    largest = blocks.abs().amax(1, keepdim=True)
    rounded = torch.round(blocks * (127 / largest)) * (largest / 127)
    return torch.where(largest < 1e-35, 0, rounded).flatten()[:count]


class Wire:
    """Sums of two ranks' gradients of a bucket, each of which owns a part. `feeds`
    says whether what rounding takes away is kept; `legs`, what is rounded: what
    goes to the owner ("send"), and the sum that comes back ("sum")."""

    def __init__(self, elements, feeds=True, legs=("send", "sum")):
        middle = round(elements / 2 / SHARD_ALIGNMENT) * SHARD_ALIGNMENT
        self.parts = [slice(0, middle), slice(middle, elements)]
        self.feeds, self.legs = feeds, legs
        self.kept = {
            (leg, part): torch.zeros(self.parts[part].stop - self.parts[part].start)
            for leg in ("send", "sum")
            for part in (0, 1)
        }

    def carry(self, leg, part, values):
        if leg not in self.legs:
            return values
        if self.feeds:
            values = values + self.kept[leg, part]
        carried = round_blocks(values)
        self.kept[leg, part] = values - carried
        return carried

    def add(self, gradients):
        total = torch.empty_like(gradients[0])
        for part, where in enumerate(self.parts):
            sent = self.carry("send", part, gradients[1 - part][where])
            total[where] = self.carry("sum", part, gradients[part][where] + sent)
        return total


EXACT, INT8 = "exact", "int8"
KINDS = {
    EXACT: {"legs": ()},
    INT8: {},
    "int8, no feedback": {"feeds": False},
    "int8, what is sent": {"legs": ("send",)},
    "int8, sums": {"legs": ("sum",)},
}


class Trainer:
    """AdamW on flat buckets, as lists of parameters."""

    def __init__(self, model, buckets, rate, kind, steps):
        self.model, self.rate = model, rate
        names = dict(model.named_parameters())
        self.buckets, self.wires = [], []
        for bucket in buckets:
            offset, places = 0, []
            for name in bucket:
                places.append((names[name], offset))
                offset += -(-names[name].numel() // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
            self.buckets.append((places, offset))
            self.wires.append(Wire(offset, **KINDS[kind]))
        self.moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in names.values()}
        self.number, self.losses, self.norms, self.updates = 0, [], [], []

    def flatten(self, places, elements):
        flat = torch.zeros(elements)
        for parameter, offset in places:
            flat[offset : offset + parameter.numel()] = parameter.grad.flatten()
        return flat

    def step(self, ids, targets):
        """Each rank takes half of the samples."""
        half, count, loss = len(ids) // 2, targets.numel(), 0.0
        flats = []
        for samples in (slice(0, half), slice(half, None)):
            self.model.zero_grad()
            logits = self.model(input_ids=ids[samples]).logits
            total = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets[samples].flatten(), reduction="sum"
            )
            (total / count).backward()
            loss += total.item() / count
            flats.append([self.flatten(*bucket) for bucket in self.buckets])
        self.losses.append(loss)
        sums = [wire.add(pair) for wire, pair in zip(self.wires, zip(*flats))]
        norm = torch.stack([s.double().norm() for s in sums]).norm().item()
        self.norms.append(norm)
        self.number += 1
        for (places, _), flat in zip(self.buckets, sums):
            flat *= CLIP / norm if norm > CLIP else 1.0
            for parameter, offset in places:
                gradient = flat[offset : offset + parameter.numel()].view_as(parameter)
                self.update(parameter, gradient)

    @torch.no_grad()
    def update(self, parameter, gradient):
        first, second = self.moments[parameter]
        first.lerp_(gradient, 1 - BETA1)
        second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        if parameter.dim() == 2:
            parameter.mul_(1 - self.rate * DECAY)
        mean = first / (1 - BETA1**self.number)
        spread = (second / (1 - BETA2**self.number)).sqrt_().add_(EPSILON)
        parameter.sub_(self.rate * mean / spread)


def make_batches(arguments, seed):
    """Ids and targets of all steps, from anywhere in the text."""
    with open(os.path.join(ROOT, "examples", "data", "corpus.txt"), "rb") as file:
        text = numpy.frombuffer(file.read(), dtype=numpy.uint8).astype(numpy.int64)
    generator = numpy.random.default_rng(seed)
    begins = generator.integers(
        0, len(text) - arguments.seq_len, size=(arguments.steps, arguments.batch)
    )
    samples = torch.from_numpy(text[begins[..., None] + numpy.arange(arguments.seq_len + 1)])
    return samples[..., :-1].contiguous(), samples[..., 1:].contiguous()


def make_model(seed):
    torch.manual_seed(seed)
    with open(os.path.join(ROOT, "examples", "models", "tiny-llama.json")) as file:
        config = transformers.LlamaConfig(**json.load(file))
    return transformers.LlamaForCausalLM(config).train()


def train_there(arguments, buckets, seed, kind, ids, targets):
    trainer = Trainer(make_model(seed), buckets, arguments.lr, kind, arguments.steps)
    for step in range(arguments.steps):
        trainer.step(ids[step], targets[step])
    return trainer


class Here:
    """The project's jobs, exact and with int8."""

    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, directory
        model = make_model(arguments.seed)
        model.save_pretrained(self.path("init"))
        run(arguments.poplar, "import", self.path("init"), "--seq-len",
            arguments.seq_len, "-o", self.path("model.mlir"))  # fmt: skip
        cluster = {
            "device_types": {"host": {"target": arguments.target, "memory": 1 << 32,
                                      "precision": "f32"}},
            "nodes": [{"name": f"n{i}", "devices": {"host": 1}} for i in (0, 1)],
            "links": [{"between": "nodes", "latency": 1e-4, "bandwidth": 1e9}],
            "profiles": [{"device_type": "host", "stage": 0, "micro_batches": [1, 4],
                          "seconds": [0.1, 0.4]}],
        }  # fmt: skip
        with open(self.path("cluster.json"), "w") as file:
            json.dump(cluster, file)
        run(arguments.poplar, "plan", "--model", self.path("model.mlir"), "--cluster",
            self.path("cluster.json"), "--global-batch", arguments.batch, "--zero", 0,
            "--leave-out", "none", "--state", "equal", "-o", self.path("exact.mlir"))  # fmt: skip
        with open(self.path("exact.mlir")) as file:
            text = file.read()
        self.buckets = [
            re.findall(r'@"?([\w.]+)"?', names)
            for names in re.findall(r"zero\.bucket @\S+ \[([^]]*)\]", text)
        ]
        with open(self.path("int8.mlir"), "w") as file:
            file.write(re.sub(r'(zero\.plan [^{]*?policy "\w+")', r"\1 gradient_wire i8", text))

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def train(self, kind, ids, targets):
        arguments = self.arguments
        both = torch.stack([ids.flatten(0, 1), targets.flatten(0, 1)], 1).to(torch.int32)
        with open(self.path("tokens"), "wb") as file:
            file.write(both.contiguous().numpy().astype("<i4").tobytes())
        run(arguments.poplar, "build", self.path(kind + ".mlir"), "-o", self.path(kind))
        run(self.path(kind, "launch.sh"), "train", "--init", self.path("init"), "--data-ids",
            self.path("tokens"), "--steps", arguments.steps, "--lr", arguments.lr,
            "--warmup", 0, "--schedule", "constant", "--clip", CLIP, "--skip-save",
            "--eval-every", 0, "--out", self.path("run-" + kind), POPLAR_LOCAL="1",
            POPLAR_FAKE_NODES="0,1")  # fmt: skip
        with open(self.path("run-" + kind, "metrics.csv"), newline="") as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]


def compare(arguments, here):
    ids, targets = make_batches(arguments, arguments.seed)
    there = {kind: train_there(arguments, here.buckets, arguments.seed, kind, ids, targets)
             for kind in (EXACT, INT8)}  # fmt: skip
    ours = {kind: here.train(kind, ids, targets) for kind in (EXACT, INT8)}
    print("| step | exact, here | PyTorch | int8, here | PyTorch | int8 to exact, here "
          "| PyTorch | norm, PyTorch |\n|" + " --- |" * 8)  # fmt: skip
    for step in range(arguments.steps):
        a, b = ours[EXACT][step], there[EXACT].losses[step]
        c, d = ours[INT8][step], there[INT8].losses[step]
        print(f"| {step + 1} | {a:.5f} | {b:.5f} | {c:.5f} | {d:.5f} | "
              f"{100 * (c / a - 1):+.2f} % | {100 * (d / b - 1):+.2f} % | "
              f"{there[INT8].norms[step]:.2f} |")  # fmt: skip
    passed = True
    for kind in (EXACT, INT8):
        errors = [abs(x / y - 1) for x, y in zip(ours[kind], there[kind].losses)]
        close = max(errors[:COMPARED]) <= TOLERANCE
        passed &= close
        print(f"{kind}: the first {COMPARED} losses are within {max(errors[:COMPARED]):.1e}, "
              f"all within {max(errors):.1e}{'' if close else ': FAILED'}")  # fmt: skip
    return passed


def survey(arguments, buckets):
    """Jumps: steps whose loss is more than a tenth above the mean of the two before
    and behind it."""
    print("| rounding | jumps | largest | runs with one | largest difference from exact |\n|"
          + " --- |" * 5)  # fmt: skip
    exact = {}
    for kind in KINDS:
        jumps, differences = [], []
        for seed in range(1, arguments.seeds + 1):
            ids, targets = make_batches(arguments, seed)
            losses = train_there(arguments, buckets, seed, kind, ids, targets).losses
            exact.setdefault(seed, losses)
            differences.append(max(abs(x / y - 1) for x, y in zip(losses, exact[seed])))
            around = [(losses[i - 1] + losses[i + 1]) / 2 for i in range(1, len(losses) - 1)]
            jumps.append([x / y - 1 for x, y in zip(losses[1:-1], around) if x > 1.1 * y])
        print(f"| {kind} | {sum(map(len, jumps))} | "
              f"{100 * max((max(j) for j in jumps if j), default=0):.0f} % | "
              f"{sum(map(bool, jumps))} of {len(jumps)} | {100 * max(differences):.0f} % |",
              flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--target", default="host")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0, help="survey as many, in PyTorch")
    arguments = parser.parse_args()
    arguments.poplar = os.path.abspath(arguments.poplar)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        here = Here(arguments, directory)
        if arguments.seeds:
            survey(arguments, here.buckets)
            return 0
        return 0 if compare(arguments, here) else 1


if __name__ == "__main__":
    sys.exit(main())
