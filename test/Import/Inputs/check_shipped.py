# ===- check_shipped.py - Import configurations of public models ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""check_shipped.py POPLAR: imports each shipped/*.json, the config.json of a public
model with all its members, and compares with shipped-outcomes.json: the family and the
number of parameters, or the refusal word by word.

The numbers are those of transformers (scripts/goldens/check_shipped.py).
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def import_config(poplar, file, options):
    """What the command says of the model, or its refusal without the file's name."""
    command = [poplar, "import", str(file), *options, "-o", "-"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        why = result.stderr.strip().removeprefix(f"poplar: error: {file}: ")
        # errors.test has the list of all architectures.
        return {"refused": re.sub(r"\(known: [^)]*,[^)]*\)", "(known: ...)", why)}
    found = re.search(r"^model +(\S+), ([\d,]+) parameters", result.stderr, re.MULTILINE)
    return {"family": found[1], "parameters": int(found[2].replace(",", ""))}


def main():
    poplar = sys.argv[1]
    table = json.loads((HERE / "shipped-outcomes.json").read_text())
    files = {file.stem: file for file in (HERE / "shipped").glob("*.json")}
    wrong = sorted(files.keys() ^ table.keys())
    for name in wrong:
        print(f"{name}: only a configuration or only an outcome")
    for name in sorted(files.keys() & table.keys()):
        expected = dict(table[name])
        outcome = import_config(poplar, files[name], expected.pop("options", []))
        if outcome != expected:
            print(f"{name}: expected {expected}, found {outcome}")
            wrong.append(name)
    refused = sum("refused" in row for row in table.values())
    print(f"{len(table) - refused} imported, {refused} refused, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
