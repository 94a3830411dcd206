#!/usr/bin/env python3
# ===- check_transformers.py - Exchange checkpoints with transformers ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Exchanges checkpoints of tiny models with transformers, in both directions:

  there -> here  saved by transformers, then `poplar train --init`
  here -> there  trained here for some steps, with data and moments, then
                 opened by transformers from the checkpoint directory RUN/latest

and compares on a batch of random tokens, in f32:
  logits     of all positions, max |x - y| <= 1e-4 max |y|
  loss       mean over counted targets, |l - l*| <= 1e-5 |l*|
  gradients  |g - g*| <= 1e-4 |g*| + 1e-7 |all g*| (2-norms) for every tensor

Prints a table and succeeds if every row is within its tolerances. Needs the
packages of requirements.txt and a build of the project:

  python3 -m venv venv
  venv/bin/pip install -r scripts/goldens/requirements.txt
  venv/bin/python scripts/goldens/check_transformers.py \\
    --poplar build/release/bin/poplar
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file

import checks
import make_goldens

LOGITS_TOLERANCE = 1e-4
LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4
STEPS = 5


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def evaluate_here(poplar, program, checkpoint, tokens, out, batch):
    """Loss, logits and gradients of a batch, from a checkpoint."""
    text = run(
        poplar, "train", program, "--init", checkpoint, "--data-ids", tokens,
        "--batch", str(batch), "--global-batch", str(batch),
        "--dump-gradients", f"{out}.gradients", "--dump-logits", f"{out}.logits",
    )  # fmt: skip
    loss = float(re.search(r"^loss (\S+)$", text, re.MULTILINE).group(1))
    return loss, load_file(f"{out}.logits")["logits"], load_file(f"{out}.gradients")


def compare(name, direction, model, ids, targets, ours):
    """Prints a row; True if all of it is within the tolerances."""
    loss, logits, gradients = ours
    with torch.no_grad():
        expected_logits = model.eval()(input_ids=ids).logits
    logits_error = ((logits - expected_logits).abs().max() / expected_logits.abs().max()).item()
    # Dropout is 0 in these models: train() and eval() compute the same.
    model.train().zero_grad()
    expected = make_goldens.mean_loss(model, ids, targets)
    expected.backward()
    loss_error = abs(loss - expected.item()) / expected.item()
    total = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    worst = 0.0
    for name_of, gradient in make_goldens.tensors_of(model, lambda p: p.grad).items():
        error = (gradients[name_of] - gradient).norm()
        bound = GRADIENT_TOLERANCE * gradient.norm() + 1e-7 * total
        worst = max(worst, (error / bound).item())
    # Written so that a NaN fails.
    passed = (
        logits_error <= LOGITS_TOLERANCE and loss_error <= LOSS_TOLERANCE and worst <= 1
    )
    print(
        f"{name:<15} {direction:<13} {logits_error:>10.1e} {loss:>10.6f} "
        f"{expected.item():>12.6f} {loss_error:>10.1e} {worst:>10.3f}  "
        f"{'ok' if passed else 'FAILED'}"
    )
    return passed


def check_directory(checkpoint):
    """What Hugging Face's loaders expect of a checkpoint's files."""
    with open(os.path.join(checkpoint, "config.json")) as file:
        config = json.load(file)
    with safe_open(os.path.join(checkpoint, "model.safetensors"), "pt") as file:
        metadata = file.metadata()
    if not config.get("architectures") or metadata != {"format": "pt"}:
        sys.exit(f"error: {checkpoint}: {config.get('architectures')}, {metadata}")


def exchange(name, poplar, directory):
    def path(*parts):
        return os.path.join(directory, name, *parts)

    batch = 3
    os.makedirs(path())
    theirs = make_goldens.make_model(name)
    theirs.save_pretrained(path("theirs"))
    ids, targets = make_goldens.make_batch(name, batch)
    make_goldens.write_tokens(path("tokens"), ids, targets)

    seq_len = str(make_goldens.SEQ_LEN)
    run(poplar, "import", path("theirs"), "--seq-len", seq_len, "-o", path("model.mlir"))
    run(poplar, "build", path("model.mlir"), "-o", path("program"))

    ours = evaluate_here(
        poplar, path("program"), path("theirs"), path("tokens"), path("theirs"), batch
    )
    passed = compare(name, "there -> here", theirs, ids, targets, ours)

    run(
        poplar, "train", path("program"), "--data-ids", path("tokens"),
        "--batch", str(batch), "--global-batch", str(batch), "--lr", "1e-3",
        "--steps", str(STEPS), "--out", path("run"),
    )  # fmt: skip
    checkpoint = path("run", "latest")
    check_directory(checkpoint)
    model, report = make_goldens.CLASSES[name].from_pretrained(
        checkpoint, dtype=torch.float32, output_loading_info=True
    )
    left = {key: value for key, value in report.items() if value}
    if left:
        sys.exit(f"error: {name}: transformers could not use all tensors: {left}")
    ours = evaluate_here(
        poplar, path("program"), checkpoint, path("tokens"), path("ours"), batch
    )
    return compare(name, "here -> there", model, ids, targets, ours) and passed


def main():
    parser = checks.make_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="models (default: all)")
    arguments = parser.parse_args()
    checks.quiet_libraries()
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, f32\n"
        "                              logits              loss                 gradients\n"
        "model           checkpoint      rel. err       here        there  rel. err  "
        "of toler."
    )
    with tempfile.TemporaryDirectory() as directory:
        results = [
            exchange(name, arguments.poplar, directory)
            for name in arguments.only or make_goldens.CONFIGS | make_goldens.VARIANTS
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
