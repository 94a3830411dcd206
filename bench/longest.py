#!/usr/bin/env python3
# ===- longest.py - The longest samples that fit a card ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Asks `poplar plan` for the largest number of tokens, in steps of --step, with which
adapters of a model can be trained on one card, a sample at a time: with logits that
are whole in memory, and with logits in chunks of tokens, as Poplar makes them. The
model has vocabularies of several sizes. Nothing is trained.

  bench/longest.py --poplar build/release/bin/poplar
"""

import argparse
import json
import subprocess
import tempfile

from commands import ROOT, run

WHOLE = 1 << 50  # bytes of a sample: more than any logits take


def fits(arguments, directory, vocabulary, tokens, whole):
    """Whether there is a plan."""
    with open(arguments.config) as file:
        config = json.load(file)
    config.update(vocab_size=vocabulary, max_position_embeddings=tokens)
    with open(f"{directory}/config.json", "w") as file:
        json.dump(config, file)
    model = f"{directory}/model.mlir"
    run(
        arguments.poplar, "import", f"{directory}/config.json", "--seq-len",
        str(tokens), "--lora-rank", "16", "-o", model,
    )  # fmt: skip
    if whole:
        with open(model) as file:
            head, loss = file.read().split("@loss(", 1)
        mark = f"{{nn.chunk_bytes = {WHOLE} : i64, nn.unit}}"
        with open(model, "w") as file:
            file.write(head + "@loss(" + loss.replace("{nn.unit}", mark, 1))
    result = subprocess.run(
        [arguments.poplar, "plan", model, "--cluster", f"{directory}/card.json",
         "--global-batch", "1", "--recompute", "recompute-unit",
         "-o", f"{directory}/plan.mlir"],
        capture_output=True, text=True,
    )  # fmt: skip
    return result.returncode == 0


def find_longest(arguments, directory, vocabulary, whole):
    def at(steps):
        tokens = steps * arguments.step
        return fits(arguments, directory, vocabulary, tokens, whole)

    low, high = 0, 1
    while at(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle) else (low, middle)
    return low * arguments.step


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default="poplar")
    parser.add_argument(
        "--config", default=ROOT + "/examples/models/tinyllama-1.1b.json"
    )
    parser.add_argument("--card", default="rtx4090", help="of the device library")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--step", type=int, default=4096)
    parser.add_argument(
        "--vocabularies", type=int, nargs="+", default=[32000, 128256, 262144]
    )
    arguments = parser.parse_args()
    print("vocabulary, tokens with whole logits, tokens with chunks")
    with tempfile.TemporaryDirectory() as directory:
        cluster = {
            "device_types": {
                "card": {"device": arguments.card, "precision": arguments.precision}
            },
            "nodes": [{"name": "localhost", "devices": ["card"]}],
        }
        with open(f"{directory}/card.json", "w") as file:
            json.dump(cluster, file)
        for vocabulary in arguments.vocabularies:
            longest = [
                find_longest(arguments, directory, vocabulary, whole)
                for whole in (True, False)
            ]
            print(f"{vocabulary}, {longest[0]}, {longest[1]}", flush=True)


main()
