#!/usr/bin/env python3
# ===- check_tokenizer_models.py - Settings beside tokenizer.model ---------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws directories with a tokenizer.model and settings beside it: added tokens in
tokenizer_config.json, added_tokens.json and special_tokens_map.json, add_bos_token,
add_eos_token, legacy, add_prefix_space and roles of tokens. Compares the ids of random
texts, and the texts of these ids, with transformers' AutoTokenizer. Where Poplar refuses
a directory, prints why.

    check_tokenizer_models.py [--count N] [--seed S]

Needs the packages of requirements.txt and a build of the project.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from check_tokenizers import pack, read, write
from checks import ROOT, quiet_libraries
from make_added_goldens import token

MODEL = ROOT / "unittests" / "Runtime" / "Inputs" / "Tokenizers" / "llama2.model"
SIZE = 560  # pieces of the model
NEW = ["<|im_start|>", "<|im_end|>", "<pad>", "<word>", "xy", "<x>", "[INST]", "日本", "▁a", " b"]
OLD = ["<s>", "</s>", "<unk>"]
ROLES = ["bos_token", "eos_token", "unk_token", "pad_token"]
PIECES = NEW + OLD + ["user", "the model", "a", " ", "  ", "\n", "▁", "é", "👩", "\t", "<0x41>", "xyz", "b"]


def draw_token(chance, content):
    flags = {name: chance.random() < 0.2 for name in ("lstrip", "rstrip", "single_word")}
    # As save_pretrained writes them: a token that is normalized is not special.
    special = content in OLD or chance.random() < 0.6
    return token(content, special=special, normalized=not special and chance.random() < 0.5, **flags)


def draw_settings(chance):
    """{file: content} beside the model."""
    config = {"tokenizer_class": chance.choice(["LlamaTokenizer", "LlamaTokenizerFast"])}
    for name in ("add_bos_token", "add_eos_token", "legacy", "add_prefix_space"):
        if chance.random() < 0.6:
            config[name] = chance.random() < 0.5
    new = chance.sample(NEW, chance.randrange(5))
    files = {"tokenizer_config.json": config}
    kind = chance.randrange(3)
    if kind == 0:
        decoder = {str(i): draw_token(chance, text) for i, text in enumerate(["<unk>", "<s>", "</s>"])}
        decoder.update({str(SIZE + i): draw_token(chance, text) for i, text in enumerate(new)})
        config["added_tokens_decoder"] = decoder
    elif kind == 1 and new:
        files["added_tokens.json"] = {text: SIZE + i for i, text in enumerate(new)}
    roles = {}
    for role in ROLES:
        if chance.random() < 0.4:
            text = chance.choice(OLD + new)
            roles[role] = draw_token(chance, text) if chance.random() < 0.3 else text
    if chance.random() < 0.5:
        config.update({role: t for role, t in roles.items() if isinstance(t, str)})
    elif roles:
        files["special_tokens_map.json"] = roles
    if new and chance.random() < 0.3:
        config["additional_special_tokens"] = chance.sample(new, chance.randrange(1, len(new) + 1))
    return files


def draw_texts(chance):
    return ["".join(chance.choices(PIECES, k=chance.randrange(8))) for _ in range(40)]


def run_tool(tool, *arguments):
    return subprocess.run([str(tool), *map(str, arguments)], capture_output=True, text=True)


def check(tool, directory, files, texts):
    """(comparisons, differences), or why Poplar or transformers refuses."""
    import transformers

    shutil.copy(MODEL, directory / "tokenizer.model")
    (directory / "config.json").write_text('{"model_type": "llama"}')
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    items, out = directory / "items", directory / "out"
    write(items, [text.encode() for text in texts])
    done = run_tool(tool, directory / "tokenizer.model", "encode", items, out, "--special")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        theirs = [tokenizer.encode(text) for text in texts]
    except Exception as error:  # whatever it makes of settings
        return f"transformers: {type(error).__name__}: {str(error)[:80]}"
    if done.returncode:
        return done.stderr.strip().replace(str(directory), "DIR")
    ours = [list(memoryview(item).cast("i")) for item in read(out)]
    write(items, [pack(ids) for ids in theirs])
    done = run_tool(tool, directory / "tokenizer.model", "decode", items, out)
    assert done.returncode == 0, done.stderr
    decoded = [bytes(item).decode() for item in read(out)]
    differences = 0
    for text, a, b, words in zip(texts, ours, theirs, decoded):
        expected = tokenizer.decode(b)
        if a != b or words != expected:
            differences += 1
            if differences == 1:
                print(f"{json.dumps(files, ensure_ascii=False)}\n  {text!r}\n  ours {a} {words!r}\n  theirs {b} {expected!r}")
    return 2 * len(texts), differences


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tool", default=str(ROOT / "build" / "release" / "bin" / "tokenize"))
    parser.add_argument("--count", type=int, default=200, help="directories")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    quiet_libraries()
    compared = differences = 0
    refused = collections.Counter()
    for number in range(arguments.count):
        chance = random.Random(arguments.seed * 1000003 + number)
        with tempfile.TemporaryDirectory() as name:
            outcome = check(arguments.tool, pathlib.Path(name), draw_settings(chance), draw_texts(chance))
        if isinstance(outcome, str):
            refused[outcome] += 1
        else:
            compared += outcome[0]
            differences += outcome[1]
    for why, times in refused.most_common():
        print(f"refused {times} times: {why}")
    kept = arguments.count - sum(refused.values())
    print(f"{kept} of {arguments.count} directories, {compared} comparisons, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
