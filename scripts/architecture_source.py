# ===- architecture_source.py - What the sources say of the architecture --===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads passes, pipelines and folders from the source tree. Nothing here lists
them by hand."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

# def NNDifferentiate : Pass<"nn-differentiate", ...> { let summary = "..."; ... }
PASS = re.compile(
    r'^def (\w+)\s*:\s*Pass<"([\w-]+)".*?\{(.*?)^\}', re.MULTILINE | re.DOTALL
)
# include "Poplar/Transforms/Plan/Passes.td"
INCLUDE = re.compile(r'^include "(.*)"', re.MULTILINE)
# A function as clang-format writes it: its head begins in the first column, and
# its body ends with a brace there.
FUNCTION = re.compile(
    r"^[\w:][^\n;{}#]*?\b(\w+)\((?:[^{};]*)\)[^;{}]*\{\n(.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
CALL = re.compile(r"\b(create\w+|build\w+|add\w+)\s*\(")


class Pass:
    """A pass of Poplar's, as the Passes.td of its directory defines it."""

    def __init__(self, name, flag, body, path, directory):
        self.name, self.flag, self.path = name, flag, path
        self.directory = directory
        summary = re.search(r'let summary = "([^"]*)"', body)
        self.summary = summary.group(1) if summary else ""
        description = re.search(r"let description = \[\{(.*?)\}\]", body, re.DOTALL)
        self.description = description.group(1) if description else ""


def read_passes(root=ROOT):
    """The passes by the name of their class, in the order of Poplar/Passes.td."""
    passes = {}
    include = root / "include"
    directories = INCLUDE.findall((include / "Poplar" / "Passes.td").read_text())
    for path in (include / name for name in directories):
        directory = path.parent.relative_to(include / "Poplar")
        for match in PASS.finditer(path.read_text()):
            passes[match.group(1)] = Pass(*match.groups(), path, directory)
    return passes


def read_functions(root=ROOT):
    """For each function that adds passes, or calls one that may: what it calls,
    in order."""
    functions = {}
    for folder in ("lib", "tools"):
        for path in sorted((root / folder).rglob("*.cpp")):
            text = path.read_text()
            if "addPass" not in text and "Pipeline" not in text:
                continue
            for name, body in FUNCTION.findall(text):
                functions.setdefault(name, []).extend(CALL.findall(body))
    return functions


def expand(function, functions, seen=()):
    """The `create...` calls that a function makes, itself or through others."""
    created = []
    for call in functions.get(function, []):
        if call.startswith("create"):
            created.append(call)
        elif call in functions and call not in seen and call != function:
            created += expand(call, functions, (*seen, function))
    return created


def list_folders(path):
    """The rooms of a directory: its subdirectories that hold sources."""
    if not path.is_dir():
        return []
    return sorted(
        folder.name
        for folder in path.iterdir()
        if folder.is_dir() and any(folder.rglob("*.cpp"))
    )


def list_commands(root=ROOT):
    """The commands of poplar, in the order of its help."""
    main = (root / "tools" / "poplar" / "poplar.cpp").read_text()
    return [name.lower() for name in re.findall(r"\badd(\w+)Command\(app", main)]


def find_source(name, root=ROOT):
    """Where in the repository the file of that name is."""
    found = [
        path
        for folder in ("include", "lib", "runtime")
        for path in sorted((root / folder).rglob(name))
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} files are named {name}; there must be one")
    return found[0].relative_to(root)
