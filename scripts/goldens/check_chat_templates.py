#!/usr/bin/env python3
# ===- check_chat_templates.py - Chat templates against transformers -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws conversations and compares what Poplar makes of them by chat templates with
apply_chat_template of transformers: the ids, and where a template has {% generation %},
which of them count.

    check_chat_templates.py WORK [--count N] [--seed S] [TEMPLATE...]

A TEMPLATE is a file with a template, a tokenizer_config.json, or a directory in which
such files lie at any depth, as in the directory of a model. The templates that check_chat.py
writes are compared in any case. A conversation that Poplar refuses and transformers renders
is counted with the reason. Needs what check_chat.py needs.
"""

import argparse
import collections
import datetime
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys

import check_chat
from checks import quiet_libraries

TOKENS = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "[/INST]", "<|eot_id|>", "<|end|>"]
TOKENS += ["<|user|>", "<|assistant|>", "<|system|>", "<|start_header_id|>", "<|end_header_id|>"]
TOKENS += ["<start_of_turn>", "<end_of_turn>", "<|end_of_turn|>", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"]
WORDS = ["a", " ", "\n", "\n\n", "the model", "é!", "x", "'quoted'", '"twice"', "{{ b }}", "<b>&amp;", "\u3000", "\t", "日本", "1", "# H", "\\n"]
RARE = ["<think>a</think>", "</think>", "<|im_end|>", "[INST]", "", "</s>"]


def draw_content(chance):
    words = chance.choices(WORDS + RARE * (chance.random() < 0.1), k=chance.randrange(6))
    return "".join(words)


def draw_conversation(chance):
    roles = ["system"] * (chance.random() < 0.3)
    for _ in range(chance.randrange(1, 4)):
        roles += ["user", "assistant"]
    if chance.random() < 0.1:
        chance.shuffle(roles)
    if chance.random() < 0.1:
        roles.append("user")
    return [{"role": role, "content": draw_content(chance)} for role in roles]


def find_templates(paths):
    """(name, template) of files, of configurations and of what lies in directories."""
    for path in map(pathlib.Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix == ".jinja":
                # As transformers reads the files: with the last line's end.
                yield str(file), file.read_text()
            elif file.name == "tokenizer_config.json":
                template = json.loads(file.read_text()).get("chat_template")
                if isinstance(template, str):
                    yield str(file), template


class Checker:
    """A small model whose tokenizer has the tokens of many templates."""

    def __init__(self, work):
        self.directory = work / "templates"
        self.tokenizer = check_chat.make_tokenizer(self.directory, "qwen", TOKENS, None)
        settings = {"bos_token": self.tokenizer.bos_token, "eos_token": self.tokenizer.eos_token}
        (self.directory / "tokenizer_config.json").write_text(json.dumps(settings))
        config = check_chat.make_config(len(self.tokenizer), self.tokenizer.eos_token_id)
        check_chat.Model(self.directory, config)
        self.compared = self.differences = self.both = 0
        self.refused = collections.Counter()

    def encode(self, conversations):
        """{index: (ids, counts)} by Poplar, and {index: reason} of what it refuses."""
        data, cache = self.directory / "rows.jsonl", self.directory / "cache"
        out, rest, reasons = self.directory / "run", dict(enumerate(conversations)), {}
        command = [
            "poplar", "train", self.directory / "program", "--data", data, "--steps", 0,
            "--val-fraction", 0, "--skip-save", "--out", out, "--global-batch", 1,
            "--chat-template", self.directory / "t.jinja", "--threads", 1,
            "--chat-date", datetime.date.today().isoformat(),
        ]  # fmt: skip
        while rest:
            data.write_text("".join(json.dumps({"messages": m}) + "\n" for m in rest.values()))
            shutil.rmtree(cache, ignore_errors=True)
            shutil.rmtree(out, ignore_errors=True)
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True,
                env={**check_chat.os.environ, "POPLAR_CACHE": str(cache)},
            )  # fmt: skip
            if done.returncode == 0:
                rows = check_chat.read_examples(next(cache.glob("*.ids")))
                return dict(zip(rest, rows)), reasons
            found = re.search(r"rows.jsonl', line (\d+)[^:]*: (.*)", done.stderr)
            if not found:
                raise RuntimeError(done.stderr)
            index = list(rest)[int(found[1]) - 1]
            reason = found[2].split("; --chat-template")[0].replace(str(self.directory), "DIR")
            reasons[index] = re.sub(r"message \d+", "message N", reason)
            del rest[index]
        return {}, reasons

    def render(self, template, messages):
        try:
            return self.tokenizer.apply_chat_template(
                messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True
            )
        except Exception:  # whatever a template raises
            return None

    def check(self, name, template, conversations):
        (self.directory / "t.jinja").write_text(template)
        ours, reasons = self.encode(conversations)
        before, unlike = self.compared, self.differences
        for index, messages in enumerate(conversations):
            theirs = self.render(template, messages)
            if index in reasons:
                if theirs is None:
                    self.both += 1
                else:
                    self.refused[reasons[index]] += 1
                continue
            self.compared += 1
            ids, counts = ours[index]
            expected = theirs and theirs["input_ids"]
            mask = theirs and [bool(x) for x in theirs["assistant_masks"]]
            if ids != expected or (any(mask) and counts != mask):
                self.differences += 1
                print(f"{name}: {json.dumps(messages)}\n  ours   {self.tokenizer.decode(ids)!r}")
                print(f"  theirs {expected and self.tokenizer.decode(expected)!r}")
        print(
            f"{name}: {self.compared - before} compared, {len(reasons)} refused, "
            f"{self.differences - unlike} differences",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=pathlib.Path, help="directory for what is made")
    parser.add_argument("templates", nargs="*", metavar="TEMPLATE")
    parser.add_argument("--count", type=int, default=40, help="conversations for a template")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_intermixed_args()
    quiet_libraries()
    checker = Checker(arguments.work)
    written = [(name, family[2]) for name, family in check_chat.FAMILIES.items()]
    chance = random.Random(arguments.seed)
    for name, template in written + list(find_templates(arguments.templates)):
        conversations = [draw_conversation(chance) for _ in range(arguments.count)]
        checker.check(name, template, conversations)
    for reason, times in checker.refused.most_common():
        print(f"refused {times} times: {reason}")
    print(
        f"{checker.compared} comparisons, {checker.differences} differences; {checker.both} "
        f"conversations refused by both, {sum(checker.refused.values())} by Poplar alone"
    )
    return 1 if checker.differences else 0


if __name__ == "__main__":
    sys.exit(main())
