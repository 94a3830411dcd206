# ===- ptx.py - What a thread of a kernel executes --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Counts what one thread of a PTX kernel executes: instructions, branches, bytes
of global memory, tensor core instructions.

Kernels loop over indices, which depend on the thread, the block and the kernel's
parameters. So only those instructions are computed that a branch depends on; all
others are counted. A value that is read from memory is a number below `Kernel.ids`
that depends on its address: it stands for the ids of tokens and of experts."""

import re
from collections import Counter, namedtuple

from sass import find_main_loop

Executed = namedtuple("Executed", "instructions branches bytes rounds matrix")
# Basic blocks of a thread. One that waits for data would go on forever.
MOST_BLOCKS = 200_000
WIDTH = re.compile(r"[busf](8|16|32|64)$")


class Instruction:
    def __init__(self, line):
        guard, text = re.match(r"(?:@(!?%\w+)\s+)?(.*?);?$", line).groups()
        self.guard = guard
        opcode, _, rest = text.partition(" ")
        opcode, _, more = opcode.partition("\t")
        self.opcode = opcode.split(".")
        self.name = self.opcode[0]
        self.operands = split_operands(more + rest)

    @property
    def type(self):
        return self.opcode[-1]

    def results(self):
        if self.name in ("st", "red", "bra", "ret", "cp", "bar") and "red" not in self.opcode[1:]:
            return []
        return re.findall(r"%\w+", self.operands[0]) if self.operands else []

    def sources(self):
        first = 1 if self.results() else 0
        found = re.findall(r"%[\w.]+", " ".join(self.operands[first:]))
        return found + ([self.guard.lstrip("!")] if self.guard else [])

    def global_bytes(self):
        if self.name == "cp" and "global" in self.opcode:
            return int(self.operands[2])
        if self.name not in ("ld", "st", "red", "atom") or "global" not in self.opcode:
            return 0
        vector = next((int(w[1:]) for w in self.opcode if re.match(r"v[248]$", w)), 1)
        return vector * int(WIDTH.match(self.type)[1]) // 8


def split_operands(text):
    parts, depth = [""], 0
    for letter in text.strip():
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def read_kernels(text):
    """The kernels of a PTX module by their names."""
    kernels = {}
    for found in re.finditer(r"\.entry (\w+)\((.*?)\n?\)(.*?)\n\{(.*?)\n\}", text, re.S):
        name, parameters, _, body = found.groups()
        kernels[name] = Kernel(name, parameters, body)
    return kernels


class Kernel:
    def __init__(self, name, parameters, body):
        self.name = name
        self.ids = 64
        self.parameters, place = {}, 0
        for declared in re.findall(r"\.param [^,\n]*?(\w+(?:\[\d+\])?),?$", parameters, re.M):
            stem, _, size = declared.partition("[")
            self.parameters[stem] = place
            place += int(size.rstrip("]")) if size else 8
        self.read_blocks(body)
        self.find_needed()
        self.compiled = [self.compile_block(block) for block in range(len(self.blocks))]

    def read_blocks(self, body):
        self.blocks, self.labels = [[]], {}
        for line in body.split("\n"):
            line = line.split("//")[0].strip()
            if not line or line[0] == "." or line in "{}":
                continue
            if line.endswith(":"):
                self.blocks.append([])
                self.labels[line[:-1]] = len(self.blocks) - 1
                continue
            # Some instructions with a register of their own, between braces.
            for part in line.strip("{}").split(";") if line[0] == "{" else [line]:
                part = part.strip()
                if not part or part[0] == ".":
                    continue
                instruction = Instruction(part)
                self.blocks[-1].append(instruction)
                if instruction.name in ("bra", "ret", "exit"):
                    self.blocks.append([])
        self.instructions = [i for block in self.blocks for i in block]

    def find_needed(self):
        """Registers on which branches depend, and those that differ by thread."""
        definitions = {}
        for instruction in self.instructions:
            for register in instruction.results():
                definitions.setdefault(register, []).append(instruction)
        work = [r for i in self.instructions if i.name in ("bra", "ret") for r in i.sources()]
        self.needed = set()
        while work:
            register = work.pop()
            if register not in self.needed:
                self.needed.add(register)
                work += [s for i in definitions.get(register, []) for s in i.sources()]
        self.varying, size = {"%tid.x", "%laneid"}, 0
        while size != len(self.varying):
            size = len(self.varying)
            for instruction in self.instructions:
                if not self.varying.isdisjoint(instruction.sources()):
                    self.varying.update(instruction.results())

    def count_block(self, block):
        """What is counted each time that a block is executed."""
        count, rounds = Counter(), 0
        for instruction in self.blocks[block]:
            count["instructions"] += 1
            count["branches"] += instruction.name == "bra"
            count["matrix"] += instruction.name == "mma"
            if size := instruction.global_bytes():
                # A warp whose threads read one address reads one sector of it.
                place = re.findall(r"%[\w.]+", " ".join(instruction.operands))
                varies = not self.varying.isdisjoint(place)
                count["bytes"] += size if varies else size / 32
                rounds |= instruction.name == "ld"
        count["rounds"] = int(rounds)
        return Executed(*(count[field] for field in Executed._fields))

    def compile_block(self, block):
        """A function of the registers that computes what branches need, and returns
        the next block."""
        lines = []
        for instruction in self.blocks[block]:
            guard = ""
            if instruction.guard:
                sign = "not " if instruction.guard[0] == "!" else ""
                guard = f"if {sign}R['{instruction.guard.lstrip('!')}']: "
            if instruction.name == "bra":
                lines.append(f"{guard}return {self.labels[instruction.operands[0]]}")
            elif instruction.name in ("ret", "exit"):
                lines.append(f"{guard}return -1")
            elif not self.needed.isdisjoint(instruction.results()):
                lines += [guard + line for line in self.compute(instruction)]
        lines.append(f"return {block + 1 if block + 1 < len(self.blocks) else -1}")
        scope = {"helper": self}
        exec(f"def run(R):\n " + "\n ".join(lines), scope)  # noqa: S102
        return scope["run"]

    def value(self, operand):
        if operand.startswith("%"):
            return f"R['{operand}']"
        if operand.startswith(("0f", "0d")):
            return "1.0"
        if operand in self.parameters:
            return str(self.parameters[operand])
        if re.match(r"-?\d", operand):
            return str(int(operand, 0))
        return "0"  # a variable in shared or constant memory

    def compute(self, instruction):
        name, kind, operands = instruction.name, instruction.type, instruction.operands
        values = [self.value(operand) for operand in operands]
        width = int(WIDTH.match(kind)[1]) if WIDTH.match(kind) else 1
        mask = (1 << width) - 1
        signed = lambda text: f"helper.sign({text}, {width})" if kind[0] == "s" else text  # noqa: E731
        result = None
        if name == "ld":
            base, _, offset = operands[1].strip("[]").partition("+")
            place = f"{self.value(base)} + {int(offset or 0)}"
            if "param" in instruction.opcode:
                result = f"R['param'][({place}) // 8] & {mask}"
            else:
                result = f"(({place}) * 2654435761 >> 7) % helper.ids"
            registers = instruction.results()
            return [f"R['{register}'] = {result}" for register in registers]
        if name == "mov" and operands[0][0] == "{":
            parts = instruction.results()
            part = width // len(parts)
            return [f"R['{r}'] = helper.whole({values[1]}) >> {i * part} & {(1 << part) - 1}"
                    for i, r in enumerate(parts)]  # fmt: skip
        if name == "mov" and operands[1][0] == "{":
            parts = re.findall(r"%\w+", operands[1])
            part = width // len(parts)
            result = " | ".join(f"helper.whole(R['{r}']) << {i * part}" for i, r in enumerate(parts))
        elif name in ("mov", "cvta"):
            result = values[1]
        elif kind in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2") and name != "setp":
            result = "1.0"
        elif name == "setp":
            signs = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
                     "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
            how = instruction.opcode[1]
            if kind[0] == "f" or kind == "bf16":
                result = "False"
            else:
                a, b = (signed(f"helper.whole({v}) & {mask}") for v in values[1:3])
                result = f"{a} {signs[how]} {b}"
        elif name == "selp":
            result = f"{values[1]} if {values[3]} else {values[2]}"
        elif name == "cvt":
            source = instruction.opcode[-1]
            if source[0] in "fb" and source not in ("b8", "b16", "b32", "b64"):
                result = "1"
            else:
                wide = int(WIDTH.match(source)[1])
                text = f"helper.whole({values[1]}) & {(1 << wide) - 1}"
                to = instruction.opcode[-2]
                if to[0] == "f" or to == "bf16":
                    result = "1.0"
                else:
                    text = f"helper.sign({text}, {wide})" if source[0] == "s" else text
                    result = f"({text}) & {(1 << int(WIDTH.match(to)[1])) - 1}"
        elif name in ("and", "or", "xor", "not") and kind == "pred":
            sign = {"and": "and", "or": "or", "xor": "!="}.get(name)
            result = f"not {values[1]}" if name == "not" else f"bool({values[1]}) {sign} bool({values[2]})"
        elif name == "shfl":
            result = values[1]
        elif name == "vote":
            result = f"0xFFFFFFFF if {values[1]} else 0"
        elif name in ("bar", "barrier"):
            # Whether any thread of the block has it: of as many as there are ids, one has.
            result = f"bool({values[-1]}) or R['%ntid.x'] * R['%ntid.y'] >= helper.ids"
        else:
            result = self.integer(instruction, values, width, signed)
        registers = instruction.results()
        lines = [f"R['{registers[0]}'] = {result}"]
        return lines + [f"R['{register}'] = True" for register in registers[1:]]

    def integer(self, instruction, values, width, signed):
        name, mask = instruction.name, (1 << width) - 1
        plain = [f"(helper.whole({v}) & {mask})" for v in values]
        x = [signed(v) for v in plain]
        if name in ("mul", "mad") and "wide" in instruction.opcode:
            more = f" + {values[3]}" if name == "mad" else ""
            return f"({x[1]} * {x[2]}{more}) & {(1 << 2 * width) - 1}"
        if name in ("mul", "mad") and "hi" in instruction.opcode:
            return f"({x[1]} * {x[2]} >> {width}) & {mask}"
        texts = {
            "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}",
            "mad": "{0} * {1} + {2}", "div": "helper.divide({0}, {1})",
            "rem": "{0} - {1} * helper.divide({0}, {1})", "and": "{0} & {1}",
            "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}", "neg": "-{0}",
            "min": "min({0}, {1})", "max": "max({0}, {1})", "abs": "abs({0})",
            "shl": "{0} << min({1}, 64)", "shr": "{0} >> min({1}, 64)",
            "bfe": "{0} >> {1} & (1 << {2}) - 1", "popc": "bin({0}).count('1')",
            "clz": "64 - len(bin({0}))", "prmt": "{0}", "brev": "{0}",
            "atom": "0", "ldmatrix": "0", "mma": "0", "dp4a": "0", "lop3": "{0}",
        }  # fmt: skip
        return f"({texts[name].format(*x[1:])}) & {mask}"

    @staticmethod
    def sign(value, width):
        return value - (1 << width) if value >> (width - 1) & 1 else value

    @staticmethod
    def whole(value):
        """Bits of a register; floats are all one."""
        return 0x3F800000 if isinstance(value, float) else int(value)

    @staticmethod
    def divide(a, b):
        quotient = abs(a) // max(1, abs(b))
        return quotient if (a < 0) == (b < 0) else -quotient

    def execute(self, block, thread, sizes, parameters):
        """What a thread executes. `sizes` are those of its block."""
        registers = dict.fromkeys((r for i in self.instructions for r in i.results()), 0)
        registers.update({
            "param": parameters, "%ctaid.x": block, "%ctaid.y": 0, "%ctaid.z": 0,
            "%tid.x": thread % sizes[0], "%tid.y": thread // sizes[0] % sizes[1],
            "%tid.z": thread // (sizes[0] * sizes[1]), "%laneid": thread % 32,
            "%ntid.x": sizes[0], "%ntid.y": sizes[1], "%ntid.z": sizes[2],
        })  # fmt: skip
        visits, now, steps = [0] * len(self.blocks), 0, 0
        while now >= 0 and steps < MOST_BLOCKS:
            visits[now] += 1
            steps += 1
            now = self.compiled[now](registers)
        totals = [0.0] * len(Executed._fields)
        for index, count in enumerate(visits):
            if count:
                for field, amount in enumerate(self.count_block(index)):
                    totals[field] += count * amount
        return Executed(*totals)

    def sample(self, grid, sizes, parameters, count=5):
        """The mean over threads in all parts of a block, the first among them, each of
        a block in another part of the grid."""
        threads = sizes[0] * sizes[1] * sizes[2]
        runs = [
            self.execute((2 * i + 1) * grid // (2 * count), i * threads // count, sizes, parameters)
            for i in range(count)
        ]
        return Executed(*(sum(field) / len(runs) for field in zip(*runs)))

    def find_loop(self):
        """Instructions and branches of the main loop; None without a loop."""
        loops, starts = [], [0]
        for block in self.blocks:
            starts.append(starts[-1] + len(block))
        for index, block in enumerate(self.blocks):
            for instruction in block:
                if instruction.name == "bra" and self.labels[instruction.operands[0]] <= index:
                    loops.append((starts[self.labels[instruction.operands[0]]], starts[index + 1] - 1))
        main = find_main_loop(loops)
        if not main:
            return None
        body = self.instructions[main[0] : main[1] + 1]
        return len(body), sum(i.name == "bra" for i in body)
