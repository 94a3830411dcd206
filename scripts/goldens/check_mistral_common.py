#!/usr/bin/env python3
# ===- check_mistral_common.py - Conversations of mistral-common -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares runtime/template/mistral-common, applied by transformers, with mistral-common:

  ids        of random conversations, of tokenizers of the versions 3, 7, 11 and 13, as
             axolotl has them encoded (finetuning mode); the ids of a template are those
             of the tokenizer.json that transformers makes of tekken.json
  errors     what mistral-common refuses, the template refuses

The templates refuse more: neighbouring answers, conversations that begin with one, system
messages behind others, and empty ones. Content that looks like a special token
is text for mistral-common; none is drawn.

    check_mistral_common.py [--count N] [--seed S]

Needs mistral_common, whose wheel has a tokenizer of version 3; others are made of it."""

import argparse
import json
import pathlib
import random
import re
import sys
import tempfile
import warnings

import transformers
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode
from mistral_common.tokens.tokenizers.base import SpecialTokens
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
import mistral_common

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "runtime" / "template" / "mistral-common"
VERSIONS = {"v3": "v3", "v7": "v7", "v11": "v7", "v13": "v7"}
ROLES = ("system", "user", "assistant")
TEXTS = ("Hi", " a", "b \n", "\n\n", "Be brief.", "12 GPUs, 3.5 TB/s", "äöü 漢字", "\t", "it's", "x" * 50, " ")
# Those of later versions follow the first ones.
SETTINGS = ("[MODEL_SETTINGS]", "[/MODEL_SETTINGS]")


def make_tokenizer(directory, version):
    """tekken.json of a version, in a directory that transformers reads."""
    source = pathlib.Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    content = json.loads(source.read_text())
    content["config"]["version"] = version
    content.pop("image", None)
    special = [dict(token) for token in Tekkenizer.DEPRECATED_SPECIAL_TOKENS]
    if version != "v3":
        known = {token["token_str"] for token in special}
        for token in SpecialTokens:
            if token.value not in known and token.value not in SETTINGS:
                special.append({"rank": len(special), "token_str": token.value, "is_control": True})
        content["special_tokens"] = special
    path = directory / "tekken.json"
    path.write_text(json.dumps(content))
    return path


def draw(chance):
    """Roles mostly in order, sometimes at random."""
    def text():
        return "".join(chance.choice(TEXTS) for _ in range(chance.randint(0 if chance.random() < 0.05 else 1, 4)))

    messages = [{"role": "system", "content": text()} for _ in range(chance.choice((0, 0, 1, 1, 2)))]
    for turn in range(chance.randint(1, 4)):
        if turn or chance.random() < 0.95:
            messages += [{"role": "user", "content": text()} for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        messages.append({"role": "assistant", "content": text()})
    if chance.random() < 0.1:
        messages.insert(chance.randint(0, len(messages)), {"role": chance.choice(ROLES), "content": text()})
    return messages


def is_usual(messages):
    roles = "".join(message["role"][0] for message in messages)
    return re.fullmatch("s*(u+a)+", roles) and all(message["content"] for message in messages)


def encode_there(tokenizer, messages):
    try:
        return tokenizer.encode_chat_completion(ChatCompletionRequest(messages=messages)).tokens
    except Exception as error:  # whatever it raises of a conversation
        return f"{type(error).__name__}: {error}"


def encode_here(tokenizer, template, messages):
    try:
        return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=False)
    except Exception as error:  # whatever a template raises
        return f"{type(error).__name__}: {error}"


def compare(version, count, chance, work):
    directory = work / version
    directory.mkdir()
    path = make_tokenizer(directory, version)
    theirs = MistralTokenizer.from_file(str(path), mode=ValidationMode.finetuning)
    ours = transformers.PreTrainedTokenizerFast.from_pretrained(
        directory, vocab_file=str(path)
    )
    template = (TEMPLATES / f"{VERSIONS[version]}.jinja").read_text()
    refused = alone = 0
    same = []
    for _ in range(count):
        messages = draw(chance)
        expected, found = encode_there(theirs, messages), encode_here(ours, template, messages)
        if isinstance(expected, list) and isinstance(found, str) and not is_usual(messages):
            alone += 1
        elif isinstance(expected, str) and isinstance(found, str):
            refused += 1
        elif expected == found:
            same.append((messages, expected))
        else:
            print(f"{version}: {messages}\n  mistral-common {expected}\n  here           {found}")
            return False
    print(f"{version:<4} {len(same)} with the same ids, {refused} refused by both, {alone} refused here alone")
    return len(same) > count / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        passed = [compare(v, arguments.count, random.Random(arguments.seed), work) for v in VERSIONS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
