#!/usr/bin/env python3
# ===- make_added_goldens.py - A tokenizer.model with settings beside it ---===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
#
# Writes added.json of unittests/Runtime/TokenizerTest.cpp: files beside
# llama2.model, and the ids and texts that transformers 5.24 makes with them.
#
#   make_added_goldens.py unittests/Runtime/Inputs/Tokenizers
#
# ===-----------------------------------------------------------------------===#
import json
import pathlib
import shutil
import sys
import tempfile

TEXTS = [
    "",
    " ",
    " a  b ",
    "▁a ▁▁b",
    "<|im_start|>user\na<|im_end|>",
    "<|im_start|> user  <|im_end|>  x <s> y</s>",
    "<|im_end|>  a<s>b <s> </s>users",
    "xyz xy <word>a a <word> b<word>",
    "  日本 <0x41> é👩 <unk><pad> <x>",
]


def token(content, **flags):
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    return {"content": content, **plain, **flags}


def make_cases(size):
    base = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}
    chat = ["<|im_start|>", "<|im_end|>"]
    decoder = {"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")}
    decoder.update({str(size + i): token(text) for i, text in enumerate(chat)})
    flags = {
        str(size): token("<|im_start|>", rstrip=True),
        str(size + 1): token("<|im_end|>", lstrip=True, special=False),
        str(size + 2): token("<word>", single_word=True, special=False),
        str(size + 3): token("xy", normalized=True, special=False),
    }
    with_chat = {**base, "added_tokens_decoder": decoder}
    added = {text: size + i for i, text in enumerate(chat)}
    yield {**with_chat, "eos_token": "<|im_end|>"}, {}
    yield {**with_chat, "legacy": True, "add_eos_token": True}, {}
    yield {**with_chat, "add_prefix_space": False, "add_bos_token": False}, {}
    yield {**base, "added_tokens_decoder": flags, "pad_token": "<pad>", "additional_special_tokens": ["<x>"]}, {}
    yield {**base, "tokenizer_class": "LlamaTokenizerFast"}, {"added_tokens.json": added}
    yield (
        {**base, "add_eos_token": True},
        {
            "added_tokens.json": added,
            "special_tokens_map.json": {"bos_token": token("<s>"), "eos_token": "<|im_end|>", "pad_token": "<x>"},
        },
    )
    own = token("<s>", single_word=True, rstrip=True)
    yield base, {"special_tokens_map.json": {"bos_token": own, "eos_token": "</s>"}}
    yield {**base, "added_tokens_decoder": flags, "additional_special_tokens": ["<|im_end|>", "user"]}, {}
    yield {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}, {}
    # Of two roles, the flags are those of the later one.
    yield base, {"special_tokens_map.json": {"unk_token": own, "pad_token": token("</s>", lstrip=True)}}


def main():
    from transformers import AutoTokenizer

    inputs = pathlib.Path(sys.argv[1])
    cases = []
    size = 560
    for config, others in make_cases(size):
        files = {"tokenizer_config.json": config, **others}
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            shutil.copy(inputs / "llama2.model", directory / "tokenizer.model")
            (directory / "config.json").write_text('{"model_type": "llama"}')
            for file, content in files.items():
                (directory / file).write_text(json.dumps(content))
            tokenizer = AutoTokenizer.from_pretrained(directory)
            ids = [tokenizer.encode(text) for text in TEXTS]
            decoded = [tokenizer.decode(each) for each in ids]
        texts = {file: json.dumps(content) for file, content in files.items()}
        cases.append({"files": texts, "ids": ids, "decoded": decoded})
    text = json.dumps({"texts": TEXTS, "cases": cases}, ensure_ascii=False, separators=(",", ":"))
    (inputs / "added.json").write_text(text.replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
