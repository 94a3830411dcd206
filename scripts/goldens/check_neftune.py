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

import re
import sys

import torch
import transformers

import make_goldens
from counters import draw_noise
from golden_training import (
    BATCH, GOLDENS, STEPS, add_adapter, compare_losses,
    compare_updates, copy_trained, run_cases, train_here, train_there,
)  # fmt: skip

ALPHA, SEED = 20, 5
LOSS_TOLERANCE, UPDATE_TOLERANCE = 1e-4, 1e-2
# Learned positions; embeddings that are multiplied behind the noise and in front of it.
MODELS = ("llama", "gpt2", "gpt_neox", "granite", "gemma3", "mixtral")


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


def compare(poplar, work, name, is_adapted):
    ids, targets = make_goldens.make_batch(name, BATCH)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / name, dtype=torch.float32)
    options, more = [], []
    title = f"{name}-lora" if is_adapted else name
    noisy, plain = work / title, work / f"{title}-plain"
    if is_adapted:
        model, adapter, more = add_adapter(model, work / "adapter")
        options += adapter
    start = copy_trained(model)
    transformers.integrations.neftune.activate_neftune(model, ALPHA)
    with Noise() as noise:
        expected = train_there(model.train(), lambda model: make_goldens.mean_loss(model, ids, targets))
    data, more = GOLDENS / name / "batch3.tokens", [*more, "--seed", str(SEED)]
    without = train_here(poplar, name, plain, data, options, more)
    losses = train_here(poplar, name, noisy, data, [*options, "--neftune-alpha", str(ALPHA)], more)
    magnitude = float(re.search(r"nn[.]noise .* magnitude (\S+)", (noisy / "model.mlir").read_text()).group(1))
    ((_, bound),) = noise.bounds
    error = compare_updates(noisy, model, start, is_adapted)
    gap = max(compare_losses(losses, expected))
    other = max(compare_losses(without, expected))
    passed = (
        len(losses) == STEPS and abs(magnitude / bound - 1) <= 1e-6
        and gap <= LOSS_TOLERANCE and error <= UPDATE_TOLERANCE and other > 100 * LOSS_TOLERANCE
    )  # fmt: skip
    print(f"{title:<14} {magnitude:>10.6f} {bound:>10.6f} {gap:>10.1e} {error:>10.1e} {other:>10.1e}  "
          f"{'ok' if passed else 'FAILED'}", flush=True)  # fmt: skip
    return passed


def main():
    header = f"{'model':<14} {'magnitude':>10} {'bound':>10} {'losses':>10} {'updates':>10} {'without':>10}"
    cases = [(name, False) for name in MODELS] + [("llama", True)]
    return run_cases(__doc__, header, compare, cases)


if __name__ == "__main__":
    sys.exit(main())
