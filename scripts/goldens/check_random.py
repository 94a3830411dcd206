#!/usr/bin/env python3
# ===- check_random.py - Random sizes of all families against transformers -===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws models as test/Integration/Inputs/random_job.py does: families, odd numbers
of heads, columns and tokens, windows of one token, one block; also documents that
share samples, some of whose targets count. Makes each in transformers and compares a
batch, in f32, by the tolerances of check_transformers.py:
  logits     of all positions that count
  loss       mean over counted targets
  gradients  of every tensor

Prints a row for each seed and succeeds if every row is within its tolerances. Needs
the packages of requirements.txt and a build of the project.
"""

import os
import re
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

import checks
import make_goldens
from check_transformers import GRADIENT_TOLERANCE, LOGITS_TOLERANCE, LOSS_TOLERANCE, run

sys.path.append(
    os.path.join(os.path.dirname(__file__), "..", "..", "test", "Integration", "Inputs")
)
import random_job

BATCH = 3
# What changes no model; all that is left is how the program is imported.
PLAIN = ("adapters", "states", "dropout", "text")


def make_model(seed, job, directory):
    """In transformers, with random weights."""
    transformers.set_seed(seed)
    config = transformers.AutoConfig.for_model(**job.model.config)
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, job.model.config["architectures"][0])(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(directory)
    return model.train()


def read_samples(job):
    """Ids, targets and positions of a batch."""
    rows = 3 if job.model.packing else 2
    with open(job.path, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.int32)
    data = data.reshape(-1, rows, job.model.seq_len)[:BATCH].long()
    positions = data[:, 2] if rows == 3 else torch.arange(job.model.seq_len)
    return data[:, 0], data[:, 1], positions.expand(len(data), -1)


def compute_logits(model, job, ids, positions):
    """Of documents that share samples one by one, each a sequence of its own: no mask
    is made here, and none can be wrong."""
    if not job.model.packing:
        return model(input_ids=ids).logits.float()
    rows = []
    for row, places in zip(ids, positions):
        ends = [n for n in range(1, len(places)) if places[n] == 0] + [len(places)]
        parts, begin = [], 0
        for end in ends:
            parts.append(model(input_ids=row[None, begin:end]).logits.float()[0])
            begin = end
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def compare(poplar, seed, directory):
    job = random_job.draw_job(seed, PLAIN)
    path = lambda name: os.path.join(directory, name)
    job.path = path("data")
    random_job.write_data(job.path, job)
    ids, targets, positions = read_samples(job)
    if not (targets >= 0).any():
        print(f"{seed:>6} {job.model.family:<15} none of the targets counts", flush=True)
        return True
    model = make_model(seed, job, path("theirs"))
    run(poplar, "import", path("theirs"), *map(str, job.model.options), "-o", path("model.mlir"))
    run(poplar, "build", path("model.mlir"), "--no-kv-cache", "-o", path("program"))
    command = [poplar, "train", path("program"), "--init", path("theirs"), "--data-ids", job.path]
    command += ["--batch", "2", "--global-batch", str(BATCH), "--peak-gflops", "1"]
    text = run(*command, "--dump-gradients", path("gradients"), "--dump-logits", path("logits"))
    found = re.search(r"^loss (\S+)$", text, re.MULTILINE)
    logits = load_file(path("logits"))["logits"]
    gradients = load_file(path("gradients"))

    expected = compute_logits(model, job, ids, positions)
    counted = targets >= 0
    loss = torch.nn.functional.cross_entropy(
        expected.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    ) / counted.sum()
    loss.backward()
    logits_error = (logits - expected).abs().max() / expected.abs().max() / LOGITS_TOLERANCE
    loss_error = abs(float(found[1]) - loss.item()) / loss.item() / LOSS_TOLERANCE
    theirs = make_goldens.tensors_of(
        model, lambda p: p.grad if p.grad is not None else torch.zeros_like(p)
    )
    total = torch.stack([g.norm() for g in theirs.values()]).norm()
    worst, where = 0.0, ""
    for name, gradient in theirs.items():
        error = (gradients[name] - gradient).norm()
        share = (error / (GRADIENT_TOLERANCE * gradient.norm() + 1e-6 * total)).item()
        if not share <= worst:
            worst, where = share, name
    # Written so that a NaN fails.
    passed = logits_error <= 1 and loss_error <= 1 and worst <= 1
    print(f"{seed:>6} {job.model.family:<15} {job.model.seq_len:>4} {loss.item():>10.6f} "
          f"{logits_error:>8.3f} {loss_error:>8.3f} {worst:>8.3f}  "
          f"{'ok' if passed else 'FAILED ' + where}", flush=True)  # fmt: skip
    if not passed:
        print(f"    {job.describe()}")
    return passed


def main():
    parser = checks.make_parser(__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first model")
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    checks.quiet_libraries()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, f32; errors "
          "as parts of the tolerance\n  seed family          tokens     loss   logits"
          "     loss gradients")  # fmt: skip
    passed = True
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        with tempfile.TemporaryDirectory() as directory:
            passed &= compare(arguments.poplar, seed, directory)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
