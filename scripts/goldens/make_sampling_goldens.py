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
in the order of its generate(). Then with edge cases: equal logits (where top-p cuts
among equals, their order is that of a sort and means nothing, so that no case does),
top-k of more than there are, temperatures near 0 and large ones, a logit of minus
infinity.

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
TIES = [1.5, 3.0, 3.0, 0.0, 3.0, 1.5, -2.0, 1.5, 0.0, 2.0]
FAR = [100.0, -100.0, 99.0, 0.0, 1e4, 1e4, -1e4, 9990.0, float("-inf"), 50.0]
EDGES = [
    ((1.0, 2, 1.0, 0.0), TIES), ((1.0, 5, 1.0, 0.0), TIES), ((0.7, 4, 1.0, 0.1), TIES),
    ((1.0, 0, 0.6, 0.0), TIES), ((1.0, 0, 1.0, 0.2), TIES), ((1.0, 10, 0.99, 0.0), TIES),
    ((1.0, 1000, 1.0, 0.0), TIES), ((1.0, 11, 0.95, 0.01), TIES), ((1e-3, 0, 1.0, 0.0), TIES),
    ((1e-6, 0, 0.9, 0.5), TIES), ((1e3, 0, 1.0, 0.0), TIES), ((1e3, 3, 0.5, 0.9), FAR),
    ((1.0, 0, 1.0, 0.0), FAR), ((10.0, 6, 1.0, 0.0), FAR), ((1e-3, 1, 1.0, 1.0), FAR),
    ((1.0, 1, 1.0, 0.0), [0.0] * 10), ((2.0, 0, 1.0, 1.0), [-5.0] * 10),
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
    words = (f"{float(value):.8g}" for value in values)
    return "{" + ", ".join("-INFINITY" if word == "-inf" else word for word in words) + "}"


def main():
    torch.manual_seed(1)
    path = os.path.join(ROOT, "unittests", "Runtime", "SamplingGoldens.inc")
    with open(path, "w") as file:
        file.write("// Written by scripts/goldens/make_sampling_goldens.py with transformers\n")
        file.write(f"// {transformers.__version__}: temperature, top-k, top-p, min-p; logits;\n")
        file.write("// probabilities.\n")
        cases = [(setting, 2 * torch.randn(1, 10)) for setting in SETTINGS]
        cases += [(setting, torch.tensor([logits])) for setting, logits in EDGES]
        for setting, logits in cases:
            values = get_probabilities(logits, *setting)
            file.write(f"{{{{{', '.join(map(str, setting))}}},\n {join(logits[0])},\n {join(values)}}},\n")


if __name__ == "__main__":
    main()
