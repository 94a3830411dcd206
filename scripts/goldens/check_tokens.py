#!/usr/bin/env python3
# ===- check_tokens.py - Changed tokenizers against transformers ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares the tokenizer that `poplar finetune --eos-token X --add-token Y` made with
what add_special_tokens and add_tokens of transformers make of the model's.

  scripts/goldens/check_tokens.py MODEL CHANGED --eos-token X --add-token Y ...

MODEL is the model's directory, CHANGED one with the tokens: RUN/setup/model, a
checkpoint, or a merged model. Compares ids of texts with and without the tokens, the
decoded texts, and eos_token_id of config.json. Needs the packages of requirements.txt."""

import argparse
import json
import pathlib
import sys

from transformers import AddedToken, PreTrainedTokenizerFast


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("changed", type=pathlib.Path)
    parser.add_argument("--eos-token")
    parser.add_argument("--add-token", action="append", default=[])
    arguments = parser.parse_args()

    def make(token):
        return AddedToken(token, rstrip=False, lstrip=False, normalized=False)

    theirs = PreTrainedTokenizerFast(tokenizer_file=str(arguments.model / "tokenizer.json"))
    # In axolotl's order.
    if arguments.eos_token:
        theirs.add_special_tokens({"eos_token": make(arguments.eos_token)})
    theirs.add_tokens([make(token) for token in arguments.add_token])
    ours = PreTrainedTokenizerFast(tokenizer_file=str(arguments.changed / "tokenizer.json"))
    tokens = [arguments.eos_token or "", *arguments.add_token, ""]
    texts = ["the model and other tokens", *(f"a {token}the{token} {token}" for token in tokens)]
    failures = 0
    for text in texts:
        expected = theirs(text)["input_ids"]
        for what, is_same in [
            ("ids", ours(text)["input_ids"] == expected),
            ("text", ours.decode(expected) == theirs.decode(expected)),
            ("text without special tokens", ours.decode(expected, skip_special_tokens=True)
             == theirs.decode(expected, skip_special_tokens=True)),
        ]:
            failures += not is_same
            print(f"{what:<28} {text!r:<40} {'ok' if is_same else 'FAILED'}")
    config = arguments.changed / "config.json"
    if arguments.eos_token and config.exists():
        end = json.loads(config.read_text())["eos_token_id"]
        failures += end != theirs.eos_token_id
        print(f"eos_token_id {end}, expected {theirs.eos_token_id}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
