#!/usr/bin/env python3
# ===- make_sampling_goldens.py - What transformers would draw from --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes unittests/Runtime/SamplingGoldens.inc: of random logits and settings of
sampling, the probabilities of all tokens by the logits processors of transformers,
in the order of its generate().

  pip install -r scripts/goldens/requirements.txt
  python3 scripts/goldens/make_sampling_goldens.py"""

import os

import torch
import transformers
from transformers.generation import logits_process as process

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SETTINGS = [
    (1.0, 0, 1.0, 0.0), (0.7, 0, 1.0, 0.0), (1.0, 3, 1.0, 0.0), (1.0, 0, 0.9, 0.0),
    (1.0, 0, 0.3, 0.0), (1.0, 0, 0.0, 0.0), (1.0, 0, 1.0, 0.1), (1.3, 0, 1.0, 1.0),
    (0.8, 5, 0.8, 0.05), (2.0, 6, 0.95, 0.3), (0.5, 40, 0.5, 0.0),
]  # fmt: skip


def get_probabilities(logits, temperature, top_k, top_p, min_p):
    warpers = [process.TemperatureLogitsWarper(temperature)]
    if top_k:
        warpers.append(process.TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(process.TopPLogitsWarper(top_p))
    if min_p > 0:
        warpers.append(process.MinPLogitsWarper(min_p))
    for warper in warpers:
        logits = warper(None, logits)
    return torch.softmax(logits.double(), dim=-1)[0]


def join(values):
    return "{" + ", ".join(f"{float(value):.8g}" for value in values) + "}"


def main():
    torch.manual_seed(1)
    path = os.path.join(ROOT, "unittests", "Runtime", "SamplingGoldens.inc")
    with open(path, "w") as file:
        file.write("// Written by scripts/goldens/make_sampling_goldens.py with transformers\n")
        file.write(f"// {transformers.__version__}: temperature, top-k, top-p, min-p; logits;\n")
        file.write("// probabilities.\n")
        for setting in SETTINGS:
            logits = 2 * torch.randn(1, 10)
            values = get_probabilities(logits, *setting)
            file.write(f"{{{{{', '.join(map(str, setting))}}},\n {join(logits[0])},\n {join(values)}}},\n")


if __name__ == "__main__":
    main()
