#!/usr/bin/env python3
# ===- draw-architecture.py - The architecture as a picture ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws docs/architecture.svg: the levels of IR with the passes between them,
the planner, the simulator and the runtime. Passes are read from the functions
that build the pipelines, rooms from the folders.

  scripts/draw-architecture.py            writes the picture
  scripts/draw-architecture.py --check    fails if the picture is not up to date
"""

import argparse
import html
import sys

import architecture_source as source

OUTPUT = source.ROOT / "docs" / "architecture.svg"

# A level: its name, what it holds, the function whose passes make it, and the
# class of the last of these passes. Verifiers that follow belong to the level.
# Without a class, the level ends with the function.
LEVELS = [
    ("train", "nn: forward and backward", "schedulePrograms", "NNAddDecoding"),
    ("zero", "zero: collectives, messages", "schedulePrograms", None),
    ("kernels", "exec.kernel: groups of linalg", "buildMemoryPipeline", "FormKernels"),
    ("memory", "exec: calls on placed buffers", "buildMemoryPipeline", None),
    ("executable", "llvm: an object per device type", "buildLoweringPipeline", None),
]
GPU_PIPELINE = "buildGPUKernelPipeline"

WIDTH = 920
# Sizes of text: pixels per character, rounded up over the usual fonts.
MONO, SANS, SMALL = 7.3, 8.6, 7.0
BOX, LINE = 250, 18
LEFT, RIGHT, PANEL = 20, 570, 330

STYLE = """
    text { font: 14px system-ui, sans-serif; fill: #1f2328; }
    .title { font-weight: 600; }
    .small { font-size: 12px; fill: #57606a; }
    .pass { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #0550ae; }
    .verify { fill: #116329; }
    .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.5; }
    .end { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.5; }
    .line { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#head); }
    .tip { fill: #57606a; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .pass { fill: #79c0ff; }
      .verify { fill: #7ee787; }
      .box { fill: #161b22; stroke: #9198a1; }
      .end { fill: #0c2d4d; stroke: #58a6ff; }
      .line { stroke: #9198a1; }
      .tip { fill: #9198a1; }
    }
"""


def read_levels(passes, functions):
    """For each level, the passes that make it, in order; others than Poplar's
    are counted."""
    steps, done = [], {}
    for name, _, function, last in LEVELS:
        created = source.expand(function, functions)
        if not created:
            sys.exit(f"draw-architecture: error: no function {function} adds passes")
        begin = done.get(function, 0)
        end = len(created)
        if last:
            if f"create{last}" not in created[begin:]:
                sys.exit(
                    f"draw-architecture: error: {function} has no pass {last} "
                    f"after those of the level before '{name}'"
                )
            end = created.index(f"create{last}", begin) + 1
            while end < len(created) and "Verify" in created[end]:
                end += 1
        done[function] = end
        steps.append(created[begin:end])
    return steps


def get_flags(created, passes):
    """Flags of Poplar's passes among these, and how many others there are."""
    flags, others = [], 0
    for name in created:
        known = passes.get(name.removeprefix("create"))
        if not known:
            others += 1
        elif not flags or flags[-1] != known.flag:
            flags.append(known.flag)
    return flags, others


class Picture:
    """Elements of SVG, the lowest point that is drawn, and where texts are."""

    def __init__(self):
        self.parts, self.bottom, self.texts = [], 0, []

    def text(self, x, y, text, kind="", anchor=None):
        attributes = f' class="{kind}"' if kind else ""
        if anchor:
            attributes += f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text{attributes} x="{x:g}" y="{y:g}">{html.escape(text)}</text>'
        )
        self.bottom = max(self.bottom, y + 6)
        self.reserve(x, y, text, kind, anchor)

    def reserve(self, x, y, text, kind, anchor):
        """Texts do not overlap, and do not leave the picture."""
        size = MONO if "pass" in kind else SMALL if kind == "small" else SANS
        width = len(text) * size
        left = x - {"middle": width / 2, "end": width}.get(anchor, 0)
        for other in self.texts:
            if abs(other[1] - y) < 12 and left < other[2] and other[0] < left + width:
                sys.exit(
                    f"draw-architecture: error: '{text}' would overlap '{other[3]}'"
                )
        if left < 0 or left + width > WIDTH:
            sys.exit(f"draw-architecture: error: '{text}' does not fit the picture")
        self.texts.append((left, y, left + width, text))

    def box(self, x, y, width, height, kind="box"):
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" '
            f'width="{width:g}" height="{height:g}" rx="8"/>'
        )
        self.bottom = max(self.bottom, y + height)

    def arrow(self, *points):
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="line" d="M{path}"/>')

    def flow(self, x, y, width, words, size=MONO, gap=2):
        """Words side by side, as many lines as they need. Gives the y below."""
        column = x
        for word, kind in words:
            length = len(word) * size
            if column > x and column + length > x + width:
                column, y = x, y + LINE
            self.text(column, y, word, kind)
            column += length + gap * size
        return y + LINE

    def write(self):
        height = self.bottom + 16
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
            f'width="{WIDTH}" height="{height:g}" role="img" aria-label="Levels of IR from '
            "config.json to an executable, the passes between them, the planner, the "
            'simulator and the runtime">\n'
            f"  <style>{STYLE}  </style>\n"
            '  <defs>\n    <marker id="head" viewBox="0 0 8 8" refX="8" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">\n'
            '      <path class="tip" d="M0 0 8 4 0 8z"/>\n    </marker>\n  </defs>\n'
        )
        return head + "".join(f"  {part}\n" for part in self.parts) + "</svg>\n"


def style_flags(flags, others=0):
    words = [(flag, "pass verify" if "verify" in flag else "pass") for flag in flags]
    if others:
        words.append((f"+ {others} of MLIR's", "small"))
    return words


def draw_panel(picture, y, title, lines):
    """A box of the right column. Each of `lines` is words with their size.
    Gives the y below."""
    at = len(picture.parts)
    picture.text(RIGHT + 14, y + 24, title, "title")
    bottom = y + 46
    for words, size in lines:
        bottom = picture.flow(RIGHT + 14, bottom, PANEL - 28, words, size)
    height = bottom - LINE + 12 - y
    picture.box(RIGHT, y, PANEL, height)
    picture.parts.insert(at, picture.parts.pop())
    return y + height


def draw_level(picture, y, number, name, content, kind="box"):
    picture.box(LEFT, y, BOX, 50, kind)
    picture.text(LEFT + 14, y + 21, f"{number}. {name}", "title")
    picture.text(LEFT + 14, y + 39, content, "small")
    return y + 50


def draw_step(picture, y, words, until=0):
    """An arrow downwards with the passes beside it. Gives the y of its head."""
    bottom = picture.flow(LEFT + 50, y + 20, RIGHT - LEFT - 75, words)
    bottom = max(bottom - 6, until)
    picture.arrow((LEFT + 28, y), (LEFT + 28, bottom))
    return bottom


def small(*texts):
    return ([(text, "small") for text in texts], SMALL)


def draw(root=source.ROOT):
    passes = source.read_passes(root)
    functions = source.read_functions(root)
    steps = read_levels(passes, functions)
    gpu = source.expand(GPU_PIPELINE, functions)
    spine = {name for step in steps for name in step} | set(gpu)
    added = [name for called in functions.values() for name in called]
    planning = [
        item.flag
        for name, item in passes.items()
        if f"create{name}" in added and f"create{name}" not in spine
    ]
    # What is read is checked first.
    planning.sort(key=lambda flag: flag != "nn-verify-config")
    unused = [
        item.flag for name, item in passes.items() if f"create{name}" not in added
    ]

    picture = Picture()
    # The command line.
    picture.text(LEFT, 24, "poplar", "title")
    commands = [(name, "pass") for name in source.list_commands(root)]
    y = picture.flow(LEFT + 70, 24, WIDTH - LEFT - 90, commands) + 4

    # What is read.
    picture.box(LEFT, y, BOX, 50, "end")
    picture.text(LEFT + 14, y + 21, "config.json", "title")
    picture.text(LEFT + 14, y + 39, "a model, as Hugging Face writes it", "small")
    picture.box(RIGHT, y, PANEL, 50, "end")
    picture.text(RIGHT + 14, y + 21, "cluster.json, profiles", "title")
    picture.text(RIGHT + 14, y + 39, "devices, nodes, links, measured times", "small")
    top = y + 50

    # 1. Model, and the planner beside it.
    y = draw_step(picture, top, [("poplar import", "pass")])
    picture.arrow((RIGHT + 28, top), (RIGHT + 28, y))
    model = y
    y = draw_level(picture, y, 1, "model", "nn: forward only")
    picture.arrow((LEFT + BOX, model + 25), (RIGHT, model + 25))
    picture.text((LEFT + BOX + RIGHT) / 2, model + 18, "sizes, costs", "small", "middle")
    rooms = source.list_folders(root / "lib" / "Planner")
    lines = [
        small("who computes what: batches, ZeRO stage,"),
        small("shards, pipeline stages"),
        (style_flags(planning), MONO),
    ]
    if rooms:
        lines.append(small(*rooms))
    planner = draw_panel(picture, model, "Planner (lib/Planner, no MLIR)", lines)

    # 2. The plan comes back into the module.
    plan = max(planner - 14, y + 16)
    picture.arrow((RIGHT, plan), (LEFT + 28, plan))
    picture.text((LEFT + BOX + RIGHT) / 2, plan - 7, "zero.plan", "pass", "middle")
    picture.parts.append(
        f'<path class="line" style="marker-end:none" '
        f'd="M{LEFT + 28} {y}L{LEFT + 28} {plan:g}"/>'
    )
    y = draw_step(picture, plan, style_flags(*get_flags(steps[0], passes)))
    y = draw_level(picture, y, 2, *LEVELS[0][:2])

    # 3. The simulator reads the scheduled programs.
    y = draw_step(picture, y, style_flags(*get_flags(steps[1], passes)), planner + 40)
    zero = y
    y = draw_level(picture, y, 3, *LEVELS[1][:2])
    picture.arrow((LEFT + BOX, zero + 25), (RIGHT, zero + 25))
    picture.text((LEFT + BOX + RIGHT) / 2, zero + 18, "schedules", "small", "middle")
    simulator = source.find_source("Simulator.h", root)
    picture.arrow((RIGHT + PANEL - 60, planner), (RIGHT + PANEL - 60, zero))
    picture.arrow((RIGHT + PANEL - 40, zero), (RIGHT + PANEL - 40, planner))
    picture.text(
        RIGHT + PANEL - 70, (planner + zero) / 2 + 4, "plans to try, seconds", "small", "end"
    )
    bottom = draw_panel(
        picture,
        zero,
        "Simulator",
        [
            small("an iteration, event by event"),
            small(str(simulator)),
        ],
    )

    # 4 and 5. Kernels and memory.
    y = draw_step(picture, y, style_flags(*get_flags(steps[2], passes)))
    y = draw_level(picture, y, 4, *LEVELS[2][:2])
    y = draw_step(picture, y, style_flags(*get_flags(steps[3], passes)), bottom + 20)
    memory = y
    y = draw_level(picture, y, 5, *LEVELS[3][:2])
    picture.arrow((LEFT + BOX, memory + 25), (RIGHT, memory + 25))
    picture.text((LEFT + BOX + RIGHT) / 2, memory + 18, "kernels", "small", "middle")
    image = draw_panel(
        picture,
        memory,
        "Image for a GPU: PTX or cubin",
        [(style_flags(*get_flags(gpu, passes)), MONO)],
    )

    # 6. The executable and its runtime.
    y = draw_step(
        picture, y, style_flags(*get_flags(steps[4], passes)), image + 30
    )
    executable = y
    y = draw_level(picture, y, 6, *LEVELS[4][:2], kind="end")
    picture.arrow(
        (RIGHT + 28, image),
        (RIGHT + 28, executable - 10),
        (LEFT + BOX - 30, executable - 10),
        (LEFT + BOX - 30, executable),
    )
    picture.arrow((RIGHT, executable + 25), (LEFT + BOX, executable + 25))
    picture.text((LEFT + BOX + RIGHT) / 2, executable + 18, "linked; ABI.h", "small", "middle")
    draw_panel(
        picture,
        executable,
        "Runtime (runtime/, no LLVM)",
        [
            small("training loop, optimizer state, checkpoints,"),
            small("collectives, devices"),
            ([(name, "pass") for name in source.list_folders(root / "runtime")], MONO),
        ],
    )
    if unused:
        picture.text(LEFT, y + 28, "by poplar-opt alone:", "small")
        picture.flow(LEFT, y + 28 + LINE, RIGHT - LEFT - 20, style_flags(unused))
    return picture.write()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the picture is stale"
    )
    parser.add_argument(
        "--output", default=OUTPUT, help="the file (default: docs/architecture.svg)"
    )
    arguments = parser.parse_args()
    picture = draw()
    if not arguments.check:
        with open(arguments.output, "w") as file:
            file.write(picture)
        return
    with open(arguments.output) as file:
        if file.read() != picture:
            sys.exit(
                f"draw-architecture: error: {arguments.output} is not what the sources "
                "say; run scripts/draw-architecture.py"
            )


if __name__ == "__main__":
    main()
