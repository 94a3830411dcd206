#!/usr/bin/env python3
# ===- check_neftune.py - Noise on embeddings against transformers ---------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny models with the noise of NEFTune here and in transformers, whose own hook
adds it. Only what the hook draws between its bounds is drawn here. Compares, over 20
steps of AdamW:

  magnitude  the bounds between which the hook draws, with those of nn.noise
  losses     |l - l*| <= 1e-4 |l*| in each step
  updates    |d - d*| <= 1 % |d*| (2-norms), of what training added to all tensors
  noise      without it, the losses are others

Prints a row for each model. Needs the packages of requirements.txt and a build:
  venv/bin/python scripts/goldens/check_neftune.py --poplar build/release/bin/poplar"""

import csv
import os
import pathlib
import re
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file

import checks
import make_goldens
from check_transformers import run
from counters import draw_noise

ALPHA, STEPS, SEED, BATCH, RATE = 20, 20, 5, 3, 1e-3
LENGTH = make_goldens.SEQ_LEN
LOSS_TOLERANCE, UPDATE_TOLERANCE = 1e-4, 1e-2
# Learned positions; embeddings that are multiplied behind the noise and in front of it.
MODELS = ("llama", "gpt2", "gpt_neox", "granite", "gemma3", "mixtral")
GOLDENS = checks.ROOT / "test" / "Integration" / "goldens"
TARGETS = ["q_proj", "v_proj"]


class Noise:
    """Stands for torch.Tensor.uniform_, which the hook calls once in a step."""

    def __init__(self):
        self.step, self.bounds = 0, set()

    def __enter__(self):
        self.drawn, noise = torch.Tensor.uniform_, self

        def draw(tensor, low, high):
            noise.bounds.add((float(low), float(high)))
            samples, elements = tensor.shape[0], tensor[0].numel()
            values = [draw_noise(SEED, noise.step, i, elements, float(high)) for i in range(samples)]
            noise.step += 1
            return tensor.copy_(torch.tensor(values).view(tensor.shape))

        torch.Tensor.uniform_ = draw
        return self

    def __exit__(self, *_):
        torch.Tensor.uniform_ = self.drawn


def train_there(model, ids, targets):
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), weight_decay=0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = make_goldens.mean_loss(model, ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_here(poplar, name, directory, options, more=()):
    run(poplar, "import", str(GOLDENS / name), "--seq-len", str(LENGTH), "--dropout", "0", *options,
        "-o", str(directory / "model.mlir"))  # fmt: skip
    run(poplar, "build", str(directory / "model.mlir"), "-o", str(directory / "job"))
    run(poplar, "train", str(directory / "job"), "--init", str(GOLDENS / name), *more, "--data-ids",
        str(GOLDENS / name / "batch3.tokens"), "--batch", "2", "--global-batch", str(BATCH), "--steps", str(STEPS),
        "--lr", str(RATE), "--schedule", "constant", "--warmup", "0", "--clip", "1", "--beta2", "0.95",
        "--weight-decay", "0", "--seed", str(SEED), "--out", str(directory / "run"))  # fmt: skip
    with open(directory / "run" / "metrics.csv") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def compare(poplar, name, work, is_adapted):
    ids, targets = make_goldens.make_batch(name, BATCH)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / name, dtype=torch.float32)
    options, more = [], []
    title = f"{name}-lora" if is_adapted else name
    noisy, plain = work / title, work / f"{title}-plain"
    noisy.mkdir(), plain.mkdir()
    if is_adapted:
        torch.manual_seed(1)
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS, init_lora_weights=False)
        model = peft.get_peft_model(model, config)
        model.save_pretrained(work / "adapter")
        options = ["--lora-rank", "4", "--lora-alpha", "8", "--lora-targets", ",".join(TARGETS)]
        more = ["--init-adapter", str(work / "adapter")]
    start = {key: value.detach().clone() for key, value in model.named_parameters() if value.requires_grad}
    transformers.integrations.neftune.activate_neftune(model, ALPHA)
    with Noise() as noise:
        expected = train_there(model.train(), ids, targets)
    without = train_here(poplar, name, plain, options, more)
    losses = train_here(poplar, name, noisy, [*options, "--neftune-alpha", str(ALPHA)], more)
    magnitude = float(re.search(r"nn[.]noise .* magnitude (\S+)", (noisy / "model.mlir").read_text()).group(1))
    ((_, bound),) = noise.bounds
    latest = noisy / "run" / "latest"
    found = load_file(latest / ("adapter_model.safetensors" if is_adapted else "model.safetensors"))
    off = size = 0.0
    if is_adapted:
        after = {key.replace(".default", ""): value for key, value in model.named_parameters() if value.requires_grad}
        start = {key.replace(".default", ""): value for key, value in start.items()}
    else:
        after = make_goldens.tensors_of(model, lambda p: p)
        start = make_goldens.name_as_checkpoints(model, start)
    for key, value in after.items():
        update = value.detach() - start[key]
        off += float((found[key] - start[key] - update).square().sum())
        size += float(update.square().sum())
    gap = max(abs(x - y) / y for x, y in zip(losses, expected))
    other = max(abs(x - y) / y for x, y in zip(without, expected))
    error = (off / size) ** 0.5
    passed = (
        len(losses) == STEPS and abs(magnitude / bound - 1) <= 1e-6
        and gap <= LOSS_TOLERANCE and error <= UPDATE_TOLERANCE and other > 100 * LOSS_TOLERANCE
    )  # fmt: skip
    print(f"{title:<14} {magnitude:>10.6f} {bound:>10.6f} {gap:>10.1e} {error:>10.1e} {other:>10.1e}  "
          f"{'ok' if passed else 'FAILED'}", flush=True)  # fmt: skip
    return passed


def main():
    arguments = checks.make_parser(__doc__).parse_args()
    checks.quiet_libraries()
    print(f"{'model':<14} {'magnitude':>10} {'bound':>10} {'losses':>10} {'updates':>10} {'without':>10}")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        os.environ["POPLAR_CACHE"] = str(work / "cache")
        passed = [compare(arguments.poplar, name, work, False) for name in MODELS]
        passed.append(compare(arguments.poplar, "llama", work, True))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
