#!/usr/bin/env python3
# ===- list-sources.py - The compile command of each source -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: list-sources.py BUILD OUTPUT

Writes BUILD/compile_commands.json to OUTPUT, with a command for each source where
several are compiled at a time: what clangd, clang-tidy and tests look up."""

import json
import pathlib
import re
import sys


def expand(entry):
    """The entries of the sources that a source of several includes."""
    source = pathlib.Path(entry["file"])
    if source.parent.name != "Unity":
        return [entry]
    names = re.findall(r'^#include "(.*)"$', source.read_text(), re.MULTILINE)
    at = f"-c {source}"
    assert entry["command"].endswith(at), entry["command"]
    command = entry["command"][: -len(at)]
    return [{**entry, "file": name, "command": f"{command}-c {name}"} for name in names]


def main():
    build, output = map(pathlib.Path, sys.argv[1:])
    entries = json.loads((build / "compile_commands.json").read_text())
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps([each for entry in entries for each in expand(entry)], indent=1))


main()
