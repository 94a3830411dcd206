# ===- stack_experts.py - Experts in one tensor -----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: stack_experts.py FROM TO [--keep | --without NUMBER | --whole]

Copies a checkpoint with the weights of a layer's experts in two tensors, as Qwen3.5 is
published: experts.gate_up_proj [experts, 2 inner, hidden], with the rows of the gate
first, and experts.down_proj [experts, hidden, inner]. With --keep, the tensors of single
experts stay, too; --without leaves one expert out; --whole makes it the model of text of
one that reads pictures, with layers that predict several tokens."""

import json
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "goldens"))
import safetensors_reader  # noqa: E402

STACKS = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}


def stack(tensors, without):
    """The tensors of all experts by the names of stacks."""
    experts = {}
    for name, tensor in tensors.items():
        found = re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+)\.weight", name)
        if found and int(found[2]) != without:
            experts.setdefault(found[1], {}).setdefault(int(found[2]), {})[found[3]] = tensor
    stacks = {}
    for module, numbers in experts.items():
        for name, leaves in STACKS.items():
            parts = [numbers[number][leaf] for number in sorted(numbers) for leaf in leaves]
            dtype, (rows, columns), _ = parts[0]
            shape = (len(numbers), rows * len(leaves), columns)
            stacks[f"{module}.{name}"] = (dtype, shape, b"".join(part[2] for part in parts))
    return stacks


def make_whole(directory, tensors):
    """Names and configuration of the larger model."""
    path = os.path.join(directory, "config.json")
    with open(path) as file:
        text = json.load(file)
    kind = text.pop("architectures")[0].replace("CausalLM", "ConditionalGeneration")
    config = {"architectures": [kind], "model_type": text["model_type"].removesuffix("_text")}
    with open(path, "w") as file:
        json.dump(config | {"text_config": text, "vision_config": {}}, file)
    whole = {re.sub(r"^model\.", "model.language_model.", name): t for name, t in tensors.items()}
    other = ("F32", (1,), bytes(4))
    return whole | {"model.visual.pos_embed.weight": other, "mtp.norm.weight": other}


def main():
    source, target, *options = sys.argv[1:]
    shutil.copytree(source, target)
    path = os.path.join(target, "model.safetensors")
    tensors, _ = safetensors_reader.read_bytes(path)
    without = int(options[1]) if "--without" in options else None
    stacks = stack(tensors, without)
    if "--keep" not in options:
        tensors = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    tensors |= stacks
    if "--whole" in options:
        tensors = make_whole(target, tensors)
    safetensors_reader.write(path, tensors)


main()
