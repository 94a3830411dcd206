#!/usr/bin/env python3
# ===- longest.py - The longest samples that fit a card ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Asks `poplar plan` how much memory has room for. Nothing is trained.

On one card: the largest number of tokens, in steps of --step, with which adapters of a
model can be trained, a sample at a time, with logits that are whole in memory, and with
logits in chunks of tokens, as Poplar makes them. The model has vocabularies of several
sizes.

On the drawers of unlike cards of bench/drawers.py, for Llama 3 8B and 8 samples an
iteration: the longest samples for adapters of rank 16, and the largest model of so many
layers that is trained in full, on samples of 2048 tokens. Before: ZeRO alone, with whole
logits, and all layers recompute. After: whatever the default finds.

  bench/longest.py
  bench/longest.py --drawers d1,d2,d3,d4,d5
"""

import argparse
import json
import subprocess
import tempfile

import drawers
from commands import ROOT, run

WHOLE = 1 << 50  # bytes of a sample: more than any logits take
SAMPLES = "8"  # of an iteration, in drawers


def has_plan(poplar, directory, config, import_options, whole, *plan_options):
    """Whether there is a plan for the model of a configuration."""
    with open(f"{directory}/config.json", "w") as file:
        json.dump(config, file)
    model = f"{directory}/model.mlir"
    run(poplar, "import", f"{directory}/config.json", *import_options, "-o", model)
    if whole:
        with open(model) as file:
            head, loss = file.read().split("@loss(", 1)
        mark = f"{{nn.chunk_bytes = {WHOLE} : i64, nn.unit}}"
        with open(model, "w") as file:
            file.write(head + "@loss(" + loss.replace("{nn.unit}", mark, 1))
    result = subprocess.run(
        [poplar, "plan", model, *plan_options, "-o", f"{directory}/plan.mlir"],
        capture_output=True, text=True,
    )  # fmt: skip
    return result.returncode == 0


def find_most(fits):
    """The largest number that fits, if all below do; 0 if none does."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def measure_card(arguments, directory):
    card = {"device": arguments.card, "precision": arguments.precision}
    cluster = {
        "device_types": {"card": card},
        "nodes": [{"name": "localhost", "devices": ["card"]}],
    }
    path = f"{directory}/card.json"
    with open(path, "w") as file:
        json.dump(cluster, file)
    with open(arguments.config) as file:
        config = json.load(file)

    def find_longest(vocabulary, whole):
        def fits(steps):
            tokens = steps * arguments.step
            config.update(vocab_size=vocabulary, max_position_embeddings=tokens)
            return has_plan(
                arguments.poplar, directory, config,
                ("--seq-len", str(tokens), "--lora-rank", "16"), whole, "--cluster",
                path, "--global-batch", "1", "--recompute", "recompute-unit",
            )  # fmt: skip

        return find_most(fits) * arguments.step

    print("vocabulary, tokens with whole logits, tokens with chunks")
    for vocabulary in arguments.vocabularies:
        whole, chunks = find_longest(vocabulary, True), find_longest(vocabulary, False)
        print(f"{vocabulary}, {whole}, {chunks}", flush=True)


def count_billions(layers):
    """Parameters of Llama 3 8B with so many layers: 218 million each, the embedding,
    the head and the last norm."""
    hidden, intermediate, words = 4096, 14336, 128256
    layer = hidden * (2 * hidden + 2 * hidden // 4 + 3 * intermediate + 2)
    return (layers * layer + 2 * words * hidden + hidden) / 1e9


def measure_drawers(arguments, directory):
    """Of each drawer: tokens and layers, before and after."""
    before = ("--policy", "exact", "--recompute", "recompute-unit")

    def find(cluster, whole, options, get_model):
        def fits(count):
            config, import_options = get_model(count)
            return has_plan(
                arguments.poplar, directory, {**drawers.LLAMA_8B, **config},
                import_options, whole, "--cluster", cluster, "--global-batch", SAMPLES,
                *options,
            )  # fmt: skip

        return find_most(fits)

    def get_long(steps):
        tokens = steps * arguments.step
        return {"max_position_embeddings": tokens}, (
            "--seq-len", str(tokens), *drawers.LORA,
        )  # fmt: skip

    def get_deep(layers):
        return {"num_hidden_layers": layers}, ("--seq-len", "2048")

    print("| drawer | tokens, before | after | layers in full, before | after |")
    print("|---|--:|--:|--:|--:|")
    for drawer in arguments.drawers.split(","):
        cluster = f"{directory}/{drawer}.json"
        drawers.write_cluster(cluster, *drawers.DRAWERS[drawer])
        tokens = [
            find(cluster, whole, options, get_long) * arguments.step
            for whole, options in ((True, before), (False, ()))
        ]
        layers = [
            find(cluster, whole, options, get_deep)
            for whole, options in ((True, before), (False, ()))
        ]
        cells = [f"{it:,}" for it in tokens]
        cells += [f"{it} ({count_billions(it):.1f} B)" if it else "none" for it in layers]
        print(f"| {drawer} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument(
        "--config", default=ROOT + "/examples/models/tinyllama-1.1b.json"
    )
    parser.add_argument("--card", default="rtx4090", help="of the device library")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--step", type=int, default=4096)
    parser.add_argument(
        "--vocabularies", type=int, nargs="+", default=[32000, 128256, 262144]
    )
    parser.add_argument("--drawers", help="d1 to d5, separated by commas")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure = measure_drawers if arguments.drawers else measure_card
        measure(arguments, directory)


main()
