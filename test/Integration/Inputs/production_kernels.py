# ===- production_kernels.py - Kernels at the widths of models -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checks kernels on an emulated GPU, each set in two orders of threads of its own:
those of models of a directory, and those of blocks as wide as models in use, whose
vocabularies are small, so that their tables fit into a test."""

import glob
import json
import os
import shutil
import subprocess
import sys

QUICK = ["gpt2-124m-bf16", "llama-0.5b-bf16"]
# Tables of hundreds of MiB, which no test machine has the memory for.
HUGE = {"llama-70b", "llama-140b"}
# Family, width, width of the feed-forward network, vocabulary, format. Rows of 768
# elements in f32 have six warps, those of 896 and 1792 seven; 128256 is Llama 3's
# vocabulary.
WIDTHS = [
    ("gpt2", 768, 3072, 512, "f32"),
    ("llama", 896, 4864, 512, "f32"),
    ("gpt2", 1280, 5120, 512, "f32"),
    ("bert", 1792, 7168, 512, "bf16"),
    ("llama", 2048, 5632, 512, "bf16"),
    ("llama", 4096, 14336, 512, "bf16"),
    ("llama", 64, 128, 128256, "bf16"),
]
MORE_WIDTHS = [
    ("gpt2", 1600, 6400, 512, "bf16"),
    ("llama", 3584, 18944, 512, "bf16"),
    ("llama", 5120, 13824, 512, "f32"),
    ("llama", 64, 128, 151936, "f32"),
]


def describe(family, width, inner, vocabulary):
    heads = max(width // 64, 1)
    if family == "gpt2":
        return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": width,
                "n_inner": inner, "n_head": heads, "n_layer": 1, "n_positions": 64,
                "vocab_size": vocabulary}  # fmt: skip
    common = {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": 1,
              "num_attention_heads": heads, "max_position_embeddings": 64,
              "vocab_size": vocabulary, "model_type": family}  # fmt: skip
    if family == "bert":
        return {"architectures": ["BertForMaskedLM"], "mask_token_id": 103, **common}
    return {"architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5, **common}


def check(name, directory, number):
    """Of what kernel-cases calls `name`."""
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run(["kernel-cases", "sm_90", directory, name], check=True)
    (written,) = os.listdir(directory)
    subprocess.run(
        ["check-kernels", os.path.join(directory, written)],
        env=dict(os.environ, POPLAR_EMULATED_ORDER=str(2 * number + 1)),
        check=True,
    )
    sys.stdout.flush()


def main():
    models, directory = sys.argv[1:]
    sets, widths = ["library-wide"] + QUICK, WIDTHS
    if os.environ.get("POPLAR_TEST_ALL_WIDTHS"):
        widths = WIDTHS + MORE_WIDTHS
        for path in sorted(glob.glob(os.path.join(models, "*.json"))):
            name = os.path.basename(path)[: -len(".json")]
            for precision in ("bf16", "f32"):
                if name not in HUGE and f"{name}-{precision}" not in sets:
                    sets.append(f"{name}-{precision}")
    number = 0
    for number, name in enumerate(sets):
        check(name, directory, number)
    configs = directory + "-configs"
    os.makedirs(configs, exist_ok=True)
    for more, (family, width, inner, vocabulary, precision) in enumerate(widths, 1):
        name = f"{family}-{width}" if vocabulary == 512 else f"{family}-of-{vocabulary}"
        path = os.path.join(configs, name + ".json")
        with open(path, "w") as file:
            json.dump(describe(family, width, inner, vocabulary), file)
        check(f"{path}-{precision}", directory, number + more)
    shutil.rmtree(directory, ignore_errors=True)
    print("all cases passed")


if __name__ == "__main__":
    main()
