#!/usr/bin/env python3
# ===- check_templates.py - The interpreter of templates against Jinja -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Renders random conversations by templates with Poplar's interpreter and with Jinja as
transformers sets it, and compares text for text, mark for mark and error for error.

    check_templates.py [--count N] [--seed S] [--renderer FILE] [--against DIR] TEMPLATE...

A TEMPLATE is a file with a template, a tokenizer_config.json, or a directory in which
such files lie at any depth. Prints the first difference of each template, what both
refuse, and the share of templates without a difference. With --against, Jinja renders
the file of the same name in DIR: so are the templates in runtime/template/axolotl
compared with those that axolotl publishes (src/axolotl/utils/chat_templates/templates).
"""

import argparse
import collections
import datetime
import json
import pathlib
import random
import subprocess
import sys

from transformers.utils import chat_template_utils

import conversations

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOW = datetime.datetime(2026, 7, 4, 12)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def draw_variables(chance):
    """The variables of a template for a conversation."""
    rich = chance.random() < 0.6
    messages = conversations.draw_messages(
        chance,
        developer=0.2 * rich,
        reasoning=0.4 * rich,
        tools=0.5 * rich,
        strings=0.5,
        parts=0.3 * rich,
    )
    messages = [{k: v for k, v in m.items() if v is not None} for m in messages]
    variables = {**TOKENS, "messages": chat_template_utils._alias_reasoning_fields(messages)}
    with_tools = rich and chance.random() < 0.6
    variables["tools"] = (
        [conversations.draw_tool(chance) for _ in range(chance.choice([1, 2, 3]))] if with_tools else None
    )
    variables["documents"] = None
    if rich and chance.random() < 0.1:
        variables["documents"] = [{"title": "T", "text": conversations.draw_content(chance)}]
    variables["add_generation_prompt"] = chance.random() < 0.3
    for name in ("enable_thinking", "thinking", "keep_past_thinking", "tools_in_user_message"):
        if chance.random() < 0.1:
            variables[name] = chance.random() < 0.5
    return variables


def render_by_jinja(template, variables):
    """What Poplar's renderer is to answer."""
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        text, marks = chat_template_utils._render_with_assistant_indices(compiled, **variables)
    except Exception as error:  # whatever a template raises
        return {"error": f"{type(error).__name__}: {error}"}
    # In bytes.
    marks = [[len(text[:at].encode()) for at in mark] for mark in marks]
    return {"text": text, "generated": marks}


class Renderer:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def render(self, template, variables):
        request = {"template": template, "variables": variables, "time": int(NOW.timestamp())}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("templates", nargs="+", metavar="TEMPLATE")
    parser.add_argument("--count", type=int, default=100, help="conversations for a template (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument(
        "--against", type=pathlib.Path, metavar="DIR", help="templates of the same names, for Jinja"
    )
    parser.add_argument(
        "--renderer",
        default=ROOT / "build" / "release" / "bin" / "poplar-render-templates",
        help="program that renders (default: that of build/release)",
    )
    arguments = parser.parse_args()
    chat_template_utils.datetime = Today
    renderer = Renderer(arguments.renderer)
    counts = collections.Counter()
    for name, template in conversations.find_templates(arguments.templates):
        chance = random.Random(f"{arguments.seed} {template}")
        other = (arguments.against / pathlib.Path(name).name).read_text() if arguments.against else template
        before = counts["differences"]
        for _ in range(arguments.count):
            variables = draw_variables(chance)
            ours, theirs = renderer.render(template, variables), render_by_jinja(other, variables)
            both_refuse = "error" in ours and "error" in theirs
            kind = "refused by both" if both_refuse else "equal" if ours == theirs else "differences"
            counts[kind] += 1
            if kind == "differences" and counts["differences"] == before + 1:
                print(f"{name}: {json.dumps(variables)}\n  ours   {ours}\n  theirs {theirs}")
        counts["templates"] += 1
        counts["templates that agree"] += counts["differences"] == before
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
