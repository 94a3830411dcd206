#!/usr/bin/env python3
# ===- check_recipes.py - Which public recipes are accepted ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Counts which recipes in a directory `poplar finetune --check` accepts, and why not.

  scripts/goldens/check_recipes.py DIR      recipes that are there (*.yaml, *.yml)
  scripts/goldens/check_recipes.py --fetch  axolotl's examples, at a pinned commit

Each recipe is checked twice: as it is published, and as if its model and the rows of
its data sets had been downloaded (base_model, path, data_files and split name files
that this script makes). Which family a model of the Hub is of, and its special tokens,
tables here say, because no model is downloaded; docs/families.md says which families
there are. Needs PyYAML (on Debian: python3-yaml)."""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/axolotl-ai-cloud/axolotl"
COMMIT = "067b021c8b87a9e5e380b9173c704cf7340e30f5"

# Patterns of names, the first of which counts: the model_type of config.json, and the
# tokens bos and eos of the tokenizer.
MODELS = [
    (r"llava|pixtral|[-/]vl|vision|internvl|smolvlm|voxtral|gemma-?3n|qwen2-audio", "multimodal"),
    (r"gemma-4|diffusiongemma", "gemma4"),
    (r"gemma-3-(270m|1b)|embeddinggemma", "gemma3_text"),
    (r"gemma-3-\d+b", "gemma3_text", "<bos>", "<eos>"),
    (r"gemma-3", "multimodal"),
    (r"gemma-2", "gemma2", "<bos>", "<eos>"),
    (r"gemma", "gemma", "<bos>", "<eos>"),
    (r"llama-4", "llama4"),
    (r"codellama|llama-2|llama_7b|llama-7b|open_llama|tinyllama", "llama", "<s>", "</s>", "<unk>"),
    (r"llama.*instruct", "llama", "<|begin_of_text|>", "<|eot_id|>"),
    (r"cerebras-gpt", "gpt2"),
    (r"01-ai/yi", "llama", "<|startoftext|>", "<|im_end|>", "<unk>"),
    (r"orpheus", "llama"),
    (r"llama|smollm2", "llama", "<|begin_of_text|>", "<|end_of_text|>"),
    (r"mixtral", "mixtral", "<s>", "</s>", "<unk>"),
    (r"magistral|devstral|mistral-small-3[.]", "mistral", "<s>", "</s>", "<unk>"),
    (r"mistral-7b|mistral-nemo|ministral-8b|dolphin.*mistral", "mistral", "<s>", "</s>", "<unk>"),
    (r"ministral-3|mistral-medium-3[.]5", "ministral3", "<s>", "</s>", "<unk>"),
    (r"mistral-small-4", "mistral4", "<s>", "</s>", "<unk>"),
    (r"mistral|ministral|magistral|devstral", "mistral3"),
    (r"qwen3[.]?5-(4|9|27)b", "qwen3_5_text", "", "<|im_end|>"),
    (r"qwen3[.]?[56].*a\d+b", "qwen3_5_moe_text", "", "<|im_end|>"),
    (r"qwen3-(coder-)?next", "qwen3_next", "", "<|im_end|>"),
    (r"qwen3[.]?[56]", "qwen3_5_text", "", "<|im_end|>"),
    (r"qwen3-.*a\d+b|qwen3-moe", "qwen3_moe", "", "<|im_end|>"),
    (r"qwen3|plano-orchestrator", "qwen3", "", "<|im_end|>"),
    (r"qwen.*moe", "qwen2_moe", "", "<|im_end|>"),
    (r"qwen2|qwq|qwen1.5|qwen-14b|deepcoder", "qwen2", "", "<|im_end|>"),
    (r"qwen", "qwen"),
    (r"phi-3|phi-?4", "phi3", "<s>", "<|endoftext|>"),
    (r"phi", "phi", "<|endoftext|>", "<|endoftext|>"),
    (r"gpt-oss", "gpt_oss", "<|startoftext|>", "<|return|>"),
    (r"hunyuan-[\d.]+b", "hunyuan_v1_dense", "<|startoftext|>", "<|eos|>"),
    (r"mimo-7b", "mimo", "", "<|im_end|>"),
    (r"nemotron-mini", "nemotron", "<s>", "</s>"),
    (r"command-r7b", "cohere2", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    (r"deepseek-v2-lite", "deepseek_v2", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    (r"glm-4-\d+b", "glm4", "[gMASK]", "<|endoftext|>"),
    (r"glm-4[.]7-flash", "glm4_moe_lite", "[gMASK]", "<|endoftext|>"),
    (r"glm-4[.][567](?!v)", "glm4_moe", "[gMASK]", "<|endoftext|>"),
    (r"minimax-m2", "minimax_m2", "]~!b[", "[e~["),
    (r"trinity", "afmoe", "<|begin_of_text|>", "<|im_end|>"),
    (r"moonlight|deepseek-v3", "deepseek_v3", "[BOS]", "[EOS]"),
    (r"seed-oss", "seed_oss", "<seed:bos>", "<seed:eos>"),
    (r"afm-", "arcee", "<|begin_of_text|>", "<|end_of_text|>"),
    (r"starcoder2", "starcoder2", "<|endoftext|>", "<|endoftext|>"),
    (r"pythia|gpt-neox|redpajama|stablelm-base", "gpt_neox", "<|endoftext|>", "<|endoftext|>"),
    (r"stablelm", "stablelm"),
    (r"smollm3", "smollm3", "", "<|im_end|>"),
    (r"granite-4|granite.*moe", "granitemoehybrid"),
    (r"granite", "granite"),
    (r"olmo-?3", "olmo3", "", "<|endoftext|>"),
    (r"olmo-2", "olmo2"),
]

# Names of models whose embedding is their head, too; the rows of embeddings, and tokens
# that the tokenizer has, the last of which has the last row. A tokenizer of which none is
# named has fewer tokens than there are rows.
TIED = r"llama-3[.]2-|smollm2|qwen(2|2[.]5|3)-[01234]([.]\d)?b|gemma"
ROWS = [
    (r"phi-3", 32064, []),
    (r"phi-(1|2)", 51200, []),
    (r"mistral-7b|mixtral", 32000, ["</s>"]),
    (r"llama-3", 128256, ["<|end_of_text|>", "<|eot_id|>"]),
    (r"01-ai/yi", 64000, ["<|endoftext|>"]),
]

# Names of models with a tokenizer of mistral-common, and its version. Of some, the
# tokenizer.json is to be made of it.
TEKKEN = [(r"ministral-8b|mistral-nemo", "v3"), (r"magistral|devstral|ministral-3|mistral-small-3", "v13")]

# Reasons by the names of keys and members, the first of which counts.
REASONS = [
    (r"rl|trl|vllm|ebft|.*reward.*|dpo_.*|kto_.*|orpo_.*|step_separator|max_completion_length|"
     r"train_on_last_step_only|rl_beta|field_(chosen|rejected)|num_labels|model_type", "preference or reward trainer"),
    (r"processor_.*|image_.*|freeze_mm_modules|skip_prepare_dataset", "multimodal"),
    (r"base_model|path|data_files|split|ds_type|revision_of_model|name", "needs the file"),
    (r"chat_template.*|default_system_message", "chat template by name"),
    (r"type|field.*|roles.*|message_.*|train_on_.*|conversation|drop_system_message|template_thinking_key",
     "form of rows"),
    (r"lora_target_modules", "names of modules to adapt"),
    (r"lora_modules_to_save", "modules saved beside adapters"),
    (r"lora_target_parameters|quantize_moe_experts", "adapters or quantisation of experts"),
    (r"adapter|peft.*|lora.*|relora|jagged.*|lisa.*|unfrozen.*|mora|spectrum.*", "another kind of adapter or selection"),
    (r"optimizer|optim_.*|dion.*|torchdistx_path", "optimizer"),
    (r"pretraining_dataset|streaming", "pre-training"),
    (r"loss_watchdog.*|early_stopping.*|load_best.*|save_strategy|.*metric.*", "stopping and the best checkpoint"),
    (r"lr_scheduler.*|lr_.*|cosine_.*", "scheduler"),
    (r"special_tokens|tokens|resize_token.*|added_tokens.*|fix_untrained.*|tokenizer.*", "changed tokenizer"),
    (r"plugins|diffusion|use_eaft|kd_.*|llmcompressor", "plugin or another loss"),
    (r"context_parallel_size|tensor_parallel_size|sequence_parallel.*", "parallelism that divides the batch"),
    (r"fp8|qat|float16|fp16|bfloat16|torch_dtype|model_quantization.*|gptq.*|use_onebitllms", "number format"),
]

OTHER = "another key: "


def fetch(directory):
    """axolotl's examples at COMMIT."""
    git = ["git", "-C", str(directory)]
    subprocess.run(git + ["init", "-q"], check=True)
    subprocess.run(git + ["fetch", "-q", "--depth", "1", REPOSITORY, COMMIT], check=True)
    subprocess.run(git + ["checkout", "-q", "FETCH_HEAD", "--", "examples"], check=True)
    return directory / "examples"


def find_model(name):
    """The row of MODELS for a name, or one without a family."""
    for pattern, *facts in MODELS:
        if re.search(pattern, str(name).lower()):
            return facts
    return ["unknown"]


def list_families():
    """The values of model_type in the table of docs/families.md."""
    text = (ROOT / "docs" / "families.md").read_text()
    return set(re.findall(r"^\| `\w+` \| `(\w+)` \|", text, re.M))


def make_model(directory, name):
    """A directory that has what `poplar finetune` reads of a model."""
    family, *tokens = find_model(name)
    directory.mkdir()
    config = {"model_type": family, "tie_word_embeddings": bool(re.search(TIED, str(name).lower()))}
    for pattern, rows, known in ROWS:
        if re.search(pattern, str(name).lower()):
            config["vocab_size"] = rows
            added = [{"id": rows - len(known) + at, "content": token} for at, token in enumerate(known)]
            if known:
                tokenizer = {"model": {"vocab": {}}, "added_tokens": added}
                (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "config.json").write_text(json.dumps(config))
    for pattern, version in TEKKEN:
        if re.search(pattern, str(name).lower()):
            (directory / "tekken.json").write_text(json.dumps({"config": {"version": version, "pattern": "."}}))
            steps = [{"type": "Split", "pattern": {"Regex": "."}}]
            tokenizer = {"model": {"vocab": {}}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}
            (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
            break
    names = dict(zip(("bos_token", "eos_token", "unk_token"), tokens))
    (directory / "tokenizer_config.json").write_text(json.dumps(names))
    if re.search(r"instruct|-it$|chat|qwen3|phi-[34]|gpt-oss", str(name).lower()):
        (directory / "chat_template.jinja").write_text("{{ messages }}")
    return str(directory)


def download(recipe, directory):
    """The recipe as if its model and its rows were in `directory`."""
    rows = directory / "rows.jsonl"
    rows.write_text("{}\n")
    recipe = dict(recipe, base_model=make_model(directory / "model", recipe["base_model"]))
    for key in ("base_model_config", "tokenizer_config", "revision_of_model"):
        recipe.pop(key, None)
    for key in ("datasets", "test_datasets", "pretraining_dataset"):
        for entry in recipe.get(key) or []:
            entry["path"] = str(rows)
            for member in ("split", "data_files", "name", "ds_type"):
                entry.pop(member, None)
    path = directory / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def check(poplar, path):
    """The refused keys of a recipe, or ["error"] of a file that is none; and the error."""
    result = subprocess.run([poplar, "finetune", str(path), "--check"], capture_output=True, text=True)
    if result.returncode == 0:
        return [], ""
    keys = re.findall(r"^refused +\S+ +([^\s:]+):", result.stdout, re.M)
    return keys or ["error"], result.stderr.strip()


def find_reason(key):
    if key == "error":
        return "no recipe, or one that contradicts itself"
    name = key.rsplit(".", 1)[-1]
    for pattern, reason in REASONS:
        if re.fullmatch(pattern, name):
            return reason
    return OTHER + name


def print_table(title, outcomes):
    accepted = sum(not reasons for reasons in outcomes)
    print(f"{title}: {accepted} of {len(outcomes)} recipes accepted")
    counts, alone, others = collections.Counter(), collections.Counter(), collections.Counter()
    for reasons in outcomes:
        others.update(reason.removeprefix(OTHER) for reason in reasons if reason.startswith(OTHER))
        reasons = {OTHER[:-2] if reason.startswith(OTHER) else reason for reason in reasons}
        counts.update(reasons)
        if len(reasons) == 1:
            alone.update(reasons)
    for reason, count in counts.most_common():
        share = 100 * count / len(outcomes)
        print(f"  {count:4} {share:5.1f} %  alone {alone[reason]:4}  {reason}")
    if others:
        print("  other keys:", ", ".join(f"{name} {count}" for name, count in others.most_common()))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?", type=pathlib.Path)
    parser.add_argument("--fetch", action="store_true", help="axolotl's examples, by git")
    parser.add_argument("--poplar", default=str(ROOT / "build" / "release" / "bin" / "poplar"))
    parser.add_argument("--verbose", action="store_true", help="print the reasons of each recipe")
    arguments = parser.parse_args()
    if arguments.fetch == bool(arguments.directory):
        parser.error("give a directory or --fetch")
    families = list_families()
    published, with_files, supported = [], [], []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        directory = fetch(work) if arguments.fetch else arguments.directory
        paths = sorted([*directory.rglob("*.yaml"), *directory.rglob("*.yml")])
        for number, path in enumerate(paths):
            recipe = yaml.safe_load(path.read_text())
            if not isinstance(recipe, dict) or "base_model" not in recipe:
                continue
            keys, _ = check(arguments.poplar, path)
            published.append({find_reason(key) for key in keys})
            folder = work / f"recipe-{number}"
            folder.mkdir()
            family = find_model(recipe["base_model"])[0]
            keys, message = check(arguments.poplar, download(recipe, folder))
            reasons = {find_reason(key) for key in keys}
            if family == "multimodal":
                reasons.add("multimodal")
            elif family not in families:
                reasons.add("family is missing")
            else:
                supported.append(reasons)
            with_files.append(reasons)
            if arguments.verbose:
                print(path.relative_to(directory), sorted(reasons) or "accepted", keys, message)
    print_table("as published", published)
    print_table("with the model and the rows as files", with_files)
    print_table("of these, models of families that there are", supported)


if __name__ == "__main__":
    sys.exit(main())
