#!/usr/bin/env python3
# ===- check_goldens.py - Compare a run with PyTorch's values --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares what `poplar train` made of a golden batch with the saved values.

In f32 (2-norms; * marks PyTorch's values):
  loss       |l - l*| <= 1e-5 |l*|
  gradients  |g - g*| <= 1e-4 |g*| + 1e-7 |all g*|   for every tensor
  updates    |D - D*| <= 1e-3 |D*|   for every tensor, D the change of the
             parameter over the golden's steps
In bf16:
  loss       within 1 %
  gradients  cosine >= 0.999 for every tensor

The bias of the keys moves all scores of a query alike, so its true gradient
is zero and what is computed is rounding noise, which AdamW blows up: it is
left out of the updates and cosines, by name.
"""

import argparse
import json
import math
import os
import sys

import safetensors_reader

LOSS_TOLERANCE = {"f32": 1e-5, "bf16": 1e-2}
GRADIENT_RELATIVE = 1e-4
GRADIENT_OF_ALL = 1e-7
UPDATE_RELATIVE = 1e-3
COSINE = 0.999
CHOICE_BIASES = (".e_score_correction_bias", ".expert_bias")


def without_key_bias(name, values):
    """The part of a tensor whose true gradient is not identically zero."""
    if name.endswith((".key.bias", ".k_proj.bias")):
        return []
    if name.endswith(".attn.c_attn.bias"):
        third = len(values) // 3
        return values[:third] + values[2 * third :]
    return values


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def difference(lhs, rhs):
    return [x - y for x, y in zip(lhs, rhs)]


class Checker:
    def __init__(self):
        self.checks = 0
        self.failures = []

    def check(self, passed, message):
        self.checks += 1
        if not passed:
            self.failures.append(message)

    def same_tensors(self, ours, golden, what):
        """Names that can be compared; anything missing or odd is a failure."""
        common = []
        for name, (shape, _) in sorted(golden.items()):
            if name not in ours:
                self.check(False, f"{what}: {name} is missing")
            elif ours[name][0] != shape:
                self.check(
                    False, f"{what}: {name} is {ours[name][0]}, expected {shape}"
                )
            else:
                common.append(name)
        for name in sorted(set(ours) - set(golden)):
            # It is a buffer there, and not trained.
            unmoved = name.endswith(CHOICE_BIASES) and not any(ours[name][1])
            self.check(unmoved, f"{what}: {name} is not a parameter of the model")
        return common

    def loss(self, ours, golden, precision):
        tolerance = LOSS_TOLERANCE[precision]
        print(f"loss {ours:.8g}, PyTorch {golden:.8g}")
        # Written so that a NaN fails.
        self.check(
            abs(ours - golden) <= tolerance * abs(golden),
            f"loss {ours:.8g}, expected {golden:.8g} within {tolerance:g}",
        )

    def gradients(self, ours, golden, precision):
        total = norm(x for _, values in golden.values() for x in values)
        worst = 0.0
        for name in self.same_tensors(ours, golden, "gradients"):
            g, expected = ours[name][1], golden[name][1]
            if precision == "f32":
                error = norm(difference(g, expected))
                bound = GRADIENT_RELATIVE * norm(expected) + GRADIENT_OF_ALL * total
                worst = max(worst, error / bound)
                self.check(
                    error <= bound, f"gradient of {name}: off by {error:.3g} > {bound:.3g}"
                )
                continue
            g, expected = without_key_bias(name, g), without_key_bias(name, expected)
            if norm(expected) == 0:
                continue
            scale = norm(g) * norm(expected)
            dot = math.fsum(x * y for x, y in zip(g, expected))
            cosine = dot / scale if scale else 0.0
            worst = max(worst, (1 - cosine) / (1 - COSINE))
            self.check(cosine >= COSINE, f"gradient of {name}: cosine {cosine:.6f}")
        print(f"gradients: worst tensor at {worst:.3f} of its tolerance")

    def updates(self, initial, ours, golden):
        worst = 0.0
        for name in self.same_tensors(ours, golden, "updates"):
            start = initial[name][1]
            expected = without_key_bias(name, difference(golden[name][1], start))
            update = without_key_bias(name, difference(ours[name][1], start))
            error = norm(difference(update, expected))
            bound = UPDATE_RELATIVE * norm(expected)
            if bound:
                worst = max(worst, error / bound)
            self.check(
                error <= bound, f"update of {name}: off by {error:.3g} > {bound:.3g}"
            )
        print(f"updates: worst tensor at {worst:.3f} of its tolerance")


def loss_of_log(path):
    """The loss that `poplar train --dump-gradients` prints."""
    with open(path) as file:
        for line in file:
            words = line.split()
            if len(words) == 2 and words[0] == "loss":
                return float(words[1])
    raise ValueError(f"{path}: no line `loss X`")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("golden", help="a directory of test/Integration/goldens")
    parser.add_argument("--batch", choices=["1", "3"], default="3")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--log", help="what the command that dumped the gradients printed")
    parser.add_argument("--gradients", help="safetensors dump of the gradients")
    parser.add_argument("--updated", help="model.safetensors after the steps")
    arguments = parser.parse_args()
    if not (arguments.log or arguments.gradients or arguments.updated):
        parser.error("nothing to check")

    def golden(name):
        return safetensors_reader.read(os.path.join(arguments.golden, name))[0]

    with open(os.path.join(arguments.golden, "expected.json")) as file:
        expected = json.load(file)["batches"][arguments.batch]
    checker = Checker()
    try:
        if arguments.log:
            loss = loss_of_log(arguments.log)
            checker.loss(loss, expected["loss"], arguments.precision)
        if arguments.gradients:
            ours, _ = safetensors_reader.read(arguments.gradients)
            name = f"batch{arguments.batch}.gradients.safetensors"
            checker.gradients(ours, golden(name), arguments.precision)
        if arguments.updated:
            ours, _ = safetensors_reader.read(arguments.updated)
            checker.updates(
                golden("model.safetensors"), ours, golden("steps10.safetensors")
            )
    except (OSError, ValueError) as error:
        checker.check(False, str(error))
    for failure in checker.failures:
        print(f"error: {failure}")
    print(f"{checker.checks - len(checker.failures)} of {checker.checks} checks passed")
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
