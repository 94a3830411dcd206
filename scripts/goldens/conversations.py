# ===- conversations.py - Random conversations for checks ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws conversations with tools, reasoning, parts and all roles, and finds templates."""

import json
import pathlib

WORDS = ["a", " ", "\n", "\n\n", "the model", "é!", "x", "'quoted'", '"twice"', "{{ b }}", "<b>&amp;", "\u3000", "\t", "日本", "1", "# H", "\\n"]
RARE = ["<think>a</think>", "</think>", "<|im_end|>", "[INST]", "", "</s>", "/no_think", "\u00a0", "\u0001"]
SCHEMAS = [
    {"type": "string", "description": "Where: a <city>"},
    {"type": "integer", "default": 3},
    {"type": "number", "enum": [1, 2.5, 1e20]},
    {"type": "boolean"},
    {"type": ["string", "null"], "nullable": True},
    {"type": "array", "items": {"type": "string"}},
    {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer", "description": "A\nb"}}, "required": ["b"]},
    {"type": "string", "enum": ["é", "b\"c"], "format": "date"},
]  # fmt: skip
VALUES = ["Rome", "", "é \"q\"\n", 3, 2.5, True, None, ["a", 1], {"b": "x", "a": 1}, "1", -1e-7]


def draw_content(chance):
    words = chance.choices(WORDS + RARE * (chance.random() < 0.1), k=chance.randrange(6))
    return "".join(words)


def draw_tool(chance):
    names = chance.sample(["city", "unit", "count", "when", "items", "type"], chance.randrange(4))
    parameters = {"type": "object", "properties": {n: chance.choice(SCHEMAS) for n in names}}
    if chance.random() < 0.7:
        parameters["required"] = names[:1]
    function = {"name": chance.choice(["get_weather", "add", "web.search"])}
    function["description"] = draw_content(chance)
    function["parameters"] = parameters
    if chance.random() < 0.1:
        function["return"] = {"type": "string", "description": "The answer."}
    return {"type": "function", "function": function}


def draw_call(chance, with_strings):
    names = chance.sample(["city", "unit", "count"], chance.randrange(4))
    arguments = {name: chance.choice(VALUES) for name in names}
    if with_strings:
        arguments = json.dumps(arguments)
    call = {"type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    if chance.random() < 0.7:
        call["id"] = "".join(chance.choices("abcXYZ019", k=9))
    return call


def draw_parts(chance, content):
    """A content as a list of parts."""
    parts = [{"type": "text", "text": content}]
    if chance.random() < 0.5:
        parts.append({"type": "text", "text": draw_content(chance)})
    return parts


def draw_answers(chance, rules):
    """The messages with which an assistant answers a user."""
    answer = {"role": "assistant", "content": draw_content(chance)}
    if chance.random() < rules.get("reasoning", 0):
        answer["reasoning_content"] = draw_content(chance)
    if chance.random() >= rules.get("tools", 0):
        return [answer]
    if chance.random() < 0.6:
        answer["content"] = chance.choice(["", None])
    with_strings = chance.random() < rules.get("strings", 0)
    calls = [draw_call(chance, with_strings) for _ in range(chance.choice([1, 1, 2]))]
    answer["tool_calls"] = calls
    results = []
    for call in calls:
        result = {"role": "tool", "content": draw_content(chance)}
        if "id" in call:
            result["tool_call_id"] = call["id"]
        if chance.random() < 0.5:
            result["name"] = call["function"]["name"]
        results.append(result)
    return [answer, *results, *draw_answers(chance, {**rules, "tools": 0.2})]


def draw_messages(chance, **rules):
    """Rules are chances: system, developer, reasoning, tools, strings, parts, shuffled."""
    messages = []
    if chance.random() < rules.get("system", 0.3):
        role = "developer" if chance.random() < rules.get("developer", 0) else "system"
        messages.append({"role": role, "content": draw_content(chance)})
    for _ in range(chance.randrange(1, 4)):
        messages.append({"role": "user", "content": draw_content(chance)})
        messages += draw_answers(chance, rules)
    if chance.random() < rules.get("shuffled", 0.1):
        chance.shuffle(messages)
    if chance.random() < 0.1:
        messages.append({"role": "user", "content": draw_content(chance)})
    if chance.random() < rules.get("parts", 0):
        for message in messages:
            if message["content"] and chance.random() < 0.7:
                message["content"] = draw_parts(chance, message["content"])
    return messages


def find_templates(paths):
    """(name, template) of files, of configurations and of what lies in directories."""
    for path in map(pathlib.Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix in (".jinja", ".jinja2"):
                # As transformers reads the files: with the last line's end.
                yield str(file), file.read_text()
            elif file.name == "tokenizer_config.json":
                template = json.loads(file.read_text()).get("chat_template")
                if isinstance(template, str):
                    yield str(file), template
