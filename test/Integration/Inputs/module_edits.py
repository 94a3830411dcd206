# ===- module_edits.py - Changes of textual modules ------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What can be changed in the text of a module, by kind: numbers, sizes, element
types, whole types, names and words, elements of lists, lines, and operands
together with their types. MLIR's grammar is known only as far as brackets go."""

import re

TOKENS = {
    "string": r'"(?:[^"\\\n]|\\.)*"',
    "type": r"(?:tensor|memref|vector|![\w.]+)<[^<>]*(?:<[^<>]*>[^<>]*)*>",
    "value": r"%[\w$.-]+(?:#\d+)?",
    "symbol": r"@[\w$.-]+",
    "number": r"(?<![\w.%@!#])-?\d+(?:\.\d+(?:e[+-]?\d+)?)?(?![\w.])",
    "element": r"\b(?:f16|bf16|f32|f64|index|i\d+)\b",
    "word": r"\b[a-z_][\w.$]*\b",
    "open": r"[(\[{<]",
    "close": r"[)\]}]|(?<!-)>",
    "comma": r",",
}
TOKEN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in TOKENS.items()))
INTEGERS = [-1, 0, 1, 2**31, 2**63 - 1]
REALS = ["0.0", "-1.0", "1.0e300", "0x7FF0000000000000", "0x7FC00000"]
SIZES = ["0", "1", "?", "2147483648", "9223372036854775807"]
ELEMENTS = ["f16", "bf16", "f32", "f64", "i1", "i8", "i32", "i64", "index", "!nn.quantized<int8>", "!nn.quantized<nf4>"]
STRINGS = ['""', '"x"', '"a\\00b"', '"f32"', '"1"']
# A line of the generic form: operands, and their types.
GENERIC = re.compile(r'"\((%[^()]*)\).*: \(([^()]*)\) ->')


class Edit:
    """Replaces parts of a text, (begin, end, new)."""

    def __init__(self, kind, parts):
        self.kind, self.parts = kind, parts

    def apply(self, text):
        for begin, end, new in sorted(self.parts, reverse=True):
            text = text[:begin] + new + text[end:]
        return text

    def __str__(self):
        shown = "; ".join(f"[{begin}:{end}] -> {new[:60]}" for begin, end, new in self.parts[:3])
        return f"{self.kind} {shown}"


def change_number(text):
    if not re.fullmatch(r"-?\d+", text):
        value = float(text)
        return [*REALS, repr(value * 2), repr(-value)]
    value = int(text)
    return [str(new) for new in dict.fromkeys([*INTEGERS, value + 1, value - 1, 2 * value]) if new != value]


def list_elements(tokens, text):
    """The elements of lists with commas, as lists of (begin, end)."""
    stack, lists = [], []
    for match in tokens:
        if match.lastgroup == "open":
            stack.append([match.end()])
        elif match.lastgroup == "comma" and stack:
            stack[-1] += [match.start(), match.end()]
        elif match.lastgroup == "close" and stack:
            bounds = [*stack.pop(), match.start()]
            if text[bounds[0] : bounds[-1]].strip():
                lists.append(list(zip(bounds[::2], bounds[1::2])))
    return lists


def edit_list(elements, text):
    """Drops, doubles and swaps elements."""
    for index, (begin, end) in enumerate(elements):
        element = text[begin:end]
        last = index + 1 == len(elements)
        if not last:
            yield Edit("list", [(begin, elements[index + 1][0], "")])
            after = elements[index + 1]
            yield Edit("list", [(begin, end, text[slice(*after)]), (*after, element)])
        else:
            yield Edit("list", [(elements[index - 1][1] if index else begin, end, "")])
        yield Edit("list", [(end, end, f", {element.strip()}")])


def edit_lines(text):
    lines, begin = [], 0
    for line in text.splitlines(keepends=True):
        lines.append((begin, begin + len(line)))
        begin += len(line)
    for index, (begin, end) in enumerate(lines):
        yield Edit("line", [(begin, end, "")])
        yield Edit("line", [(begin, begin, text[begin:end].rstrip("\n") + "\n")])
        if index:
            before = lines[index - 1]
            yield Edit("line", [(*before, text[begin:end]), (begin, end, text[slice(*before)])])


def split_commas(text, offset):
    """The elements between commas outside of brackets."""
    bounds, depth = [0], 0
    for index, character in enumerate(text):
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            bounds += [index, index + 1]
    bounds.append(len(text))
    return [(offset + begin, offset + end) for begin, end in zip(bounds[::2], bounds[1::2])]


def edit_operands(text):
    """Drops, doubles and swaps operands with their types, in the generic form."""
    for match in GENERIC.finditer(text):
        values, types = (split_commas(match[group], match.start(group)) for group in (1, 2))
        if len(values) != len(types):
            continue
        for value_edit, type_edit in zip(edit_list(values, text), edit_list(types, text)):
            yield Edit("operand", value_edit.parts + type_edit.parts)


def list_edits(text):
    """All changes of a module, by kind. Kinds with "everywhere" change all that is
    the same together, so that types still agree."""
    tokens = list(TOKEN.finditer(text))
    found, same = {}, {}

    def add(kind, match, replacements, group=0, offset=0):
        begin, end = match.start(group) + offset, match.end(group) + offset
        old = match[group]
        for new in replacements:
            if new != old:
                found.setdefault(kind, []).append(Edit(kind, [(begin, end, new)]))
                same.setdefault((kind, old, new), []).append((begin, end, new))

    pools = {name: [] for name in TOKENS}
    for match in tokens:
        pools[match.lastgroup].append(match[0])
    pools = {name: list(dict.fromkeys(pool)) for name, pool in pools.items()}
    for match in tokens:
        kind, old = match.lastgroup, match[0]
        if kind == "number":
            add(kind, match, change_number(old))
        elif kind == "string":
            # MLIR prints symbols without a name, and does not read them.
            is_name = text.endswith("sym_name = ", 0, match.start())
            add(kind, match, [*STRINGS[is_name:], *pools["string"][:8]])
        elif kind == "symbol":
            add(kind, match, ["@absent", *pools["symbol"][:12]])
        elif kind == "value":
            add(kind, match, pools["value"][:12])
        elif kind == "word":
            add(kind, match, ["", *pools["word"][:40]])
        elif kind == "element":
            # MLIR's parser of arrays crashes at types without a width.
            is_array = text.endswith("array<", 0, match.start())
            add(kind, match, ELEMENTS[:8] if is_array else ELEMENTS)
        elif kind == "type":
            add(kind, match, ["i32", "tensor<*xf32>", "none", *pools["type"][:8]])
            for size in re.finditer(r"(?<=[<x])(?:\d+|\?)(?=x)", old):
                add("size", size, [*SIZES, *([str(int(size[0]) + 1)] if size[0] != "?" else [])], 0, match.start())
            for element in re.finditer(r"(?<=[<x])[^<>x]+(?:<[^<>]*>)?(?=>$)", old):
                add("element", element, ELEMENTS, 0, match.start())
    for (kind, _, _), parts in same.items():
        if len(parts) > 1 and kind in ("size", "element", "type", "number"):
            found.setdefault(f"{kind} everywhere", []).append(Edit(f"{kind} everywhere", parts))
    found["line"] = list(edit_lines(text))
    found["list"] = [edit for elements in list_elements(tokens, text) for edit in edit_list(elements, text)]
    found["operand"] = list(edit_operands(text))
    return {kind: edits for kind, edits in found.items() if edits}
