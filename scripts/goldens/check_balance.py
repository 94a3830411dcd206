#!/usr/bin/env python3
# ===- check_balance.py - Balanced experts against transformers ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny mixtures of experts with the loss that balances experts, here and in
transformers, whose own models compute it (output_router_logits). There, each sample of
the batch is a micro-batch, and its loss counts as often as it has targets. Samples are
of unlike lengths and padded, with an attention mask there, or packed. Compares, over 20
steps:

  losses   |l - l*| <= 1e-6 |l*| in the first step, 1e-5 |l*| in all of them: what linear
           attention rounds grows with the steps, with and without this loss
  updates  |d - d*| <= 1e-3 |d*| (2-norms), of what training added to all tensors
  without  how far the losses without it are, which has to be more

Prints a row for each model, and one for how much the trainer of transformers makes of
the coefficient where a step has several micro-batches. Needs the packages of
requirements.txt and a build:
  venv/bin/python scripts/goldens/check_balance.py --poplar build/release/bin/poplar"""

import sys
import tempfile

import torch
import transformers

import make_goldens
from golden_training import (
    GOLDENS, LENGTH, STEPS, add_adapter, compare_losses,
    compare_updates, copy_trained, run_cases, train_here, train_there,
)  # fmt: skip

COEFFICIENT = make_goldens.COEFFICIENT
FIRST_TOLERANCE, LOSS_TOLERANCE, UPDATE_TOLERANCE = 1e-6, 1e-5, 1e-3
MODELS = (
    "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_moe", "gpt_oss"
)  # fmt: skip


def make_packed_batch():
    """Ids, targets and positions of samples that documents share; the first has room
    left."""
    ids, targets, positions = make_goldens.make_packed_batch()
    used = sum(make_goldens.DOCUMENTS[0])
    targets[0, used:] = make_goldens.PADDING
    return ids, targets, positions


def packed_loss(model, ids, targets, positions):
    """As make_goldens.balanced_loss; transformers sees by the positions which tokens are
    of one document."""
    counts, loss = (targets >= 0).sum(dim=1), 0
    for row, count in enumerate(counts):
        used = int((targets[row] != make_goldens.PADDING).sum())
        own = [each[row : row + 1, :used] for each in (ids, targets, positions)]
        labels = torch.where(own[1] >= 0, own[1], -100)
        out = model(
            input_ids=own[0], position_ids=own[2], labels=labels, shift_labels=labels, use_cache=False,
            output_router_logits=True,
        )  # fmt: skip
        loss = loss + out.loss * count / counts.sum()
    return loss


def compare(poplar, work, name, is_adapted=False, is_packed=False):
    measure, batch = make_goldens.balanced_loss, make_goldens.make_balanced_batch()
    if is_packed:
        measure, batch = packed_loss, make_packed_batch()
    title = f"{name}{'-lora' * is_adapted}{'-packed' * is_packed}"
    data = work / f"{title}.tokens"
    data.write_bytes(torch.stack(batch, dim=1).to(torch.int32).numpy().astype("<i4").tobytes())
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / name, dtype=torch.float32)
    model.router_aux_loss_coef = COEFFICIENT
    options, more = ["--packing"] * is_packed, []
    if is_adapted:
        model, adapter, more = add_adapter(model, work / "adapter")
        options += adapter
    start = copy_trained(model)
    expected = train_there(model.train(), lambda model: measure(model, *batch))
    balanced = ["--router-aux-loss-coef", str(COEFFICIENT)]
    losses = train_here(poplar, name, work / title, data, [*options, *balanced], more)
    without = train_here(poplar, name, work / f"{title}-plain", data, options, more)
    error = compare_updates(work / title, model, start, is_adapted)
    gaps = compare_losses(losses, expected)
    other = max(compare_losses(without, expected))
    passed = (
        len(losses) == STEPS and gaps[0] <= FIRST_TOLERANCE and max(gaps) <= LOSS_TOLERANCE
        and error <= UPDATE_TOLERANCE and other > 1e-3
    )  # fmt: skip
    print(f"{title:<14} {gaps[0]:>10.1e} {max(gaps):>10.1e} {error:>10.1e} {other:>10.1e}  {'ok' if passed else 'FAILED'}", flush=True)
    return passed


class Gradients(transformers.TrainerCallback):
    def __init__(self, model):
        self.model = model

    def on_pre_optimizer_step(self, *_, **__):
        self.values = [each.grad.clone() for each in self.model.parameters()]


def check_trainer():
    """transformers' trainer adds the balance of each of N micro-batches: as if the
    coefficient were N times as large in a loss that is a mean."""
    count = 6
    torch.manual_seed(0)
    ids = torch.randint(1, 256, (count, LENGTH))
    rows = [{"input_ids": row, "labels": row.clone()} for row in ids]
    for factor in (1, count):
        model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / "mixtral", dtype=torch.float32)
        model.config.output_router_logits = True
        model.router_aux_loss_coef = COEFFICIENT * factor
        if factor == 1:
            with tempfile.TemporaryDirectory() as out:
                options = transformers.TrainingArguments(
                    out, per_device_train_batch_size=1, gradient_accumulation_steps=count, max_steps=1, learning_rate=0.0,
                    max_grad_norm=0, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, logging_strategy="no",
                )  # fmt: skip
                kept = Gradients(model)
                transformers.Trainer(model, options, train_dataset=rows, callbacks=[kept]).train()
            found = torch.cat([each.flatten() for each in kept.values])
            continue
        for row in ids[:, None]:
            (model(input_ids=row, labels=row).loss / count).backward()
        expected = torch.cat([each.grad.flatten() for each in model.parameters()])
    error = ((found - expected).norm() / expected.norm()).item()
    passed = error <= 1e-5
    print(f"trainer        gradients {error:.1e}  {'ok' if passed else 'FAILED'}")
    return passed


def main():
    header = f"{'model':<14} {'first loss':>10} {'losses':>10} {'updates':>10} {'without':>10}"
    cases = [(name,) for name in MODELS] + [("mixtral", True), ("mixtral", False, True)]
    status = run_cases(__doc__, header, compare, cases)
    return status if check_trainer() else 1


if __name__ == "__main__":
    sys.exit(main())
