#!/usr/bin/env python3
# ===- layers.py - Which folder may include which --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The allowed includes between folders, checked and drawn.

  scripts/layers.py            writes the picture docs/layers.svg
  scripts/layers.py --check    fails if an include is not allowed, an allowed one
                               is not used, a folder is missing, or the picture is
                               out of date

LAYERS lists the folders of each part from the lowest upwards. A folder may include
only folders that stand before it, so folders cannot form a ring, and of these only
the ones in its list. A header in include/Poplar/X belongs to folder X."""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "docs" / "layers.svg"

LAYERS = {
    "runtime": [
        ("support", []),
        ("kernels", []),
        ("tokenizer", ["support"]),
        ("template", ["support", "tokenizer"]),
        ("comm", ["support"]),
        ("program", ["support", "comm"]),
        ("gemm", ["support", "comm", "program"]),
        ("job", ["support", "comm", "program"]),
        ("host", ["support", "program", "gemm", "job"]),
        ("cuda", ["support", "comm", "program", "gemm", "kernels", "job"]),
        ("data", ["support", "tokenizer", "template", "comm", "program", "job"]),
        ("checkpoint", ["support", "tokenizer", "comm", "program", "job"]),
        ("gguf", ["support", "tokenizer", "comm", "program", "job", "data", "checkpoint"]),
        ("training", ["support", "comm", "program", "job", "data", "checkpoint"]),
        (
            "commands",
            ["support", "comm", "program", "job", "data", "checkpoint", "gguf", "training"],
        ),
    ],
    "planner": [
        ("Batch", []),
        ("Simulation", []),
        ("Placement", []),
        ("Model", []),
        ("Cluster", ["Batch", "Simulation", "Model"]),
        ("Pipeline", ["Batch", "Simulation", "Model", "Cluster"]),
        ("Plan", ["Batch", "Model", "Cluster", "Pipeline"]),
        ("Zero", ["Batch", "Model", "Cluster", "Plan"]),
        ("Geo", ["Placement", "Model", "Cluster", "Pipeline"]),
    ],
    "compiler": [
        ("Support", []),
        ("Planner", ["Support"]),
        ("Dialect/NN", ["Support"]),
        ("Dialect/Cluster", ["Support", "Planner"]),
        ("Dialect/Zero", ["Support", "Planner", "Dialect/NN", "Dialect/Cluster"]),
        ("Dialect/Exec", ["Dialect/NN", "Dialect/Zero"]),
        ("Recipe", ["Support"]),
        ("Import", ["Support", "Planner", "Dialect/NN", "Dialect/Cluster"]),
        (
            "Transforms/Model",
            [
                "Support",
                "Dialect/NN",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Dialect/Exec",
                "Import",
            ],
        ),
        (
            "Transforms/Plan",
            [
                "Support",
                "Planner",
                "Dialect/NN",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Transforms/Model",
            ],
        ),
        (
            "Transforms/Zero",
            [
                "Dialect/NN",
                "Dialect/Zero",
                "Transforms/Model",
                "Transforms/Plan",
            ],
        ),
        ("Transforms/Schedule", ["Dialect/NN", "Dialect/Zero"]),
        ("Conversion/Kernels", ["Dialect/NN", "Dialect/Zero", "Dialect/Exec"]),
        ("Conversion/GPU", ["Dialect/Exec", "Conversion/Kernels"]),
        (
            "Conversion/Program",
            [
                "Support",
                "Dialect/NN",
                "Dialect/Zero",
                "Dialect/Exec",
                "Conversion/Kernels",
                "Conversion/GPU",
            ],
        ),
        (
            "Conversion/Memory",
            [
                "Planner",
                "Dialect/NN",
                "Dialect/Zero",
                "Dialect/Exec",
                "Conversion/Kernels",
                "Conversion/Program",
            ],
        ),
        (
            "Target",
            [
                "Support",
                "Planner",
                "Dialect/NN",
                "Dialect/Zero",
                "Dialect/Exec",
                "Transforms/Model",
                "Transforms/Plan",
                "Transforms/Zero",
                "Transforms/Schedule",
                "Conversion/Kernels",
                "Conversion/GPU",
                "Conversion/Program",
                "Conversion/Memory",
            ],
        ),
        (
            "Report",
            [
                "Support",
                "Planner",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Dialect/Exec",
                "Import",
                "Conversion/Kernels",
                "Conversion/Program",
            ],
        ),
        (
            "Simulation",
            [
                "Planner",
                "Dialect/NN",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Transforms/Plan",
                "Conversion/Program",
                "Target",
            ],
        ),
        (
            "Allocation",
            [
                "Planner",
                "Dialect/NN",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Target",
                "Simulation",
            ],
        ),
        (
            "Driver",
            [
                "Support",
                "Planner",
                "Dialect/NN",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Dialect/Exec",
                "Import",
                "Transforms/Model",
                "Transforms/Plan",
                "Conversion/Program",
                "Target",
                "Report",
                "Simulation",
                "Allocation",
            ],
        ),
        (
            "Workflow",
            [
                "Support",
                "Dialect/NN",
                "Dialect/Cluster",
                "Import",
                "Driver",
            ],
        ),
        (
            "Tools",
            [
                "Support",
                "Dialect/NN",
                "Dialect/Cluster",
                "Dialect/Zero",
                "Dialect/Exec",
                "Target",
            ],
        ),
    ],
}

QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SOURCES = (".h", ".cpp")
# What both sides of the ABI include: no folder of any part.
SHARED = "Runtime"
# Poplar/Passes.h, the list of all passes, is for the tools.
UMBRELLAS = {"Passes.h"}


class Part:
    """Part of the tree: where its folders are, and how an include names them."""

    def __init__(self, name, root):
        self.name, self.layers = name, dict(LAYERS[name])
        self.order = [room for room, _ in LAYERS[name]]
        if name == "runtime":
            self.trees, self.prefixes = [root / "runtime"], [""]
        elif name == "planner":
            self.trees = [root / "lib/Planner", root / "include/Poplar/Planner"]
            self.prefixes = ["Poplar/Planner/", ""]
        else:
            self.trees = [root / "lib", root / "include/Poplar"]
            self.prefixes = ["Poplar/"]

    def find(self, path):
        """The folder that a path within the part belongs to: the longest that is
        listed, or the path's own if none is."""
        parts = pathlib.PurePosixPath(path).parent.parts
        for length in range(len(parts), 0, -1):
            room = "/".join(parts[:length])
            if room in self.layers:
                return room
        return "/".join(parts) or None

    def list_includes(self):
        """(file, line, folder of the file, folder of what it includes)."""
        for tree in self.trees:
            for path in sorted(tree.rglob("*")):
                if path.suffix not in SOURCES:
                    continue
                relative = path.relative_to(tree)
                room = self.find(relative)
                if room is None or room == SHARED or path.name in UMBRELLAS and (
                    len(relative.parts) == 1
                ):
                    continue
                text = path.read_text()
                yield path, 0, room, None
                for match in QUOTED.finditer(text):
                    line = text.count("\n", 0, match.start()) + 1
                    target = self.resolve(match.group(1))
                    if target and target not in (room, SHARED):
                        yield path, line, room, target

    def resolve(self, include):
        for prefix in self.prefixes:
            if not include.startswith(prefix):
                continue
            rest = include[len(prefix) :]
            if any((tree / rest).exists() for tree in self.trees):
                return self.find(rest)
        return None


def check(root=ROOT):
    """Errors, one line each."""
    errors = []
    for name in LAYERS:
        part = Part(name, root)
        for place, (room, uses) in enumerate(LAYERS[name]):
            for other in uses:
                if other not in part.order[:place]:
                    errors.append(
                        f"scripts/layers.py: error: '{room}' may not include '{other}', "
                        f"which does not stand before it in '{name}'"
                    )
        used = set()
        for path, line, room, target in part.list_includes():
            where = f"{path.relative_to(root)}:{line}: error: "
            if room not in part.layers:
                errors.append(f"{where}folder '{room}' is not in scripts/layers.py")
            elif target and target not in part.layers[room]:
                errors.append(
                    f"{where}'{room}' may not include '{target}' ({name}); see "
                    "scripts/layers.py"
                )
            elif target:
                used.add((room, target))
        for room, uses in LAYERS[name]:
            errors += [
                f"scripts/layers.py: error: '{room}' no longer includes '{other}'; remove "
                f"it from the list of '{name}'"
                for other in uses
                if (room, other) not in used
            ]
    return list(dict.fromkeys(errors))


STYLE = """
    text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1f2328; }
    .title { font: 600 14px system-ui, sans-serif; }
    .cell { fill: #f6f8fa; }
    .self { fill: #d0d7de; }
    .used { fill: #0969da; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .cell { fill: #161b22; }
      .self { fill: #3d444d; }
      .used { fill: #58a6ff; }
    }
"""
CELL, CHARACTER = 22, 7.4


def draw():
    """A matrix for each part. A square in a row and a column: the folder of the row
    may include the folder of the column."""
    parts, top, width = [], 0, 0
    for name, layers in LAYERS.items():
        left = CHARACTER * max(len(room) for room, _ in layers) + 16
        order = [room for room, _ in layers]
        parts.append(f'<text class="title" x="8" y="{top + 22:g}">{name}</text>')
        top += 34
        for row, (room, uses) in enumerate(layers):
            y = top + CELL * row
            parts.append(
                f'<text x="{left - 8:g}" y="{y + 15:g}" text-anchor="end">{room}</text>'
            )
            for column, other in enumerate(order[: row + 1]):
                kind = "self" if column == row else "used" if other in uses else "cell"
                title = f"{room} includes {other}" if kind == "used" else ""
                parts.append(
                    f'<rect class="{kind}" x="{left + CELL * column:g}" y="{y:g}" '
                    f'width="{CELL - 2}" height="{CELL - 2}" rx="3">'
                    + (f"<title>{title}</title>" if title else "")
                    + "</rect>"
                )
            if row + 1 < len(layers):
                continue
            # Names of the columns, below.
            for column, other in enumerate(order):
                x = left + CELL * column + 14
                y = top + CELL * len(layers) + 6
                parts.append(
                    f'<text x="{x:g}" y="{y:g}" transform="rotate(-60 {x:g} {y:g})" '
                    f'text-anchor="end">{other}</text>'
                )
        longest = max(len(room) for room in order)
        top += CELL * len(layers) + CHARACTER * longest * 0.87 + 16
        width = max(width, left + CELL * len(layers) + 8)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {top:g}" '
        f'width="{width:g}" height="{top:g}" role="img" aria-label="Which folders '
        'may include which: a matrix for the runtime, the planner and the compiler">\n'
        f"  <style>{STYLE}  </style>\n"
    )
    return head + "".join(f"  {part}\n" for part in parts) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    parser.add_argument(
        "--root", type=pathlib.Path, default=ROOT, help="the source tree to check"
    )
    arguments = parser.parse_args()
    if not arguments.check:
        OUTPUT.write_text(draw())
        return
    errors = check(arguments.root.resolve())
    if not OUTPUT.exists() or OUTPUT.read_text() != draw():
        errors.append(f"{OUTPUT.relative_to(ROOT)}: error: out of date; run scripts/layers.py")
    print("\n".join(errors) or "all includes are allowed")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
