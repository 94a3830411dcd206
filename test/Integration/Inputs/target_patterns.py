#!/usr/bin/env python3
# ===- target_patterns.py - Modules by regular expressions ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""target_patterns.py DIRECTORY [MODEL PREFIX PATTERN...]...: `poplar import` adapts the
modules whose whole names re.fullmatch matches, as PEFT, where PREFIX is what names have
in place of `model.`; arguments of models are separated by `--`."""

import itertools
import os
import re
import subprocess
import sys


def main():
    directory, *words = sys.argv[1:]
    path = os.path.join(directory, "pattern.mlir")
    for is_break, group in itertools.groupby(words, lambda word: word == "--"):
        if is_break:
            continue
        model, prefix, *patterns = group
        for pattern in patterns:
            command = ["poplar", "import", model, "--seq-len", "16", "--lora-rank", "2"]
            subprocess.run(command + ["--lora-target-pattern", pattern, "-o", path], check=True, stdout=subprocess.DEVNULL)
            with open(path) as file:
                text = file.read()
            names = re.findall(r"nn\.parameter @([\w.]+)\.weight : tensor<\d+x\d+x", text)
            adapted = {name[: -len(".lora_A")] for name in names if name.endswith(".lora_A")}
            expected = {
                name
                for name in names
                if not name.endswith((".lora_A", ".lora_B"))
                and re.fullmatch(pattern, re.sub(r"^model\.", prefix, name))
            }
            print(f"{pattern}: {len(expected)} modules")
            if not expected or adapted != expected:
                sys.exit(f"error: {sorted(adapted ^ expected)} differ")


if __name__ == "__main__":
    main()
