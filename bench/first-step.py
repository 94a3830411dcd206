#!/usr/bin/env python3
# ===- first-step.py - From a model's directory to the first step ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""How long `poplar finetune` takes until the first step of a LoRA is done, and what it
does meanwhile: a model of the shape of Qwen3-0.6B with random weights in bf16, on two
kinds of CPU that share this machine. Nothing is in the cache: not a profile, no code.

  bench/first-step.py
  bench/first-step.py --profile-seconds 30 --seq-len 128 --hidden 256
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from commands import ROOT

QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "attention_bias": False,
    "torch_dtype": "bfloat16",
}


def list_shapes(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, pairs, width = (
        config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    )
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,)
        yield prefix + "self_attn.q_proj.weight", (heads * width, hidden)
        yield prefix + "self_attn.k_proj.weight", (pairs * width, hidden)
        yield prefix + "self_attn.v_proj.weight", (pairs * width, hidden)
        yield prefix + "self_attn.o_proj.weight", (hidden, heads * width)
        yield prefix + "self_attn.q_norm.weight", (width,)
        yield prefix + "self_attn.k_norm.weight", (width,)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield prefix + "mlp.gate_proj.weight", (inner, hidden)
        yield prefix + "mlp.up_proj.weight", (inner, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)


def write_model(directory, config):
    """A directory as the Hub has it: configuration, weights, a tokenizer."""
    os.makedirs(directory)
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    shutil.copy(os.path.join(ROOT, "examples/chat/tokenizer.json"), directory)
    header, end = {}, 0
    for name, shape in list_shapes(config):
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    generator = random.Random(1)
    # The upper bytes of 2^-7 to 2^-5 in bf16, with either sign.
    signs = bytes(0x3C if byte < 128 else 0xBC for byte in range(256))
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in list_shapes(config):
            count = math.prod(shape)
            values = bytearray(b"\x80\x3f" * count)
            if len(shape) == 2:
                values[0::2] = generator.randbytes(count)
                values[1::2] = generator.randbytes(count).translate(signs)
            file.write(values)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=os.path.join(ROOT, "build/release/bin/poplar"))
    parser.add_argument("--devices", default="avx2-f32=1,sse41-f32=1")
    parser.add_argument("--profile-seconds", type=int, default=60)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--global-batch", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=QWEN3["hidden_size"])
    args = parser.parse_args()
    config = QWEN3 | {"hidden_size": args.hidden}
    with tempfile.TemporaryDirectory() as directory:
        model, run = os.path.join(directory, "model"), os.path.join(directory, "run")
        write_model(model, config)
        command = [args.poplar, "finetune", model, "--out", run, "--steps", "1"]
        command += ["--data", os.path.join(ROOT, "examples/chat/chat.jsonl")]
        command += ["--devices", args.devices, "--seq-len", str(args.seq_len)]
        command += ["--global-batch", str(args.global_batch), "--val-fraction", "0"]
        command += ["--profile-seconds", str(args.profile_seconds)]
        environment = os.environ | {"POPLAR_CACHE": os.path.join(directory, "cache")}
        last = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        # What begins with each line, and how long it takes until the next one.
        spans, verdict, name = [], [], "start"
        for line in process.stdout:
            now = time.perf_counter()
            words = line.split()
            label = None
            if words[1:3] == ["$", "poplar"]:
                label = words[0] + (
                    " " + words[words.index("--device-type") + 1] if words[0] == "profile" else ""
                )
            elif words[:1] == ["verdict"]:
                verdict, label = [line], "after the verdict"
            elif verdict and line.startswith("    "):
                verdict.append(line)
            elif line.startswith("loaded "):
                label = "first step"
            elif line.startswith("step 1/"):
                label = "checkpoint"
            if label:
                spans.append((name, now - last))
                name, last = label, now
        if process.wait():
            sys.exit(f"error: {' '.join(command)} failed")
    sys.stdout.writelines(verdict)
    print("\n| what | seconds |\n| --- | --- |")
    total = 0
    for name, seconds in spans:
        total += seconds
        print(f"| {name} | {seconds:.1f} |")
    print(f"| until the first step is done | {total:.1f} |")


main()
