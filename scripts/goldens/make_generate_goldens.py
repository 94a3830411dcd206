#!/usr/bin/env python3
# ===- make_generate_goldens.py - Greedy text by transformers --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes generate.txt into the goldens of models that continue text: a prompt,
and with what generate() of transformers continues it, greedily and with its KV
cache. Fails if a token was nearly another one.

  pip install -r scripts/goldens/requirements.txt
  python3 scripts/goldens/make_generate_goldens.py"""

import argparse
import glob
import json
import os
import random

import torch
import transformers

import make_goldens  # noqa: F401, which registers a class

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMPT, LENGTH = 9, 24
# Other sums may differ by so much of the largest logit.
LEAST_GAP = 1e-3


def generate(model, prompt):
    text = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=LENGTH - len(prompt),
        min_new_tokens=LENGTH - len(prompt),
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
    )[0]
    with torch.no_grad():
        logits = model(text[None]).logits[0, len(prompt) - 1 : -1]
    best = logits.topk(2).values
    gap = ((best[:, 0] - best[:, 1]) / logits.abs().max()).min().item()
    return text.tolist(), gap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="*", help="one model")
    only = parser.parse_args().only
    for path in sorted(glob.glob(os.path.join(ROOT, f"test/Integration/goldens/{only}/config.json"))):
        directory = os.path.dirname(path)
        with open(path) as file:
            config = json.load(file)
        if config["model_type"] == "bert" or "peft" in directory:
            continue
        # transformers would decode it to bf16.
        if "quantization_config" in config:
            continue
        # Their frequencies depend on the length so far, not on that of the model's
        # sequences; those of Hunyuan on a constant.
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        scaling = rope.get("rope_type", rope.get("type"))
        if scaling in ("dynamic", "longrope") and not rope.get("alpha"):
            continue
        kind = transformers.AutoModelForCausalLM
        # It is listed only as a part of a model that reads pictures.
        if config["model_type"] == "mistral4":
            kind = transformers.Mistral4ForCausalLM
        model = kind.from_pretrained(
            directory, attn_implementation="eager", dtype=torch.float32
        ).eval()
        model.generation_config.eos_token_id = None
        for seed in range(100):
            random.seed(seed)
            text, gap = generate(model, [random.randrange(256) for _ in range(PROMPT)])
            if gap >= LEAST_GAP and len(text) == LENGTH:
                break
        else:
            raise SystemExit(f"{directory}: every text is nearly another one")
        with open(os.path.join(directory, "generate.txt"), "w") as file:
            file.write(",".join(map(str, text[:PROMPT])) + "\n")
            file.write(" ".join(map(str, text)) + "\n")
        print(f"{os.path.basename(directory)}: seed {seed}, gap {gap:.2g}")


if __name__ == "__main__":
    main()
