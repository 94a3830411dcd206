#!/usr/bin/env python3
# ===- build-docs.py - Pages with their examples and indices ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes the documentation into one directory: the pages of docs/, and those that
mlir-tblgen made, which get a table of contents. Every pass gets the example of
test/Docs/Passes/FLAG.mlir.

  scripts/build-docs.py --generated DIR --output DIR

`cmake --build build/release --target poplar-doc` runs it.
"""

import argparse
import os
import pathlib
import re
import shutil

import architecture_source as source

DOCS = source.ROOT / "docs"
EXAMPLES = source.ROOT / "test" / "Docs" / "Passes"
HEADING = re.compile(r"^### `-([\w-]+)`\n\n_(.*)_$", re.MULTILINE)


def read_example(flag, examples=EXAMPLES):
    """The command, the input, and the lines of its output that the test expects.
    None if the pass has no example."""
    path = examples / f"{flag}.mlir"
    if not path.exists():
        return None
    text = path.read_text()
    command = re.search(r"^// RUN: (?:not )?(.*?)(?: 2>&1)? \| FileCheck", text, re.M)
    before, _, after = text.partition("\n// The result:\n")
    lines = [line for line in before.splitlines() if not line.startswith("// RUN:")]
    result = [
        re.sub(r"\{\{.*?\}\}", "...", line)
        for line in re.findall(r"^// CHECK[\w-]*: (.*)$", after, re.M)
    ]
    return command and command.group(1), "\n".join(lines).strip(), result


def format_example(flag):
    example = read_example(flag)
    if not example:
        return ""
    command, given, result = example
    command = command.replace("%s", f"test/Docs/Passes/{flag}.mlir")
    return (
        f"#### Example\n\n```sh\n{command}\n```\n\n```mlir\n{given}\n```\n\n"
        "gives\n\n```mlir\n" + "\n".join(result) + "\n```\n\n"
    )


def add_examples(text):
    """A list of the passes in front, and each one's example behind its section."""
    sections = list(HEADING.finditer(text))
    if not sections:
        return text
    rows = [
        f"| [`--{match[1]}`](#-{match[1]}) | {match[2]} |" for match in sections
    ]
    parts = [
        "# Passes\n\nRun any of these by `poplar-opt FILE --FLAG`. "
        "[Architecture](architecture.md) shows their order.\n\n| pass | |\n|---|---|\n"
        + "\n".join(rows)
        + "\n\n"
    ]
    for number, match in enumerate(sections):
        last = number + 1 == len(sections)
        end = len(text) if last else sections[number + 1].start()
        parts.append(
            text[match.start() : end].rstrip() + "\n\n" + format_example(match[1])
        )
    return "".join(parts)


def add_contents(text):
    """Links to the headings, in the place that mlir-tblgen leaves for them."""
    entries = [
        f"- [`{name}`](#{anchor})"
        for name, anchor in (
            (match[1], re.sub(r"[^\w -]", "", match[0][4:]).lower().replace(" ", "-"))
            for match in re.finditer(r"^### `([\w.]+)`.*$", text, re.MULTILINE)
        )
    ]
    return text.replace("[TOC]", "\n".join(entries))


def adapt_links(text, page, output):
    """Links that leave docs/ lead into the source tree."""

    def adapt(match):
        target, anchor = re.match(r"([^#]*)(.*)", match[1]).groups()
        path = (page.parent / target).resolve()
        if not target or re.match(r"\w+:", target) or path.is_relative_to(DOCS):
            return match[0]
        return f"]({os.path.relpath(path, output)}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", adapt, text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--generated", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    for page in sorted(arguments.generated.glob("*.md")):
        text = add_contents(add_examples(page.read_text()))
        (arguments.output / page.name).write_text(text)
    for page in sorted(DOCS.rglob("*")):
        target = arguments.output / page.relative_to(DOCS)
        if page.suffix == ".md":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(adapt_links(page.read_text(), page, target.parent))
        elif page.suffix == ".svg":
            shutil.copy(page, target)


if __name__ == "__main__":
    main()
