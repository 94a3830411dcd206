"""Applies the patch of a page to copies of its files, and compiles both sides of the
ABI with them: apply_field.py PAGE DIRECTORY"""

import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "release"
COMPILED = [
    "lib/Dialect/Exec/ABIStructs.cpp",
    "lib/Target/DescribeProgram.cpp",
    "runtime/program/State.cpp",
]
CHECK = """
#include "Poplar/Runtime/ABI.h"
#include <cstddef>
static_assert(offsetof(PoplarRank, samples) == sizeof(const char *), "");
int64_t read(const PoplarProgram &P, int64_t R) { return P.ranks[R].samples; }
"""


def apply(patch, directory):
    """Writes the changed files to `directory`. Gives their names."""
    names = []
    for name, body in re.findall(
        r"^\+\+\+ b/(\S+)\n@@\n(.*?)(?=^--- |\Z)", patch, re.MULTILINE | re.DOTALL
    ):
        lines = body.splitlines()
        before = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
        after = "".join(line[1:] + "\n" for line in lines if line[0] in " +")
        text = (ROOT / name).read_text()
        if text.count(before) != 1:
            sys.exit(f"error: {name} does not have once what the patch changes:\n{before}")
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(before, after))
        names.append(name)
    return names


def compile_source(name, changed, directory):
    entries = json.loads((BUILD / "sources/compile_commands.json").read_text())
    entry = next(e for e in entries if e["file"] == str(ROOT / name))
    command = [word for word in shlex.split(entry["command"]) if "ccache" not in word]
    while not re.search(r"(\+\+|cc)(-\d+)?$", command[0]):
        command.pop(0)
    if "-o" in command:
        at = command.index("-o")
        del command[at : at + 2]
    if name in changed:
        command[command.index("-c") + 1] = str(directory / name)
    command[1:1] = [f"-I{directory / 'include'}", "-fsyntax-only", f"-I{(ROOT / name).parent}"]
    subprocess.run(command, cwd=entry["directory"], check=True)
    print(f"{name}: compiles")


def main():
    page, directory = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    patch = re.search(r"^```diff\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    changed = apply(patch.group(1), directory)
    print(f"{len(changed)} files are changed: {', '.join(changed)}", flush=True)
    for name in COMPILED:
        compile_source(name, changed, directory)
    subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
        + [f"-I{directory / 'include'}", f"-I{ROOT / 'include'}"],
        input=CHECK,
        text=True,
        check=True,
    )
    print("PoplarRank has samples behind device_type")


main()
