#!/usr/bin/env python3
# ===- check_transformers.py - Exchange checkpoints with transformers ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a tiny model of every family here, opens its checkpoint directory in
transformers and compares; then lets transformers save a checkpoint and starts
training from it here.

Both directions compare the mean loss over a batch of random tokens, and the
gradients that follow from the logits of every position: equal gradients at
all tensors leave no room for different logits.

Needs the packages of requirements.txt and a build of the project:
  scripts/goldens/check_transformers.py --poplar build/release/bin/poplar
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

import make_goldens

LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def poplar_gradients(poplar, program, checkpoint, tokens, out, batch):
    run(
        poplar, "train", program, "--init", checkpoint, "--data-ids", tokens,
        "--batch", str(batch), "--global-batch", str(batch),
        "--dump-gradients", out,
    )  # fmt: skip
    text = run(
        poplar, "train", program, "--init", checkpoint, "--data-ids", tokens,
        "--batch", str(batch), "--global-batch", str(batch), "--dump-loss",
    )  # fmt: skip
    loss = float(re.findall(r"[-+0-9.e]+", text)[-1])
    return loss, load_file(out)


def compare(what, model, ids, targets, loss, gradients):
    model.zero_grad()
    expected = make_goldens.mean_loss(model, ids, targets)
    expected.backward()
    worst = 0.0
    total = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    for name, parameter in model.named_parameters():
        error = (gradients[name] - parameter.grad).norm()
        bound = GRADIENT_TOLERANCE * parameter.grad.norm() + 1e-7 * total
        worst = max(worst, (error / bound).item())
    close = abs(loss - expected.item()) <= LOSS_TOLERANCE * expected.item()
    passed = close and worst <= 1
    print(
        f"{'ok  ' if passed else 'FAIL'} {what}: loss {loss:.7g}, transformers "
        f"{expected.item():.7g}; worst gradient at {worst:.3f} of its tolerance"
    )
    return passed


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

    loss, gradients = poplar_gradients(
        poplar, path("program"), path("theirs"), path("tokens"),
        path("from-theirs.safetensors"), batch,
    )  # fmt: skip
    what = f"{name}, saved by transformers, trained here"
    passed = compare(what, theirs, ids, targets, loss, gradients)

    run(
        poplar, "train", path("program"), "--data-ids", path("tokens"),
        "--batch", str(batch), "--global-batch", str(batch), "--steps", "5",
        "--out", path("run"),
    )  # fmt: skip
    ours = path("run", "latest")
    model = make_goldens.CLASSES[name].from_pretrained(ours, dtype=torch.float32)
    loss, gradients = poplar_gradients(
        poplar, path("program"), ours, path("tokens"),
        path("from-ours.safetensors"), batch,
    )  # fmt: skip
    what = f"{name}, trained here, opened by transformers"
    return compare(what, model.train(), ids, targets, loss, gradients) and passed


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    default = os.path.join(here, "..", "..", "build", "release", "bin", "poplar")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=os.path.normpath(default))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as directory:
        results = [
            exchange(name, arguments.poplar, directory)
            for name in make_goldens.CONFIGS
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
