# ===- cuda_speed.py - How fast kernels and products are --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Rows of check_cuda.py's table that tell where time goes: every kernel and product
of a step beside the GPU's roofline, and a sweep of matrix products. Standard
library only."""

import csv
import json
import os
import re
import statistics

from cuda_checks import Failure, column, rated_flops, require_room
from gpu_peaks import peak_bandwidth

STORE, GELU_AUX, GELU_GRAD, BIAS_GRAD_B = 0, 2, 3, 5
F32, BF16, F16 = 0, 1, 2
FORMATS = {"f32": F32, "bf16": BF16, "f16": F16}
# What a vocabulary is padded to a multiple of.
PADDING = 128


class Roofline:
    """The least time that a GPU needs, by its rated or its measured speeds."""

    def __init__(self, bundle, precision):
        self.precision = precision
        self.rated = self.measured = None
        measured = getattr(bundle, "measured", {})
        if not bundle.emulated:
            self.rated = (lambda name: rated_flops(bundle, name),
                          peak_bandwidth(bundle.gpu["memory_khz"], bundle.gpu["memory_bits"]))  # fmt: skip
        if measured:
            self.measured = (measured.get, measured["copy_bytes_per_s"])

    def format_of(self, what):
        """The format in which a kernel or product computes."""
        named = re.search(r"\b(tf32|bf16|f16|f32)\b", what)
        if named:
            return named[1]
        return self.precision if "_mma_" in what else "f32"

    def share(self, speeds, what, seconds, flops, size):
        """The roofline's time of the measured one; None where it is not known."""
        if not speeds or not seconds:
            return None
        rate, bandwidth = speeds
        peak = rate(self.format_of(what)) if flops else None
        if flops and not peak:
            return None
        return max(flops / peak if flops else 0, size / bandwidth) / seconds

    def text(self, what, seconds, flops, size):
        shares = [("rated", self.share(self.rated, what, seconds, flops, size)),
                  ("measured", self.share(self.measured, what, seconds, flops, size))]  # fmt: skip
        return ", ".join(f"{100 * share:.0f} % of {name}" for name, share in shares if share)


def read_times(path):
    """(what, calls, seconds, FLOPs, bytes) of a POPLAR_CUDA_TIMES file, the most
    time first."""
    with open(path) as file:
        rows = [(r["what"], int(r["calls"]), float(r["microseconds"]) / 1e6,
                 float(r["flops"]), float(r["bytes"]))
                for r in csv.DictReader(file) if int(r["calls"])]  # fmt: skip
    return sorted(rows, key=lambda row: -row[2])


def format_times(rows, roofline):
    total = sum(row[2] for row in rows)
    yield (f"{'what':<64} {'calls':>6} {'us each':>10} {'share':>7} "
           f"{'MB each':>9} {'GB/s':>8} {'TFLOP/s':>8}  of the roofline")  # fmt: skip
    for what, calls, seconds, flops, size in rows:
        rate = f"{flops / seconds / 1e12:8.1f}" if flops else " " * 8
        yield (f"{what:<64} {calls:6} {1e6 * seconds / calls:10.1f} "
               f"{100 * seconds / total:5.1f} % {size / calls / 1e6:9.3f} "
               f"{size / seconds / 1e9:8.1f} {rate}  "
               f"{roofline.text(what, seconds, flops, size)}")  # fmt: skip


def shorten(what):
    """A kernel's name without its number: "kernel_3_add_rms_norm"."""
    return re.sub(r"^kernel_\d+_", "", what.replace("poplar_gpu_", ""))


def read_rate(run):
    """Tokens per second of a run's steps."""
    return statistics.median(column(run, "tokens_per_s"))


def check_step(bundle):
    """Where the time of a step goes: events around each kernel and product, and
    then the same step with graphs."""
    for program in bundle.programs("benchmark") or bundle.programs("training")[:1]:

        def measure(program=program):
            require_room(bundle, program)
            path = bundle.work("times.csv")
            options = ["--steps", 4, "--skip-save", "--peak-gflops", 1]
            times = {"POPLAR_CUDA_TIMES": path, "POPLAR_CUDA_GRAPHS": "0"}
            # The next run writes to the same directory.
            rates = [read_rate(bundle.train(program, "step", options, times))]
            rows = read_times(path)
            total = sum(row[2] for row in rows)
            if not total:
                raise Failure("no kernel was measured")
            roofline = Roofline(bundle, program["precision"])
            bundle.runner.log.write(f"kernels of {program['name']}\n")
            for line in format_times(rows, roofline):
                bundle.runner.log.write(line + "\n")
            rates.append(read_rate(bundle.train(program, "step", options)))
            top = []
            for what, _, seconds, flops, size in rows[:6]:
                rate = f"{flops / seconds / 1e12:.4g} TFLOP/s" if flops else f"{size / seconds / 1e9:.4g} GB/s"  # fmt: skip
                share = roofline.text(what, seconds, flops, size).split(",")[0]
                top.append(f"{shorten(what)} {100 * seconds / total:.0f} % ({rate}"
                           + (f", {share})" if share else ")"))  # fmt: skip
            return (f"{len(rows)} kinds of kernels, the most time in: {'; '.join(top)}; tokens/s "
                    f"{rates[0]:.0f} with events, {rates[1]:.0f} with graphs")  # fmt: skip

        yield f"step of {program['name']}", 25, measure


def list_products(config, tokens, precision):
    """Lines for measure-gpu --products: the products of a layer of a model, and of
    its head with the vocabulary as it is, and padded."""
    half = FORMATS[precision]
    hidden = config.get("n_embd") or config["hidden_size"]
    inner = config.get("n_inner") or config.get("intermediate_size") or 4 * hidden
    gelu = config["model_type"] == "gpt2"
    heads = config.get("n_head") or config["num_attention_heads"]
    keys = config.get("num_key_value_heads") or heads
    packed = hidden + 2 * hidden // heads * keys
    bias = int(gelu)

    def line(name, m, n, k, trans=(0, 0), add=0, biased=0, result=half, epilogue=STORE):
        return (f"{name} {m} {n} {k} {trans[0]} {trans[1]} {add} {biased} "
                f"{half} {result} {epilogue} 0")  # fmt: skip

    yield line("qkv", tokens, packed, hidden, biased=bias)
    yield line("mlp-up", tokens, inner, hidden, biased=bias, epilogue=GELU_AUX if gelu else STORE)
    yield line("mlp-down", tokens, hidden, inner, biased=bias)
    yield line("mlp-down-dx", tokens, inner, hidden, (0, 1), epilogue=GELU_GRAD if gelu else STORE)
    yield line("mlp-up-dw", hidden, inner, tokens, (1, 0), 1, 0, F32,
               BIAS_GRAD_B if gelu else STORE)  # fmt: skip
    vocabulary = config["vocab_size"]
    padded = (vocabulary + PADDING - 1) // PADDING * PADDING
    for size in sorted({vocabulary, padded}):
        yield line(f"head-{size}", tokens, size, hidden, (0, 1))
        yield line(f"head-{size}-dx", tokens, hidden, size)
        yield line(f"head-{size}-dw", size, hidden, tokens, (1, 0), 1, 0, F32)


def describe_product(line, result, roofline):
    """A line of the log, and (TFLOP/s fused, unfused)."""
    words = line.split()
    m, n, k = map(int, words[1:4])
    if "error" in result:
        return f"{words[0]:<16} {m}x{n}x{k}: {result['error']}", None
    texts, rates = [], []
    for how in ("fused", "unfused"):
        if how not in result:
            continue
        seconds = result[how]["seconds"]
        rates.append(2 * m * n * k / seconds / 1e12)
        label = "" if "unfused" not in result else how + " "
        if how == "fused" and label and not result[how]["in_library"]:
            label = "fused (refused) "
        share = roofline.text("product " + roofline.precision, seconds, 2 * m * n * k, 0)
        texts.append(f"{label}{1e6 * seconds:.1f} us, {rates[-1]:.4g} TFLOP/s"
                     + (f" ({share})" if share else "") + f" [{result[how]['algorithm']}]")  # fmt: skip
    return f"{words[0]:<16} {m}x{n}x{k}: " + "; ".join(texts), rates


def check_sweep(bundle):
    """Products with and without padding, with epilogues in cuBLASLt and in a
    kernel, and the algorithms that cuBLASLt chose."""
    programs = bundle.programs("benchmark") or bundle.programs("training")[:1]
    for program in programs:

        def measure(program=program):
            tokens, precision = 64, program["precision"]
            config = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "vocab_size": 257}
            if "model" in program:
                with open(bundle.path("models", program["model"] + ".json")) as file:
                    config = json.load(file)
                tokens = program["batch"] * program["seq_len"]
            lines = list(list_products(config, tokens, precision))
            path = bundle.work("products.txt")
            with open(path, "w") as file:
                file.write("\n".join(lines) + "\n")
            output = bundle.run([bundle.path("bin", "measure-gpu"), "--products", path])
            results = [json.loads(text) for text in output.splitlines() if text.startswith("{")]
            if len(results) != len(lines):
                raise Failure(f"{len(results)} of {len(lines)} products were measured")
            roofline, texts, failed = Roofline(bundle, precision), [], []
            bundle.runner.log.write(f"products of {program['name']}\n")
            for line, result in zip(lines, results):
                text, rates = describe_product(line, result, roofline)
                bundle.runner.log.write(text + "\n")
                if rates is None:
                    failed.append(text)
                else:
                    rate = " fused, ".join(f"{rate:.4g}" for rate in rates)
                    texts.append(f"{line.split()[0]} {rate}" + " not" * (len(rates) > 1))
            if failed:
                raise Failure("; ".join(failed))
            return f"{len(lines)} products, TFLOP/s: " + "; ".join(texts)

        yield f"products of {program['name']}, {program.get('precision', '')}", 15, measure
