#!/usr/bin/env python3
# ===- check_chat.py - Conversations and packing against other libraries ---===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares what Poplar makes of examples with what transformers and trl make of
them:
  messages            ids of apply_chat_template, and the tokens that count: those
                      of a template whose answers are marked {% generation %}
  prompt, completion  input_ids and labels of trl's SFTTrainer
  packing             how many samples trl's best-fit decreasing makes of examples
                      without their last token, which takes no place in Poplar

    check_chat.py WORK [HF_DIR...]

Needs `poplar` in the PATH and, besides what requirements.txt names, trl. The
tokenizers are those of the unit tests with the special tokens of families, and
their templates, written shortly. HF_DIRs are models with a tokenizer.json and a
template of their own, of which ids are compared.
"""

import argparse
import array
import json
import os
import pathlib
import random
import shutil
import subprocess

import tokenizers
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZERS = ROOT / "unittests" / "Runtime" / "Inputs" / "Tokenizers"
COUNTS = 1 << 31


def roles(before, behind, end, last="", first="", trims=False):
    """Turns that are alike but for the name of the role."""
    content = "message['content']" + (" | trim" if trims else "")
    return (
        first
        + "{% for message in messages %}"
        + before
        + "{{ message['role'] }}"
        + behind
        + "{% if message['role'] == 'assistant' %}"
        + "{% generation %}{{ " + content + " }}" + end + "{% endgeneration %}"
        + "{% else %}{{ " + content + " }}" + end + "{% endif %}"
        + last
        + "{% endfor %}"
    )


def mistral(user, inst, answer, content="message['content']", system=None):
    """[INST] with the spaces of a version, and where its system message goes."""
    with_system = f"{{{{- '{user}' + system_message + '\\n\\n' + message['content'] + '{inst}' }}}}"
    without = f"{{{{- '{user}' + message['content'] + '{inst}' }}}}"
    if system:
        without = (
            f"{{%- if loop.{system} and system_message is defined %}}{with_system}"
            f"{{%- else %}}{without}{{%- endif %}}"
        )
    return (
        "{%- if messages[0]['role'] == 'system' %}"
        "{%- set system_message = messages[0]['content'] %}"
        "{%- set loop_messages = messages[1:] %}"
        "{%- else %}{%- set loop_messages = messages %}{%- endif %}"
        "{{- bos_token }}{%- for message in loop_messages %}"
        "{%- if message['role'] == 'user' %}" + without +
        "{%- elif message['role'] == 'assistant' %}"
        f"{answer}{{% generation %}}{{{{- {content} + eos_token }}}}{{% endgeneration %}}"
        "{%- endif %}{%- endfor %}"
    )


def with_answer(template, answer):
    """As a template that marks nothing is written: ' ' + message[..] + eos."""
    template = template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    return template.replace("{{- ' ' }}{{- message", "{{- ' ' + message") if answer else template


NEW_LINE = "{{ '\\n' }}"
# Family: the tokenizer, tokens to add, template, whether it has a system role.
FAMILIES = {
    "chatml": ("qwen", [], roles("<|im_start|>", NEW_LINE, "<|im_end|>", NEW_LINE), True),
    "llama3": (
        "llama3",
        [],
        roles(
            "<|start_header_id|>",
            "<|end_header_id|>{{ '\\n\\n' }}",
            "<|eot_id|>",
            first="{{ bos_token }}",
            trims=True,
        ),
        True,
    ),
    "phi3": (
        "gpt2",
        ["<|user|>", "<|system|>", "<|assistant|>", "<|end|>"],
        roles("<|", "|>" + NEW_LINE, "<|end|>", NEW_LINE),
        True,
    ),
    "phi4": (
        "gpt2",
        ["<|im_start|>", "<|im_end|>", "<|im_sep|>"],
        roles("<|im_start|>", "<|im_sep|>", "<|im_end|>"),
        True,
    ),
    "phi4-mini": (
        "gpt2",
        ["<|user|>", "<|system|>", "<|assistant|>", "<|end|>", "<|tool_call|>"],
        roles("<|", "|>", "<|end|>"),
        True,
    ),
    "mistral-v1": (
        "mistral",
        [],
        mistral(" [INST] ", " [/INST]", "{{- ' ' }}", system="first"),
        True,
    ),
    "mistral-v3": (
        "mistral",
        ["[INST]", "[/INST]"],
        mistral("[INST] ", "[/INST]", "{{- ' ' }}", "message['content']|trim", "last"),
        False,
    ),
    "mistral-tekken": (
        "gpt2",
        ["<s>", "</s>", "[INST]", "[/INST]"],
        mistral("[INST]", "[/INST]", "", system="last"),
        False,
    ),
}
CONVERSATIONS = [
    [("user", "the model"), ("assistant", "and tokens")],
    [("user", " spaces "), ("assistant", " around "), ("user", "é!"), ("assistant", "x\n")],
    [("user", ""), ("assistant", "")],
]
WITH_SYSTEM = [("system", "Be brief."), ("user", "a"), ("assistant", "b")]
COMPLETIONS = [("the model", " and tokens"), ("a", "b"), ("", "alone"), ("x ", " y")]


def messages_of(turns):
    return [{"role": role, "content": content} for role, content in turns]


def run(*command, **environment):
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def read_examples(path):
    """(ids, whether each counts) of a file that Poplar keeps."""
    data = path.read_bytes()
    end = len(data)
    count, _, note = (
        int.from_bytes(data[end - at : end - at + 8], "little") for at in (32, 24, 16)
    )
    tail = len(data) - 32 - note
    ends = array.array("Q", data[tail - 8 * count : tail])
    tokens = array.array("I", data[: 4 * ends[-1]])
    starts = [0, *ends[:-1]]
    return [
        ([t & ~COUNTS for t in tokens[a:b]], [t >= COUNTS for t in tokens[a:b]])
        for a, b in zip(starts, ends)
    ]


class Model:
    """A small model with a tokenizer, and what Poplar makes of examples."""

    def __init__(self, directory, config, *options, length=64):
        self.directory = directory
        (directory / "config.json").write_text(json.dumps(config))
        run("poplar", "import", directory, "--seq-len", length, *options, "-o", directory / "m.mlir")
        run("poplar", "build", directory / "m.mlir", "-o", directory / "program")

    def describe(self, examples, name):
        data, cache = self.directory / f"{name}.jsonl", self.directory / f"{name}.cache"
        data.write_text("".join(json.dumps(e) + "\n" for e in examples))
        shutil.rmtree(cache, ignore_errors=True)
        text = run(
            "poplar", "train", self.directory / "program", "--data", data, "--steps", 1,
            "--val-fraction", 0, "--eval-every", 0, "--skip-save", "--peak-gflops", 1,
            "--out", self.directory / f"{name}.run", "--global-batch", 1,
            POPLAR_CACHE=str(cache),
        )
        shutil.rmtree(self.directory / f"{name}.run")
        return text, read_examples(next(cache.glob("*.ids")))


def make_config(size, end):
    config = json.loads((ROOT / "examples" / "models" / "tiny-gpt2.json").read_text())
    return {**config, "vocab_size": size, "eos_token_id": end}


def make_tokenizer(directory, name, added, template):
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZERS / f"{name}.json"))
    tokenizer.add_special_tokens([tokenizers.AddedToken(t, special=True) for t in added])
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    known = [t for t in ("<s>", "<|begin_of_text|>", "<bos>") if tokenizer.token_to_id(t) is not None]
    ends = [
        t for t in ("</s>", "<|endoftext|>", "<|end_of_text|>") if tokenizer.token_to_id(t) is not None
    ]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"),
        bos_token=known[0] if known else None,
        eos_token=ends[0],
        pad_token=ends[0],
        chat_template=template,
    )


def check_messages(work, family):
    name, added, template, has_system = FAMILIES[family]
    directory = work / family
    tokenizer = make_tokenizer(directory, name, added, template)
    own = with_answer(template, "' '" in template)
    settings = {"chat_template": own, "eos_token": tokenizer.eos_token}
    if tokenizer.bos_token:
        settings["bos_token"] = tokenizer.bos_token
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    model = Model(directory, make_config(len(tokenizer), tokenizer.eos_token_id))
    conversations = [messages_of(turns) for turns in CONVERSATIONS + [WITH_SYSTEM] * has_system]
    _, ours = model.describe([{"messages": m} for m in conversations], "chat")
    for messages, (ids, counts) in zip(conversations, ours):
        theirs = tokenizer.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True
        )
        assert ids == theirs["input_ids"], (family, messages, ids, theirs["input_ids"])
        mask = [bool(x) for x in theirs["assistant_masks"]]
        assert counts == mask, (family, messages, counts, mask)
        plain = tokenizer.apply_chat_template(messages, tokenize=False, chat_template=own)
        assert plain == tokenizer.apply_chat_template(messages, tokenize=False), family
    print(f"{family}: {len(ours)} conversations, ids and masks are equal")


def check_completions(work):
    import datasets
    import trl

    directory = work / "completions"
    tokenizer = make_tokenizer(directory, "qwen", [], None)
    model = Model(directory, make_config(len(tokenizer), tokenizer.eos_token_id))
    examples = [{"prompt": p, "completion": c} for p, c in COMPLETIONS if p]
    _, ours = model.describe(examples, "completions")
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=16, n_layer=1, n_head=2,
        bos_token_id=0, eos_token_id=0,
    )
    trainer = trl.SFTTrainer(
        model=transformers.GPT2LMHeadModel(config),
        args=trl.SFTConfig(
            output_dir=str(directory / "trl"), use_cpu=True, report_to=[], bf16=False,
            completion_only_loss=True, max_length=64, gradient_checkpointing=False,
        ),
        train_dataset=datasets.Dataset.from_list(examples),
        processing_class=tokenizer,
    )
    for (ids, counts), theirs in zip(ours, trainer.train_dataset):
        assert ids == list(theirs["input_ids"]), (ids, theirs)
        assert counts == [x != -100 for x in theirs["labels"]], (counts, theirs)
    print(f"trl: {len(ours)} completions, ids and masks are equal")


def check_packing(work):
    import datasets
    import trl

    directory = work / "packing"
    tokenizer = make_tokenizer(directory, "qwen", [], None)
    model = Model(directory, make_config(len(tokenizer), tokenizer.eos_token_id), "--packing")
    numbers = random.Random(1)
    examples = [{"text": "the" + " model" * numbers.randrange(60)} for _ in range(300)]
    text, ours = model.describe(examples, "packing")
    sequences = [ids[:-1][:64] for ids, _ in ours]
    packed = trl.pack_dataset(
        datasets.Dataset.from_dict({"input_ids": sequences}), 64, strategy="bfd"
    )
    said = f"packed 300 examples into {len(packed)} samples of 64 tokens"
    assert said in text, (said, text)
    print(f"trl: {said}")


def check_model(work, source):
    """The tokenizer of a model, with the template that it has."""
    directory = work / pathlib.Path(source).name
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = Model(directory, make_config(len(tokenizer), tokenizer.eos_token_id))
    conversations = [messages_of(turns) for turns in CONVERSATIONS[:2]]
    _, ours = model.describe([{"messages": m} for m in conversations], "chat")
    for messages, (ids, _) in zip(conversations, ours):
        theirs = tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"]
        same = ids == theirs[: len(ids)]
        rest = tokenizer.decode(theirs[len(ids) :])
        assert same, (source, tokenizer.decode(ids), tokenizer.decode(theirs))
        print(f"{source}: equal" + (f", but that {rest!r} follows" if rest else ""))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=pathlib.Path, help="directory for what is made")
    parser.add_argument("models", nargs="*", help="directories of Hugging Face models")
    arguments = parser.parse_args()
    for family in FAMILIES:
        check_messages(arguments.work, family)
    check_completions(arguments.work)
    check_packing(arguments.work)
    for source in arguments.models:
        check_model(arguments.work, source)


if __name__ == "__main__":
    main()
