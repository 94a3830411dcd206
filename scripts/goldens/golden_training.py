# ===- golden_training.py - Goldens trained here and by PyTorch -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains golden models here and by PyTorch with AdamW, from the same weights and on the
same batch, for check_*.py that compare both."""

import csv
import os
import pathlib
import sys
import tempfile

import peft
import torch
from safetensors.torch import load_file

import checks
import make_goldens
from check_transformers import run

STEPS, BATCH, RATE = 20, 3, 1e-3
LENGTH = make_goldens.SEQ_LEN
GOLDENS = checks.ROOT / "test" / "Integration" / "goldens"
TARGETS = ["q_proj", "v_proj"]


def add_adapter(model, directory):
    """The model with an adapter that `directory` gets; options of poplar import and of
    poplar train for it."""
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS, init_lora_weights=False)
    model = peft.get_peft_model(model, config)
    model.save_pretrained(directory)
    options = ["--lora-rank", "4", "--lora-alpha", "8", "--lora-targets", ",".join(TARGETS)]
    return model, options, ["--init-adapter", str(directory)]


def copy_trained(model):
    """By name, the values of what is trained."""
    return {key: value.detach().clone() for key, value in model.named_parameters() if value.requires_grad}


def train_there(model, measure, steps=STEPS):
    """The losses of steps of PyTorch, which `measure` computes of the model."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), weight_decay=0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = measure(model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_here(poplar, name, directory, data, options, more=(), steps=STEPS):
    """The losses of a run in `directory`, on a file of ids."""
    directory.mkdir()
    run(poplar, "import", str(GOLDENS / name), "--seq-len", str(LENGTH), "--dropout", "0", *options,
        "-o", str(directory / "model.mlir"))  # fmt: skip
    run(poplar, "build", str(directory / "model.mlir"), "-o", str(directory / "job"))
    run(poplar, "train", str(directory / "job"), "--init", str(GOLDENS / name), *more, "--data-ids", str(data),
        "--batch", "2", "--global-batch", str(BATCH), "--steps", str(steps), "--lr", str(RATE),
        "--schedule", "constant", "--warmup", "0", "--clip", "1", "--beta2", "0.95", "--weight-decay", "0",
        "--out", str(directory / "run"))  # fmt: skip
    with open(directory / "run" / "metrics.csv") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def compare_updates(directory, model, start, is_adapted, weights="model.safetensors"):
    """How far the run in `directory` is off from what training added to `start` in
    PyTorch, relative to it (2-norms). `weights` is the file of those that are no adapters."""
    latest = directory / "run" / "latest"
    found = load_file(latest / ("adapter_model.safetensors" if is_adapted else weights))
    if is_adapted:
        after = {key.replace(".default", ""): value for key, value in model.named_parameters() if value.requires_grad}
        start = {key.replace(".default", ""): value for key, value in start.items()}
    else:
        after = make_goldens.tensors_of(model, lambda p: p)
        start = make_goldens.name_as_checkpoints(model, start)
        after = {key: value for key, value in after.items() if key in start}
        if set(found) != set(start):
            sys.exit(f"error: other weights are trained: {sorted(set(found) ^ set(start))}")
    off = size = 0.0
    for key, value in after.items():
        update = value.detach() - start[key]
        off += float((found[key] - start[key] - update).square().sum())
        size += float(update.square().sum())
    return (off / size) ** 0.5


def compare_losses(ours, theirs):
    """How far each loss is off, relative to theirs."""
    return [abs(x - y) / y for x, y in zip(ours, theirs)]


def run_cases(description, header, compare, cases):
    """Calls `compare` with the binary, a directory for all, and each of the cases; it tells
    whether that passed. The exit status of the script."""
    arguments = checks.make_parser(description).parse_args()
    checks.quiet_libraries()
    print(header)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        os.environ["POPLAR_CACHE"] = str(work / "cache")
        passed = [compare(arguments.poplar, work, *case) for case in cases]
    return 0 if all(passed) else 1
