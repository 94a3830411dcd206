"""Fails unless every option in these helps has a sentence, and nothing in them is
the option parser's own notation: check_help.py COMMAND... (each one argument)."""

import re
import subprocess
import sys

NOTATION = re.compile(r"\b(INT|UINT|TEXT|FLOAT):|\{(true|false)\}|Needs:|\[\]|\(\d[^)]*\)$")


def check(command):
    words = command.split()
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    lines = text.splitlines()
    options = 0
    for number, line in enumerate(lines):
        if NOTATION.search(line):
            yield f"{command}: '{line.strip()}' is notation"
        option = re.match(r"  (-\w,)?--?[\w-]+(.*)$", line)
        if not option:
            continue
        options += 1
        following = lines[number + 1] if number + 1 < len(lines) else ""
        # A sentence begins with a word, behind the option or in the next line.
        if not re.search(r" {1,}\w[\w'-]* \w", option[2]) and not re.match(
            r" {20,}\w", following
        ):
            yield f"{command}: '{line.strip()}' has no description"
    if options == 0:
        yield f"{command}: no options"


errors = [error for command in sys.argv[1:] for error in check(command)]
print("\n".join(errors) or f"{len(sys.argv) - 1} helps")
sys.exit(bool(errors))
