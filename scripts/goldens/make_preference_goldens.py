#!/usr/bin/env python3
# ===- make_preference_goldens.py - DPO and ORPO of trl ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes test/Integration/goldens/preference: a small random Llama, pairs of answers
in all forms that trl reads, and what trl makes of them in 30 steps:

  dpo         DPOTrainer, all weights, the reference being a copy of the model
  dpo-lora    DPOTrainer, an adapter of PEFT, the reference being the model without it
  orpo        ORPOTrainer, all weights
  orpo-lora   ORPOTrainer, an adapter of PEFT

expected.json has the loss, the gradient's norm, the margin and the accuracy of each
step, expected.safetensors the weights behind the last one (adapters: the adapter).
test/Integration/Adapters/preference.test trains the same and compares.

  pip install -r scripts/goldens/requirements.txt
  python3 scripts/goldens/make_preference_goldens.py

tokens.json has, for each form of rows, the tokens that DPOTrainer makes of each pair:
those of the prompt, of the chosen and of the rejected answer. The unit test
PairsTest.TokensAreThoseOfTrl compares them."""

import json
import pathlib
import shutil
import tempfile

import datasets
import peft
import torch
import transformers
import trl
from safetensors.torch import load_file, save_file
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "test" / "Integration" / "goldens" / "preference"
STEPS, BETA = 30, 0.1
RATES = {"full": 1e-3, "lora": 5e-3}
TARGETS = ["q_proj", "v_proj", "down_proj"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Seven pairs, of unlike lengths: as texts, and as conversations.
TEXTS = [
    ("What is the memory of a RTX 3060?", " A RTX 3060 has 12 GB.", " I do not know."),
    ("L4 memory?", " 24 GB.", " Many gigabytes of memory, more than 24 GB."),
    ("Does a model of 20 GB fit on a RTX 4090?", " Yes.", " No. It has 12 GB."),
    ("Name a GPU.", " The T4 is a GPU.", " A GPU."),
    ("How much memory does a T4 have?", " A T4 has 16 GB.", " A T4 has 24 GB. Or 12."),
    ("Which is larger?", " The L4.", " The model."),
    ("Does it fit?", " No. A RTX 4070 has 12 GB.", " Yes. Yes. Yes."),
]


def message(role, content):
    return {"role": role, "content": content.strip()}


def make_rows():
    """Of DPO: texts with and without a prompt, conversations with and without one."""
    texts = [
        {"prompt": prompt, "chosen": chosen, "rejected": rejected}
        for prompt, chosen, rejected in TEXTS
    ]
    implicit = [
        {"chosen": prompt + chosen, "rejected": prompt + rejected}
        for prompt, chosen, rejected in TEXTS
    ]
    chats = [
        {
            "prompt": [message("user", prompt)],
            "chosen": [message("assistant", chosen)],
            "rejected": [message("assistant", rejected)],
        }
        for prompt, chosen, rejected in TEXTS
    ]
    whole = [
        {
            "chosen": row["prompt"] + row["chosen"],
            "rejected": row["prompt"] + row["rejected"],
        }
        for row in chats
    ]
    # axolotl's chat_template.default; trl reads chats instead.
    answers = [
        {
            "messages": row["prompt"],
            "chosen": row["chosen"][0],
            "rejected": row["rejected"][0],
        }
        for row in chats
    ]
    return {
        "texts": texts,
        "implicit": implicit,
        "chats": chats,
        "whole": whole,
        "answers": answers,
    }


def make_model():
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=576,
        max_position_embeddings=256,
        initializer_range=0.1,
        eos_token_id=2,
        bos_token_id=None,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(OUT / "model")
    for name in ("generation_config.json",):
        (OUT / "model" / name).unlink(missing_ok=True)
    shutil.copy(ROOT / "examples" / "chat" / "tokenizer.json", OUT / "model")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
    }
    text = json.dumps(settings, indent=2) + "\n"
    (OUT / "model" / "tokenizer_config.json").write_text(text)


def make_trainer(directory, rows, kind, adapter):
    tokenizer = transformers.AutoTokenizer.from_pretrained(OUT / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        OUT / "model", dtype=torch.float32, attn_implementation="eager"
    )
    if adapter:
        torch.manual_seed(5)
        config = peft.LoraConfig(
            r=4, lora_alpha=8, lora_dropout=0.0, target_modules=TARGETS, task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(model, config)
        model.save_pretrained(OUT / "adapter")
        (OUT / "adapter" / "README.md").unlink(missing_ok=True)
    config_class, trainer_class = {
        "dpo": (trl.DPOConfig, trl.DPOTrainer),
        "orpo": (ORPOConfig, ORPOTrainer),
    }[kind]
    arguments = config_class(
        output_dir=directory,
        beta=BETA,
        max_length=64,
        max_steps=STEPS,
        per_device_train_batch_size=len(rows),
        learning_rate=RATES["lora" if adapter else "full"],
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        seed=1,
    )
    return trainer_class(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )


def tokenize(rows):
    with tempfile.TemporaryDirectory() as directory:
        made = make_trainer(directory, rows, "dpo", adapter=False).train_dataset
    return [[row[f"{part}_ids"] for part in ("prompt", "chosen", "rejected")] for row in made]


def train(name, rows, kind, adapter):
    with tempfile.TemporaryDirectory() as directory:
        trainer = make_trainer(directory, rows, kind, adapter)
        trainer.train()
    steps = [row for row in trainer.state.log_history if "loss" in row]
    assert len(steps) == STEPS, len(steps)
    result = {
        "loss": [row["loss"] for row in steps],
        "grad_norm": [row["grad_norm"] for row in steps],
        "margin": [row["rewards/margins"] for row in steps],
        "accuracy": [row["rewards/accuracies"] for row in steps],
    }
    print(name, result["loss"][0], result["loss"][-1], result["margin"][-1])
    path = OUT / name
    path.mkdir(exist_ok=True)
    with open(path / "expected.json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    with tempfile.TemporaryDirectory() as directory:
        trainer.model.save_pretrained(directory)
        file = "adapter_model.safetensors" if adapter else "model.safetensors"
        save_file(load_file(f"{directory}/{file}"), path / "expected.safetensors")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    make_model()
    rows = make_rows()
    for form, each in rows.items():
        with open(OUT / f"{form}.jsonl", "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in each)
    train("dpo", rows["texts"], "dpo", adapter=False)
    train("dpo-lora", rows["chats"], "dpo", adapter=True)
    train("orpo", rows["texts"], "orpo", adapter=False)
    train("orpo-lora", rows["texts"], "orpo", adapter=True)
    tokens = {form: tokenize(each) for form, each in rows.items() if form != "answers"}
    with open(OUT / "tokens.json", "w") as file:
        json.dump(tokens, file)
        file.write("\n")
    versions = {
        name: module.__version__
        for name, module in (("trl", trl), ("transformers", transformers), ("peft", peft))
    }
    (OUT / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")


main()
