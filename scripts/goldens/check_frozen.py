#!/usr/bin/env python3
# ===- check_frozen.py - Parts of the weights against PyTorch ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a part of the weights of tiny models, by --train-parameters here and by
requires_grad in PyTorch, over 30 steps of AdamW, and merges the run. Compares

  weights    which are trained: the same
  losses     |l - l*| <= 1e-4 |l*| in each step
  updates    |d - d*| <= 1 % |d*| (2-norms), of what training added to these weights
  frozen     the others of `poplar merge` have the bytes of the checkpoint
  merged     transformers computes the loss of the trained model with it

Prints a row for each case. Needs the packages of requirements.txt and a build:
  venv/bin/python scripts/goldens/check_frozen.py --poplar build/release/bin/poplar"""

import os
import re
import sys

import torch
import transformers
from safetensors.torch import load_file

import make_goldens
from check_transformers import run
from golden_training import (
    BATCH, GOLDENS, compare_losses, compare_updates, copy_trained, run_cases, train_here, train_there,
)  # fmt: skip

STEPS = 30
LOSS_TOLERANCE, UPDATE_TOLERANCE = 1e-4, 1e-2
CASES = (
    # One of two layers that are alike, and the head; the embedding is frozen.
    ("llama", [r"model\.layers\.1\..*", r"lm_head.*"]),
    # The embedding alone: gradients pass through all that is frozen.
    ("llama", [r".*embed_tokens.*"]),
    # Norms, biases (BitFit), and an embedding that is the head, too.
    ("qwen3", [r".*norm\.weight"]),
    ("gpt2", [r".*bias"]),
    ("gpt2", [r"transformer\.wte\.weight", r"transformer\.h\.0\.attn\.c_attn\.weight"]),
    ("gpt_neox", [r".*\.layers\.0\.attention\..*"]),
    # Routers and experts of a layer; transformers stacks experts.
    ("mixtral", [r"lm_head\.weight", r"model\.layers\.1\.block_sparse_moe\.(gate|experts).*"]),
    ("gpt_oss", [r".*\.layers\.0\.mlp\.experts.*"]),
    # A model of text in one that reads pictures.
    ("gemma3_multimodal", [r"model\.language_model\.layers\.[01]\..*"]),
    # Linear attention.
    ("qwen3_5", [r".*\.linear_attn\.in_proj.*"]),
)


def freeze(model, patterns):
    """Leaves gradients to what a pattern names as the module or as the checkpoint does."""
    for name, parameter in model.named_parameters():
        names = [name, *make_goldens.name_as_checkpoints(model, {name: parameter.detach()})]
        parameter.requires_grad_(any(re.fullmatch(p, n) for p in patterns for n in names))


def check_merged(poplar, directory, name, measure, expected):
    """What is wrong with the merged model; empty if nothing."""
    run(poplar, "merge", str(directory / "run"), "-o", str(directory / "merged"))
    base, merged = (load_file(each / "model.safetensors") for each in (GOLDENS / name, directory / "merged"))
    trained = load_file(directory / "run" / "latest" / "trained.safetensors")
    own = {key.replace("language_model.", "", 1): key for key in base}
    changed = {key for key in base if not torch.equal(base[key].view(torch.uint8), merged[key].view(torch.uint8))}
    if set(base) != set(merged) or changed - {own.get(key, key) for key in trained}:
        return "frozen weights differ"
    model = transformers.AutoModelForCausalLM.from_pretrained(directory / "merged", dtype=torch.float32)
    with torch.no_grad():
        loss = measure(model).item()
    return "" if abs(loss / expected - 1) <= LOSS_TOLERANCE else f"the merged model has the loss {loss}"


def compare(poplar, work, name, patterns):
    ids, targets = make_goldens.make_batch(name, BATCH)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / name, dtype=torch.float32)
    freeze(model, patterns)
    start, measure = copy_trained(model), lambda model: make_goldens.mean_loss(model, ids, targets)
    expected = train_there(model.train(), measure, STEPS)
    with torch.no_grad():
        last = measure(model.eval()).item()
    directory = work / f"{name}-{len(os.listdir(work))}"
    options = [word for pattern in patterns for word in ("--train-parameters", pattern)]
    losses = train_here(poplar, name, directory, GOLDENS / name / "batch3.tokens", options, steps=STEPS)
    error = compare_updates(directory, model, start, False, "trained.safetensors")
    gap = max(compare_losses(losses, expected))
    wrong = check_merged(poplar, directory, name, measure, last)
    passed = len(losses) == STEPS and gap <= LOSS_TOLERANCE and error <= UPDATE_TOLERANCE and not wrong
    fell = losses[0] - losses[-1]
    print(f"{name:<18} {sum(p.numel() for p in start.values()):>9,} {fell:>7.3f} {gap:>9.1e} {error:>9.1e}  "
          f"{'ok' if passed else 'FAILED ' + wrong}  {' '.join(patterns)}", flush=True)  # fmt: skip
    return passed


def main():
    header = f"{'model':<18} {'trained':>9} {'fell':>7} {'losses':>9} {'updates':>9}"
    return run_cases(__doc__, header, compare, CASES)


if __name__ == "__main__":
    sys.exit(main())
