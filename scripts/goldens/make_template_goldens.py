#!/usr/bin/env python3
# ===- make_template_goldens.py - Conversations as axolotl's templates have them ===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Renders random conversations by the templates that axolotl publishes, with Jinja as
transformers sets it, for those that Poplar has under the same names.

    make_template_goldens.py AXOLOTL > unittests/Runtime/Inputs/TemplateGoldens.json

AXOLOTL is a checkout of axolotl (commit 067b021c). ChatTemplateTest compares what
Poplar's templates write; check_templates.py --against compares more conversations.
"""

import argparse
import json
import pathlib
import random

from transformers.utils import chat_template_utils

import check_templates

OURS = check_templates.ROOT / "runtime" / "template" / "axolotl"
THEIRS = "src/axolotl/utils/chat_templates/templates"
RENDERED, WITH_TOOLS, REFUSED = 6, 2, 1


def draw(template, chance):
    """Conversations that the template renders, some with tools, and one that it refuses."""
    kept, wanted = [], {"plain": RENDERED - WITH_TOOLS, "tools": WITH_TOOLS, "refused": REFUSED}
    for _ in range(1000):
        variables = check_templates.draw_variables(chance)
        result = check_templates.render_by_jinja(template, variables)
        kind = "refused" if "error" in result else "tools" if variables["tools"] else "plain"
        if len(json.dumps(variables)) < 2500 and wanted[kind]:
            wanted[kind] -= 1
            kept.append({"variables": variables, **({} if kind == "refused" else result)})
    return kept


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("axolotl", type=pathlib.Path)
    directory = parser.parse_args().axolotl / THEIRS
    chat_template_utils.datetime = check_templates.Today
    goldens = []
    for file in sorted(OURS.glob("*.jinja")):
        template = (directory / file.name).read_text()
        for golden in draw(template, random.Random(file.stem)):
            goldens.append({"template": f"axolotl:{file.stem}", **golden})
    time = int(check_templates.NOW.timestamp())
    print(json.dumps({"time": time, "conversations": goldens}, indent=0, ensure_ascii=False))


if __name__ == "__main__":
    main()
