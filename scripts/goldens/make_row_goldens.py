#!/usr/bin/env python3
# ===- make_row_goldens.py - Rows as axolotl encodes them -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Lets axolotl encode rows of its types, and writes their tokens and labels.

  scripts/goldens/make_row_goldens.py AXOLOTL [--poplar FILE]

AXOLOTL is a checkout of the commit that check_recipes.py names. The options by which
Poplar reads the rows are those that `poplar finetune --check` prints for a recipe with
the type. Writes unittests/Runtime/Inputs/RowGoldens.json, which the unit test
RowsTest.TokensAreThoseOfAxolotl compares.

  pip install -r scripts/goldens/requirements.txt
  pip install accelerate datasets colorama addict"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest.mock

import transformers
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
INPUTS = ROOT / "unittests" / "Runtime" / "Inputs"
# Tokenizers with their bos and eos: one puts a token before texts, and one none.
TOKENIZERS = {"llama3.json": ("<|begin_of_text|>", "<|end_of_text|>"), "qwen.json": (None, "<|im_end|>")}
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
)

ADD = {"instruction": "Add.", "input": "1 2", "output": "3"}
NAME = {"instruction": "Name a GPU.", "input": "", "output": " The T4."}
QUESTION = {"question": "How much memory?", "answer": "24 GB."}
SYSTEM = dict(ADD, system="Be brief.")
ORCA = {"system_prompt": "Be brief.", "question": "How much memory?", "response": "24 GB."}
TURNS = [("system", "Be brief."), ("human", "Name a GPU."), ("bot", "The T4."), ("human", "a"), ("bot", "b c")]
CHAT = {"turns": [{"who": role, "says": text} for role, text in TURNS]}
CHAT_MEMBERS = {
    "type": "chat_template",
    "field_messages": "turns",
    "message_property_mappings": {"role": "who", "content": "says"},
    "roles": {"system": ["system"], "user": ["human"], "assistant": ["bot"]},
}
IDS = {"input_ids": [1, 5, 7], "attention_mask": [1, 1, 1], "labels": [-100, 5, 7]}

TEXTS = [{"body": "The model reads tokens and devices share layers. " * count} for count in (0, 1, 5, 9)]

# Members of a data set, other keys of the recipe, rows.
CASES = [
    ({"type": "alpaca"}, {}, [ADD, NAME]),
    ({"type": "alpaca"}, {"train_on_inputs": True}, [ADD, NAME]),
    ({"type": "alpaca:chat"}, {}, [ADD, NAME]),
    ({"type": "alpaca:chatml"}, {}, [ADD, NAME]),
    ({"type": "alpaca:phi"}, {}, [ADD, NAME]),
    ({"type": "gpteacher"}, {}, [{"instruction": "Add.", "input": "1 2", "response": "3"}]),
    ({"type": "oasst"}, {}, [{"INSTRUCTION": "Add 1 2.", "RESPONSE": "3"}]),
    ({"type": "summarizetldr"}, {}, [{"article": "GPUs have memory.", "summary": "Memory."}]),
    ({"type": "alpaca_instruct.load_no_prompt"}, {}, [ADD, NAME]),
    ({"type": "alpaca_chat.load"}, {}, [ADD, NAME]),
    ({"type": "alpaca_chat.load_concise"}, {}, [ADD, NAME]),
    ({"type": "alpaca_chat.load_no_prompt"}, {}, [ADD, NAME]),
    ({"type": "alpaca_chat.load_qa"}, {}, [QUESTION]),
    ({"type": "alpaca_chat.load_camel_ai"}, {}, [{"message_1": "a", "message_2": "b c"}]),
    ({"type": "alpaca_w_system.load"}, {}, [SYSTEM]),
    ({"type": "alpaca_w_system.load_instruct"}, {}, [SYSTEM]),
    ({"type": "alpaca_w_system.load_open_orca"}, {}, [ORCA]),
    ({"type": "alpaca_w_system.load_open_orca_chatml"}, {}, [ORCA]),
    (
        {"type": {"field_instruction": "question", "field_output": "answer", "format": "[INST] {instruction} [/INST]",
                  "no_input_format": "{{Q}} {instruction}\n\\ [/INST]\t"}},
        {}, [QUESTION],
    ),
    (
        {"type": {"field_system": "how", "system_format": "<<{system}>>\n", "format": "{input} | {instruction}:"}},
        {}, [dict(ADD, how="Be brief."), dict(NAME, how="")],
    ),
    ({"type": "completion", "field": "chapter"}, {}, [{"chapter": "the model and the tokens"}]),
    (
        {"type": "input_output"}, {},
        [{"segments": [{"label": False, "text": "Q: a\n"}, {"label": True, "text": "A: b c"}]}],
    ),
    (CHAT_MEMBERS, {}, [CHAT]),
    (dict(CHAT_MEMBERS, drop_system_message=True), {}, [CHAT]),
    ({"type": None}, {}, [IDS]),
    # Windows of a text, with 19 and with 256 tokens in common.
    ({"type": "pretrain", "text_column": "body"}, {"sequence_len": 40}, TEXTS),
    (
        {"type": "pretrain", "text_column": "body"}, {"sequence_len": 600},
        [{"body": "a b c d " * 700}, {"body": "a b c d " * 80}],
    ),
]


def load_axolotl(directory):
    """The function that chooses how rows are encoded."""
    sys.path.insert(0, str(directory / "src"))
    # None is needed to encode rows.
    for name in ("axolotl.telemetry.manager", "requests", "numba"):
        sys.modules[name] = unittest.mock.MagicMock()
    from axolotl.utils.data.wrappers import get_dataset_wrapper
    from axolotl.utils.dict import DictDefault

    return get_dataset_wrapper, DictDefault


def encode(get_dataset_wrapper, DictDefault, tokenizer, members, keys, rows):
    import datasets

    config = DictDefault(dict(members, path="rows"))
    recipe = DictDefault(
        dict({"train_on_inputs": False}, **keys, sequence_len=512, datasets=[config], chat_template="tokenizer_default")
    )
    kind = members["type"]
    base, _, style = kind.partition(":") if isinstance(kind, str) else (None, None, None)
    encoded, _ = get_dataset_wrapper(
        config, tokenizer, recipe, base, datasets.Dataset.from_list(rows), style or None
    )
    return [[row["input_ids"], row["labels"]] for row in encoded]


def encode_windows(DictDefault, tokenizer, members, keys, rows):
    """Of texts for pre-training, of which all tokens are labels."""
    from axolotl.prompt_strategies.pretrain import load

    config = DictDefault(dict(keys, pretraining_dataset=[members]))
    column = members["text_column"]
    windows = load(tokenizer, config).tokenize_prompt({column: [row[column] for row in rows]})["input_ids"]
    return [[window, window] for window in windows]


def list_options(poplar, members, keys, rows):
    """The options about rows that a recipe becomes."""
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "config.json").write_text("{}")
        (work / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
        (work / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        recipe = {
            "base_model": str(work), "learning_rate": 1e-4, "micro_batch_size": 1,
            "gradient_accumulation_steps": 1, **keys,
        }
        sources = [dict(members, path=str(work / "rows.jsonl"))]
        if members["type"] == "pretrain":
            recipe.update(pretraining_dataset=sources, max_steps=1, sample_packing=True)
        else:
            recipe["datasets"] = sources
        (work / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        command = [poplar, "finetune", str(work / "recipe.yaml"), "--check"]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{members}: {result.stdout}{result.stderr}")
    words = shlex.split(result.stdout.partition("equal: ")[2])
    options = {}
    if "overlap" in words:
        options["window"] = keys["sequence_len"]
    for at, word in enumerate(words):
        if word in ("--drop-system", "--encode-apart", "--count-prompts"):
            options[word[2:]] = True
        elif word in ("--prompt-format", "--prompt-format-alone", "--system-format"):
            options[word[2:]] = words[at + 1]
        elif word in ("--read-member", "--read-role"):
            options.setdefault(word[2:], []).append(words[at + 1])
    return options


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axolotl", type=pathlib.Path)
    parser.add_argument("--poplar", default=str(ROOT / "build" / "release" / "bin" / "poplar"))
    arguments = parser.parse_args()
    axolotl = load_axolotl(arguments.axolotl)
    cases = []
    for members, keys, rows in CASES:
        case = {"type": members["type"], "options": list_options(arguments.poplar, members, keys, rows), "rows": rows}
        for name, (bos, eos) in TOKENIZERS.items():
            if members["type"] == "chat_template" and name != "qwen.json":
                continue
            tokenizer = transformers.PreTrainedTokenizerFast(
                tokenizer_file=str(INPUTS / "Tokenizers" / name), bos_token=bos, eos_token=eos, chat_template=TEMPLATE
            )
            case[name] = (
                encode_windows(axolotl[1], tokenizer, members, keys, rows)
                if members["type"] == "pretrain"
                else encode(*axolotl, tokenizer, members, keys, rows)
            )
        cases.append(case)
    lines = ",\n ".join(json.dumps(case) for case in cases)
    (INPUTS / "RowGoldens.json").write_text("[" + lines + "]\n")


if __name__ == "__main__":
    main()
