#!/usr/bin/env python3
# ===- sample.py - Sampling from GPT-2 124M here and in transformers -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures the time per token of GPT-2 124M with random weights, in f32 on the CPU,
greedily: by `poplar sample` and by generate() of transformers with its KV cache, in
turns. Both have the same weights and have to give the same text.

A side's time per token is that between texts of --tokens and of a fourth of them,
so that loading, the prompt and the first tokens do not count. Printed is the median
over the turns of each side, and the ratio.

Needs transformers (scripts/goldens/requirements.txt) and a build:
  bench/sample.py --poplar build/release/bin/poplar
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from commands import ROOT, run, sample, seconds_per_token

CONFIG = ROOT + "/examples/models/gpt2-124m.json"


def choose_prompt(length):
    random.seed(1)
    return [random.randrange(50257) for _ in range(length)]


def transformers_side(arguments):
    """Child process: answers each number of tokens on a line with the seconds that
    generate() took for them, then the text."""
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.transformers, dtype=torch.float32
    ).eval()
    model.generation_config.eos_token_id = None
    prompt = torch.tensor([choose_prompt(arguments.prompt)])
    for line in sys.stdin:
        count = int(line)
        begin = time.perf_counter()
        text = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            use_cache=True,
            pad_token_id=0,
        )
        seconds = time.perf_counter() - begin
        print(seconds, *text[0].tolist(), flush=True)


class Transformers:
    def __init__(self, model, arguments):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--poplar", "", "--transformers", model,
             "--threads", str(arguments.threads), "--prompt", str(arguments.prompt)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads)},
        )  # fmt: skip

    def sample(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        seconds, *text = self.process.stdout.readline().split()
        return float(seconds), text


class Poplar:
    def __init__(self, directory, model, arguments):
        poplar = arguments.poplar
        run(poplar, "import", model, "-o", directory + "/model.mlir")
        run(poplar, "build", directory + "/model.mlir", "-o", directory + "/program")
        prompt = ",".join(map(str, choose_prompt(arguments.prompt)))
        self.command = [
            directory + "/program/host/train", "sample", "--checkpoint", model,
            "--prompt-ids", prompt, "--temperature", "0",
            "--threads", str(arguments.threads),
        ]  # fmt: skip

    def sample(self, count):
        return sample(self.command, count)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", required=True, help="the program to measure")
    parser.add_argument("--threads", type=int, default=1, help="threads of both (default: 1)")
    parser.add_argument("--prompt", type=int, default=32, help="tokens of the prompt (default: 32)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate (default: 64)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: 5)")
    parser.add_argument("--transformers", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.transformers:
        return transformers_side(arguments)
    arguments.poplar = os.path.abspath(arguments.poplar)
    if arguments.tokens < 8:
        parser.error("--tokens must be at least 8")

    import torch
    import transformers

    with tempfile.TemporaryDirectory() as directory:
        model = directory + "/model"
        torch.manual_seed(0)
        config = transformers.GPT2Config.from_json_file(CONFIG)
        transformers.GPT2LMHeadModel(config).save_pretrained(model)
        shutil.copy(CONFIG, model + "/config.json")
        sides = {
            "poplar": Poplar(directory, model, arguments),
            "transformers": Transformers(model, arguments),
        }
        times = {name: [] for name in sides}
        for turn in range(arguments.rounds + 1):
            texts = {}
            for name, side in sides.items():
                seconds, texts[name] = seconds_per_token(side.sample, arguments.tokens)
                # The first turn reads files and warms caches up.
                if turn:
                    times[name].append(seconds)
            if texts["poplar"] != texts["transformers"]:
                sys.exit(f"error: the texts differ: {texts}")
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:13} {1000 * median:8.2f} ms a token")
    ratios = [b / a for a, b in zip(times["poplar"], times["transformers"])]
    print(
        f"transformers takes {medians['transformers'] / medians['poplar']:.2f} times as long "
        f"(turn by turn {min(ratios):.2f} to {max(ratios):.2f}), {arguments.threads} threads, "
        f"transformers {transformers.__version__}, torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
