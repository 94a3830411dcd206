# ===- sass.py - What a cubin says of its kernels ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads a cubin without a disassembler: registers and shared memory of each kernel,
and the instructions and branches of its main loop.

A cubin is an ELF file with a section .text.KERNEL for each kernel; registers are an
attribute in .nv.info. From sm_70 on, an instruction has 16 bytes, with its operation in
the lowest 12 bits. The distance of a relative branch from the next instruction is in
bits 34 to 81, in units of four bytes; from sm_90 on, its lowest 8 bits are bits 16 to 23
and those are the others. NVIDIA does not document that; nvdisasm prints the same targets
for sm_75 to sm_120."""

import os
import shutil
import struct
import subprocess
from collections import namedtuple

# What the assembler makes of a kernel. `loop` is (instructions, branches), or None
# if there is no loop.
Code = namedtuple("Code", "registers shared_bytes instructions loop")

# Branches by each thread's predicate, and by one of the warp.
BRANCHES, NOP = (0x947, 0x547), 0x918
# EIATTR_REGCOUNT, whose value has a size in front (EIFMT_SVAL).
REGISTERS, SIZED = 0x2F, 4


def find_ptxas():
    """The assembler that `poplar build` finds, or None."""
    return shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")


def assemble(ptx, chip):
    """{kernel: Code} of a file of PTX; empty without a ptxas that knows the chip."""
    ptxas, cubin = find_ptxas(), ptx + ".cubin"
    if not ptxas:
        return {}
    command = [ptxas, "-O3", f"-arch={chip}", ptx, "-o", cubin]
    if subprocess.run(command, capture_output=True).returncode:
        return {}
    with open(cubin, "rb") as file:
        code = read_cubin(file.read(), int(chip[3:]))
    os.remove(cubin)
    return code


def read_text(data, place):
    return data[place : data.index(b"\0", place)].decode()


def read_sections(data):
    """{name: (offset, size)} of the sections of an ELF file of 64 bits."""
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    return {read_text(data, headers[names][4] + h[0]): (h[4], h[5]) for h in headers}


def read_registers(data, sections):
    """{kernel: registers of a thread}."""
    symbols, names = sections[".symtab"][0], sections[".strtab"][0]
    offset, size = sections[".nv.info"]
    registers, place = {}, offset
    while place < offset + size:
        form, attribute, length = struct.unpack_from("<BBH", data, place)
        if (form, attribute) == (SIZED, REGISTERS):
            symbol, count = struct.unpack_from("<II", data, place + 4)
            (name,) = struct.unpack_from("<I", data, symbols + 24 * symbol)
            registers[read_text(data, names + name)] = count
        place += 4 + (length if form == SIZED else 0)
    return registers


def read_cubin(data, capability):
    sections = read_sections(data)
    kernels = {}
    for name, registers in read_registers(data, sections).items():
        offset, size = sections[".text." + name]
        shared = sections.get(".nv.shared." + name, (0, 0))[1]
        kernels[name] = Code(registers, shared, *read_code(data[offset : offset + size], capability))
    return kernels


def find_target(word, index, capability):
    """The number of the instruction to which the one at `index` jumps."""
    distance = word >> 34 & (1 << 48) - 1
    distance -= (distance >> 47) << 48
    if capability >= 90:
        distance = distance << 8 | word >> 16 & 0xFF
    return index + 1 + distance // 4


def read_code(text, capability):
    """Instructions of a kernel, and those of its main loop."""
    words = [int.from_bytes(text[at : at + 16], "little") for at in range(0, len(text), 16)]
    branches = {
        index: find_target(word, index, capability)
        for index, word in enumerate(words)
        if word & 0xFFF in BRANCHES
    }
    # An endless loop and NOPs follow the last instruction.
    loops = [(target, index) for index, target in branches.items() if target < index]
    total = sum(word & 0xFFF != NOP for word in words) - 1
    main = find_main_loop(loops)
    if not main:
        return total, None
    first, last = main
    return total, (last + 1 - first, sum(first <= at <= last for at in branches))


def find_main_loop(loops):
    """The longest of the loops, each (first, last), that are no more than half loops
    within them; None if there is none."""
    def within(loop):
        inner = [o for o in loops if o != loop and loop[0] <= o[0] and o[1] <= loop[1]]
        return max((last + 1 - first for first, last in inner), default=0)

    main = [loop for loop in loops if within(loop) <= (loop[1] + 1 - loop[0]) / 2]
    return max(main, key=lambda loop: loop[1] - loop[0], default=None)
