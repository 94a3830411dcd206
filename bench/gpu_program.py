# ===- gpu_program.py - An executable for a GPU, and what it asks of it -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The models of gpu-kernels.py, and the calls of a step of their executables, which
run on the counting driver (bench/counting/)."""

import json
import os
import re
import sys
from collections import defaultdict, namedtuple

import sass
from commands import ROOT, run
from gpu_model import CHIPS
from ptx import read_kernels

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
         "initializer_range": 0.02, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
         "tie_word_embeddings": False}  # fmt: skip
# `config` is a file in examples/models, or the configuration. `family` is a key of
# gpu_model.TORCH, if torch.compile can be compared with.
Model = namedtuple("Model", "config batch tokens options family")
LORA = ("--lora-rank", "16", "--lora-alpha", "16")
MODELS = {
    "gpt2": Model("gpt2-124m", 16, 1024, ("--dropout", "0"), "gpt2"),
    "tinyllama": Model("tinyllama-1.1b", 4, 2048, (), "llama"),
    "llama-7b-lora": Model("llama-2-7b", 4, 2048, LORA, None),
    "llama-7b-qlora": Model("llama-2-7b", 4, 2048, (*LORA, "--frozen-format", "nf4"), None),
    "qwen3-0.6b": Model(
        {**LLAMA, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
         "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "vocab_size": 151936, "max_position_embeddings": 4096, "rope_theta": 1e6,
         "rms_norm_eps": 1e-6, "attention_bias": False, "tie_word_embeddings": True},
        4, 4096, (), "llama"),
    "moe": Model(
        {**LLAMA, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
         "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12,
         "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000,
         "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 2048},
        4, 2048, (), None),
    "tiny": Model("tiny-gpt2", 2, 32, ("--dropout", "0"), "gpt2"),
    "tiny-llama": Model(
        {**LLAMA, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 256,
         "max_position_embeddings": 1024},
        8, 1024, (), None),
}  # fmt: skip
# Presets for tests: no benchmark runs them unless it is told to.
SMALL = ("tiny", "tiny-llama")

# A step that is like all that follow: the fourth, after graphs were made.
STEPS = 4
# What a unit of a kernel's last parameter costs: a sample, or an element. `is_mean` if
# launches differ in it; the bytes that they all have are then shared by it.
Cost = namedtuple("Cost", "bytes flops is_mean")


def read_config(model):
    if isinstance(model.config, dict):
        return dict(model.config)
    with open(f"{ROOT}/examples/models/{model.config}.json") as file:
        return json.load(file)


def layers_key(config):
    return "n_layer" if "n_layer" in config else "num_hidden_layers"


class Program:
    """An executable for a chip, and what it asks of the driver."""

    def __init__(self, arguments, model, config, chip, directory):
        self.arguments, self.model, self.chip = arguments, model, chip
        self.directory = directory
        os.makedirs(directory)
        self.build(config)
        trace = self.trace("graphs", {})
        self.calls = self.read_step(trace)
        timed = self.trace("times", {"POPLAR_CUDA_TIMES": self.path("times.csv")})
        self.costs = self.read_costs(timed)

    def path(self, name):
        return os.path.join(self.directory, name)

    def build(self, config):
        with open(self.path("config.json"), "w") as file:
            json.dump(config, file)
        speed = CHIPS[self.chip]
        precision = "f16" if self.chip == "sm_75" else "bf16"
        device = {
            "target": f"cuda:{self.chip}", "memory": "1TiB", "precision": precision,
            "flops": {"f32": speed.peak / 16, precision: speed.peak},
            "bandwidth": speed.bandwidth,
        }  # fmt: skip
        cluster = {"device_types": {"gpu": device},
                   "nodes": [{"name": "localhost", "devices": ["gpu"]}]}  # fmt: skip
        with open(self.path("cluster.json"), "w") as file:
            json.dump(cluster, file)
        poplar, batch = self.arguments.poplar, str(self.model.batch)
        run(poplar, "import", self.path("config.json"), "--seq-len", str(self.model.tokens),
            "--no-tokenizer", *self.model.options, "-o", self.path("model.mlir"))  # fmt: skip
        run(poplar, "plan", "--model", self.path("model.mlir"), "--cluster",
            self.path("cluster.json"), "--global-batch", batch, "--zero", "0", "--recompute",
            "keep", "--batch", f"gpu={batch}", "-o", self.path("plan.mlir"))  # fmt: skip
        run(poplar, "build", self.path("plan.mlir"), "--no-kv-cache", "-o", self.path("job"))

    def trace(self, name, environment):
        """The lines of a run of STEPS steps, each of which is a micro-step and an
        update."""
        trace = self.path(name + ".trace")
        run(
            self.path("job/gpu/train"), "train", "--data", ROOT + "/examples/data/corpus.txt",
            "--data-format", "bytes", "--steps", str(STEPS), "--eval-every", "0", "--skip-save",
            "--peak-gflops", "1", "--out", self.path("run-" + name),
            POPLAR_CUDA_PATH=self.arguments.counting, POPLAR_COUNTING_CHIP=self.chip,
            POPLAR_COUNTING_PROCESSORS=str(CHIPS[self.chip].processors),
            POPLAR_COUNTING_TRACE=trace, POPLAR_COMM="host", **environment,
        )  # fmt: skip
        with open(trace) as file:
            return file.read().splitlines()

    @staticmethod
    def read_step(lines):
        """The calls from one start of the last graph to the next: each a line, with
        the part of the step that it belongs to."""
        graphs, inside, captured = {}, False, []
        step = None
        for line in lines:
            if line == "begin-capture":
                inside, captured = True, []
            elif line.startswith("end-capture "):
                inside = False
                graphs[line.split()[1]] = captured
            elif inside:
                captured.append(line)
            elif line.startswith("launch-graph "):
                complete, step = step, [("host", line)]
                step += [("micro-step", call) for call in graphs[line.split()[1]]]
            elif step is not None:
                step.append(("optimizer", line))
        if not graphs or complete is None:
            sys.exit("error: the executable has started no graph twice")
        return complete

    def read_costs(self, lines):
        """{kernel: Cost}. The table of times has sums over calls."""
        counts = defaultdict(list)
        for line in lines:
            if line.startswith("kernel "):
                _, name, *_, last = line.split()
                counts[name].append(int(last, 16))
        with open(self.path("times.csv")) as file:
            rows = [line.rsplit(",", 4) for line in file.read().splitlines()[1:]]
        costs = {}
        for name, calls, _, flops, size in rows:
            # The first call is not in the table.
            units = sum(counts.get(name, [])[1:])
            if int(calls) and units:
                costs[name] = Cost(float(size) / units, float(flops) / units,
                                   len(set(counts[name])) > 1)  # fmt: skip
        return costs

    def read_images(self):
        """PTX of all kernels, and what ptxas makes of it."""
        kernels, code = {}, {}
        for name in sorted(os.listdir(self.directory)):
            if re.match(r"graphs\.trace\.\d+\.ptx$", name):
                with open(self.path(name)) as file:
                    kernels.update(read_kernels(file.read()))
                code.update(sass.assemble(self.path(name), self.chip))
        return kernels, code
