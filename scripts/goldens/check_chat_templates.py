#!/usr/bin/env python3
# ===- check_chat_templates.py - Chat templates against transformers -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws conversations and compares what Poplar makes of them by chat templates with
apply_chat_template of transformers: the ids, and which of them count.

    check_chat_templates.py WORK [--count N] [--seed S] [TEMPLATE...]

A TEMPLATE is a file with a template, a tokenizer_config.json, or a directory in which
such files lie at any depth, as in the directory of a model. The templates that check_chat.py
writes are compared in any case. The ids that count are compared where the template has
{% generation %}, and where a NAME_training.jinja beside NAME.jinja, as trl has them, has it
and writes the same text. A conversation that Poplar refuses and transformers renders
is counted with the reason; so are lists with one part that the template does not read, which
Poplar takes as the text. Needs what check_chat.py needs.
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

import transformers

import check_chat
import conversations

# Special tokens as templates write them.
TOKEN = re.compile(
    r"<[|｜][^<>'\"\s{}]+[|｜]>|<[|]\w+>|<\w+[|]>|\[[|][a-z]+[|]\]|\[/?[A-Z_]+\]|</?seed:\w+>|<\w+_of_\w+>|</?s>"
)
# What may stand around an answer.
FRAME = re.compile(r"\s+|assistant|</?think>|" + TOKEN.pattern)
# Tokens that no conversation exceeds.
LENGTH = 16384


def draw_row(chance, template):
    """A row of the data, mostly with what the template reads."""
    rich = chance.random() < 0.6

    def reads(word):
        return rich and (word in template or chance.random() < 0.05)

    row = {
        "messages": conversations.draw_messages(
            chance,
            developer=0.2 * reads("developer"),
            reasoning=0.3 * reads("reasoning_content"),
            tools=0.4 * reads("tool_calls"),
            parts=0.2 * reads("['type']") or 0.2 * reads(".type"),
        )
    }
    if reads("tools") and chance.random() < 0.5:
        row["tools"] = [conversations.draw_tool(chance) for _ in range(chance.choice([1, 2]))]
    if chance.random() < 0.1:
        row["chat_template_kwargs"] = {"enable_thinking": chance.random() < 0.5}
    return row


def read_marked(name, template):
    """The template that marks answers, if there is one."""
    if "generation" in template and re.search(r"\{%-?\s*generation", template):
        return template
    file = pathlib.Path(name)
    other = file.with_name(file.stem + "_training.jinja")
    return other.read_text() if other.exists() else None


class Checker:
    """A small model whose tokenizer has the special tokens of all templates."""

    def __init__(self, work, templates):
        self.directory = work / "templates"
        tokens = sorted({token for template in templates for token in TOKEN.findall(template)})
        self.tokenizer = check_chat.make_tokenizer(self.directory, "qwen", tokens, None)
        settings = {"bos_token": self.tokenizer.bos_token, "eos_token": self.tokenizer.eos_token}
        (self.directory / "tokenizer_config.json").write_text(json.dumps(settings))
        config = check_chat.make_config(len(self.tokenizer), self.tokenizer.eos_token_id)
        check_chat.Model(self.directory, {**config, "n_positions": LENGTH}, length=LENGTH)
        self.compared = self.differences = self.both = self.masks = self.parts = 0
        self.refused = collections.Counter()

    def encode(self, rows):
        """{index: (ids, counts)} by Poplar, and {index: reason} of what it refuses."""
        data, cache = self.directory / "rows.jsonl", self.directory / "cache"
        out, rest, reasons = self.directory / "run", dict(enumerate(rows)), {}
        command = [
            "poplar", "train", self.directory / "program", "--data", data, "--steps", 0,
            "--val-fraction", 0, "--skip-save", "--out", out, "--global-batch", 1,
            "--chat-template", self.directory / "t.jinja", "--threads", 1,
            "--chat-date", datetime.date.today().isoformat(),
        ]  # fmt: skip
        while rest:
            data.write_text("".join(json.dumps(row) + "\n" for row in rest.values()))
            shutil.rmtree(cache, ignore_errors=True)
            shutil.rmtree(out, ignore_errors=True)
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True,
                env={**check_chat.os.environ, "POPLAR_CACHE": str(cache)},
            )  # fmt: skip
            if done.returncode == 0:
                examples = check_chat.read_examples(next(cache.glob("*.ids")))
                return dict(zip(rest, examples)), reasons
            found = re.search(r"rows.jsonl', line (\d+)[^:]*: (.*)", done.stderr)
            if not found:
                raise RuntimeError(done.stderr)
            index = list(rest)[int(found[1]) - 1]
            reason = found[2].split("; --chat-template")[0].replace(str(self.directory), "DIR")
            reasons[index] = re.sub(r"message \d+", "message N", reason)
            del rest[index]
        return {}, reasons

    def render(self, template, row):
        try:
            return self.tokenizer.apply_chat_template(
                row["messages"],
                chat_template=template,
                tools=row.get("tools"),
                return_dict=True,
                return_assistant_tokens_mask=True,
                **row.get("chat_template_kwargs", {}),
            )
        except Exception:  # whatever a template raises
            return None

    def find_mask(self, marked, row, theirs):
        """Which ids count; none if that is not known or nothing does."""
        found = marked and self.render(marked, row)
        if not found or found["input_ids"] != theirs["input_ids"] or not any(found["assistant_masks"]):
            return None
        if all(found["assistant_masks"]):  # a mark that ends at the first token is taken for all
            return None
        return [bool(x) for x in found["assistant_masks"]]

    def check(self, name, template, rows):
        (self.directory / "t.jinja").write_text(template)
        ours, reasons = self.encode(rows)
        marked = read_marked(name, template)
        before, unlike, masks = self.compared, self.differences, self.masks
        for index, row in enumerate(rows):
            theirs = self.render(template, row)
            if index in reasons:
                if theirs is None:
                    self.both += 1
                else:
                    self.refused[reasons[index]] += 1
                continue
            ids, counts = ours[index]
            expected = theirs and theirs["input_ids"]
            has_parts = any(isinstance(m["content"], list) for m in row["messages"])
            if has_parts and (not theirs or "[{'type': 'text'" in self.tokenizer.decode(expected)):
                self.parts += 1
                continue
            self.compared += 1
            mask = self.find_mask(marked, row, theirs) if theirs else None
            self.masks += mask is not None
            if ids == expected and self.counts_alike(ids, counts, mask, marked == template):
                continue
            self.differences += 1
            if self.differences == unlike + 1:
                print(f"{name}: {json.dumps(row)}\n  ours   {self.decode(ids, counts)!r}")
                print(f"  theirs {expected and self.decode(expected, mask)!r}")
        print(
            f"{name}: {self.compared - before} compared, {self.masks - masks} with what counts, "
            f"{len(reasons)} refused, {self.differences - unlike} differences",
            flush=True,
        )

    def counts_alike(self, ids, counts, mask, is_own):
        """transformers leaves out later tokens of the last character of a mark. A template for
        training may also mark the generation prompt, and what stands behind an answer."""
        unlike = [i for i, count in enumerate(counts) if mask and count != mask[i]]
        pieces = {i: self.tokenizer.decode([ids[i]]) for i in unlike}
        ours = "".join(p for i, p in pieces.items() if counts[i] and "\ufffd" not in p)
        theirs = "".join(p for i, p in pieces.items() if mask[i])
        return not ours.strip() and (not theirs or (not is_own and not FRAME.sub("", theirs)))

    def decode(self, ids, counts):
        """Text in which ⟦ and ⟧ are around what counts."""
        text, inside = "", False
        for token, count in zip(ids, counts or [False] * len(ids)):
            text += ("⟦" if count else "⟧") * (count != inside) + self.tokenizer.decode([token])
            inside = count
        return text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=pathlib.Path, help="directory for what is made")
    parser.add_argument("templates", nargs="*", metavar="TEMPLATE")
    parser.add_argument("--count", type=int, default=40, help="conversations for a template")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_intermixed_args()
    transformers.logging.set_verbosity_error()
    templates = [(name, family[2]) for name, family in check_chat.FAMILIES.items()]
    templates += conversations.find_templates(arguments.templates)
    checker = Checker(arguments.work, [template for _, template in templates])
    for name, template in templates:
        chance = random.Random(f"{arguments.seed} {template}")
        checker.check(name, template, [draw_row(chance, template) for _ in range(arguments.count)])
    for reason, times in checker.refused.most_common():
        print(f"refused {times} times: {reason}")
    print(
        f"{checker.compared} comparisons, {checker.masks} with what counts, "
        f"{checker.differences} differences; {checker.both} conversations refused by both, "
        f"{sum(checker.refused.values())} by Poplar alone, {checker.parts} with parts by transformers"
    )
    return 1 if checker.differences else 0


if __name__ == "__main__":
    sys.exit(main())
