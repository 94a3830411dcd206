"""Checks an adapter of the model of text of a larger model:

  check_multimodal.py ADAPTER BASE MERGED

target_modules must match the modules that have weights, and none outside of the model
of text; MERGED must be BASE but for those. Beside ADAPTER, writes ADAPTER-earlier with
the names that modules had before transformers 5."""

import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), *[".."] * 3, "scripts", "goldens"))
import safetensors_reader

adapter, base, merged = sys.argv[1:]
config = json.load(open(os.path.join(adapter, "adapter_config.json")))
pattern = re.compile(config["target_modules"])


def read(*path):
    return safetensors_reader.read_bytes(os.path.join(*path))[0]


names = read(adapter, "adapter_model.safetensors")
before, after = read(base, "model.safetensors"), read(merged, "model.safetensors")


def as_module(tensor):
    """As PEFT sees it in the model of transformers 5."""
    name = tensor.removesuffix(".weight")
    if name.startswith("language_model.model."):
        return "model.language_model." + name.removeprefix("language_model.model.")
    return name if name.startswith("model.") else "model." + name


adapted = {name.removeprefix("base_model.model.").split(".lora_")[0] for name in names}
matched = {as_module(name) for name in before if pattern.fullmatch(as_module(name))}
assert adapted == matched, (adapted, matched)
assert before.keys() == after.keys()
changed = {as_module(name) for name in before if before[name] != after[name]}
assert changed == adapted, (changed, adapted)
assert any(name.startswith(("vision_tower", "model.visual")) for name in before)

earlier = adapter + "-earlier"
shutil.copytree(os.path.realpath(adapter), earlier)
path = os.path.join(earlier, "adapter_model.safetensors")
data = open(path, "rb").read()
size = int.from_bytes(data[:8], "little")
header = data[8 : 8 + size].replace(b"model.model.language_model.", b"model.language_model.model.")
open(path, "wb").write(data[:8] + header + data[8 + size :])
