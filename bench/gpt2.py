#!/usr/bin/env python3
# ===- gpt2.py - GPT-2 124M here and in PyTorch, side by side --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures training steps of GPT-2 124M on the CPU: forward, backward, clipping
and AdamW, without dropout, by Poplar and by PyTorch eager, in turns. PyTorch's
model is the one that GPUs are compared with (scripts/check_cuda_torch.py):
attention by scaled_dot_product_attention with is_causal=True, padded vocabulary.

Each cell of the table is the median over --rounds turns of the median step of
a turn. The last column is the part of the machine's GEMM rate that Poplar
reaches, counting the FLOPs of matrix products and attention only; that rate
is what the program gemm-ceiling beside `poplar` measures in the same turns for
the GEMMs of this model, with the same tokens, threads and precision: by the
runtime's products or by dnnl_sgemm, whichever is faster.

Needs torch (scripts/goldens/requirements.txt) and a build:
  bench/gpt2.py --poplar build/release/bin/poplar
With POPLAR_MAX_ISA=avx2 or avx512 both sides use no more than that.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import struct
import sys
import tempfile
import time

from commands import ROOT, read_rates, run

CONFIG_PATH = ROOT + "/examples/models/gpt2-124m.json"
with open(CONFIG_PATH) as config_file:
    CONFIG = json.load(config_file)
VOCABULARY = CONFIG["vocab_size"]
# The first steps of a turn pay for page faults and warm caches.
WARMUP_STEPS = 2


def flops_per_token(seq_len):
    """Of a training step; the backward pass is twice the forward pass."""
    layers, width = CONFIG["n_layer"], CONFIG["n_embd"]
    products = 2 * (12 * layers * width * width + VOCABULARY * width)
    # Causal: on average half of the keys are seen.
    attention = layers * 2 * 2 * width * seq_len / 2
    return 3 * (products + attention)


def pytorch_limits():
    """The variables that keep PyTorch to what POPLAR_MAX_ISA allows Poplar."""
    levels = {"avx2": ("avx2", "AVX2"), "avx512": ("avx512", "AVX512_CORE")}
    limit = os.environ.get("POPLAR_MAX_ISA", "")
    if limit in ("", "amx"):
        return {}
    if limit not in levels:
        sys.exit(f"error: POPLAR_MAX_ISA={limit}: PyTorch has no such limit")
    capability, isa = levels[limit]
    return {
        "ATEN_CPU_CAPABILITY": capability,
        "ONEDNN_MAX_CPU_ISA": isa,
        "MKL_ENABLE_INSTRUCTIONS": capability.upper(),
    }


def pytorch_turn(arguments):
    """Child process: prints the median tokens per second of one turn."""
    import torch

    sys.path.insert(0, ROOT + "/scripts")
    from check_cuda_torch import make_models

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = make_models(torch)["gpt2"](CONFIG, arguments.seq_len)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    model.train()
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    # The fused AdamW is the fastest PyTorch has on the CPU.
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
        lr=1e-4,
        weight_decay=0.1,
        fused=True,
    )
    shape = (arguments.batch, arguments.seq_len)
    half = arguments.precision == "bf16"
    seconds = []
    for _ in range(WARMUP_STEPS + arguments.steps):
        ids = torch.randint(0, VOCABULARY, shape)
        targets = torch.randint(0, VOCABULARY, shape)
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = model(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
    tokens = arguments.batch * arguments.seq_len
    print(tokens / statistics.median(seconds[WARMUP_STEPS:]))


class Poplar:
    """Builds a program per shape and precision, once, and times its steps."""

    def __init__(self, poplar, directory, steps):
        self.poplar, self.directory, self.steps = poplar, directory, steps
        self.programs, self.turns = {}, 0

    def program(self, seq_len, precision):
        key = f"{seq_len}-{precision}"
        if key not in self.programs:
            path = os.path.join(self.directory, key)
            run(
                self.poplar, "import", CONFIG_PATH, "--seq-len", str(seq_len),
                "--dropout", "0", "-o", path + ".mlir",
            )  # fmt: skip
            run(
                self.poplar, "build", path + ".mlir", "--precision", precision,
                "-o", path,
            )  # fmt: skip
            tokens = [random.randrange(VOCABULARY) for _ in range(64 * seq_len)]
            with open(path + ".tokens", "wb") as file:
                file.write(struct.pack(f"<{len(tokens)}i", *tokens))
            self.programs[key] = path
        return self.programs[key]

    def turn(self, batch, seq_len, threads, precision):
        """Median tokens per second of a run."""
        path = self.program(seq_len, precision)
        self.turns += 1
        out = os.path.join(self.directory, f"run{self.turns}")
        run(
            self.poplar, "train", path, "--data-ids", path + ".tokens",
            "--batch", str(batch), "--global-batch", str(batch),
            "--steps", str(WARMUP_STEPS + self.steps), "--threads", str(threads),
            "--lr", "1e-4", "--eval-every", "0", "--out", out,
        )  # fmt: skip
        rates = read_rates(out, WARMUP_STEPS)
        # A checkpoint of this model is 1.5 GB.
        shutil.rmtree(out)
        return statistics.median(rates)

    def ceiling(self, tokens, threads, precision):
        """FLOP/s of the GEMMs alone."""
        program = os.path.join(os.path.dirname(self.poplar), "gemm-ceiling")
        command = [program, "--tokens", str(tokens), "--threads", str(threads)]
        text = run(*command, *(["--bf16"] if precision == "bf16" else [])).stdout
        return float(re.search(r"ceiling ([0-9.]+) GFLOP/s", text)[1]) * 1e9


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=ROOT + "/build/release/bin/poplar")
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--shapes", default="4x64,4x256", help="batch x tokens")
    parser.add_argument("--threads-list", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="timed steps of a turn")
    parser.add_argument("--pytorch-turn", action="store_true", help=argparse.SUPPRESS)
    for name in ("batch", "seq-len", "threads"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.pytorch_turn:
        return pytorch_turn(arguments)

    columns = ["precision", "shape", "threads", "Poplar tokens/s"]
    columns += ["PyTorch tokens/s", "ratio", "of GEMM rate"]
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    with tempfile.TemporaryDirectory() as directory:
        poplar = Poplar(arguments.poplar, directory, arguments.steps)
        for precision in arguments.precisions.split(","):
            for shape in arguments.shapes.split(","):
                for threads in map(int, arguments.threads_list.split(",")):
                    measure(poplar, arguments, precision, shape, threads)
    return 0


def measure(poplar, arguments, precision, shape, threads):
    batch, seq_len = map(int, shape.split("x"))
    ours, theirs, peaks = [], [], []
    for _ in range(arguments.rounds):
        ours.append(poplar.turn(batch, seq_len, threads, precision))
        peaks.append(poplar.ceiling(batch * seq_len, threads, precision))
        output = run(
            sys.executable, os.path.abspath(__file__), "--pytorch-turn",
            "--batch", str(batch), "--seq-len", str(seq_len),
            "--threads", str(threads), "--precision", precision,
            "--steps", str(arguments.steps),
            **pytorch_limits(),
        ).stdout  # fmt: skip
        theirs.append(float(output))
    rate, other = statistics.median(ours), statistics.median(theirs)
    fraction = rate * flops_per_token(seq_len) / statistics.median(peaks)
    print(
        f"| {precision} | {shape} | {threads} | {rate:.0f} | {other:.0f} | "
        f"{rate / other:.2f} | {100 * fraction:.0f} % |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
