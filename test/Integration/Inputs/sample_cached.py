#!/usr/bin/env python3
# ===- sample_cached.py - A KV cache changes nothing but the time ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: sample_cached.py SCRATCH PROMPT LENGTH COMMAND...
       sample_cached.py SCRATCH GOLDEN COMMAND...

Samples greedily up to LENGTH tokens, of which PROMPT are a prompt, with and without
a KV cache, by a command to which options of sample are appended. Both texts have to be the same,
the logits of every token equal to 1e-5. With a directory of goldens, the text has to
be what generate() of transformers has written there, if it has."""

import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../../../scripts/goldens")
import safetensors_reader  # noqa: E402

RELATIVE = 1e-5


def sample(command, prompt, length, path, *options):
    tokens = length - prompt.count(",") - 1
    run = subprocess.run(
        [*command, "--prompt-ids", prompt, "--tokens", str(tokens), "--temperature", "0",
         "--dump-logits", path, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if run.returncode:
        sys.exit(f"error: {run.stderr}")
    shape, values = safetensors_reader.read(path)[0]["logits"]
    if shape[0] != tokens:
        sys.exit(f"error: logits of {shape[0]} tokens, expected {tokens}")
    rows = [values[i * shape[1] : (i + 1) * shape[1]] for i in range(tokens)]
    return run.stdout.split(), rows, run.stderr


def main():
    scratch, prompt, *command = sys.argv[1:]
    expected = None
    if os.path.isdir(prompt):
        length, golden = 24, os.path.join(prompt, "generate.txt")
        prompt = "1,2,3,4,5,6,7,8,9"
        if os.path.exists(golden):
            with open(golden) as file:
                prompt, expected = file.read().splitlines()
    else:
        length = int(command.pop(0))
        prompt = ",".join(str((7 * i * i + i) % 250) for i in range(int(prompt)))
    path = scratch + ".safetensors"
    text, cached, notes = sample(command, prompt, length, path)
    other, whole, _ = sample(command, prompt, length, path, "--no-cache")
    # Apart from how the ranks of a job communicate.
    if "cache" in notes:
        sys.exit(f"error: sampling with a cache said: {notes}")
    if text != other:
        sys.exit(f"error: with a cache {text}, without {other}")
    if expected and text != expected.split():
        sys.exit(f"error: {text}, by transformers {expected}")
    worst = 0.0
    for a, b in zip(whole, cached):
        size = math.sqrt(math.fsum(x * x for x in a))
        worst = max(worst, math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b))) / size)
    # Written so that a NaN is an error.
    if not worst <= RELATIVE:
        sys.exit(f"error: logits differ by {worst:.3g}, of each token's 2-norm")
    print(f"{len(cached)} tokens, logits equal to {worst:.2g}")


if __name__ == "__main__":
    main()
