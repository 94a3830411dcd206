# ===- check_option_names.py - Options that the table of names leads to ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What an unknown option is said to mean is an option of the command that is named:
every row of runtime/support/OptionNames.cpp that leads to a command of poplar with
options of its own. The unit tests check those of generated programs."""

import collections
import re
import subprocess
import sys

ROW = re.compile(r'\{((?:"[^"]*"\s*)+),\s*"([^"]*)",\s*"([^"]*)"')
OF_PROGRAMS = {"train", "sample", "evaluate"}

with open(sys.argv[1]) as file:
    rows = ROW.findall(file.read())
options = collections.defaultdict(set)
for _, option, command in rows:
    if option and command not in OF_PROGRAMS:
        options[command].add(option.split()[0])
assert len(rows) > 50 and len(options) > 2, (len(rows), options)
failures = 0
for command, names in sorted(options.items()):
    text = subprocess.run(
        ["poplar", command, "--help"], check=True, capture_output=True, text=True
    ).stdout
    for name in sorted(names):
        if not re.search(rf"--{name}\b(?!-)", text):
            print(f"poplar {command} has no --{name}")
            failures += 1
sys.exit(failures > 0)
