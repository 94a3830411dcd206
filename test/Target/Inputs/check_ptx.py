# ===- check_ptx.py - PTX of all kernels of a model, assembled -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_ptx.py PLANNED_MLIR DIRECTORY CHIP...

For each chip: the kernels of a planned module become PTX for that chip, without
anything left to be linked; ptxas, where it knows the chip, assembles them
without spilling a register. Prints what each needs."""

import os
import re
import subprocess
import sys


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def is_known(chip):
    """Whether ptxas assembles for a chip."""
    command = ["ptxas", f"-arch={chip}", os.devnull, "-o", os.devnull]
    result = subprocess.run(command, capture_output=True, text=True)
    return "is not defined for option" not in result.stdout + result.stderr


def check(module, directory, chip):
    path = os.path.join(directory, chip + ".ptx")
    run(
        "poplar-opt", module, f"--poplar-lower-gpu=chip={chip}",
        f"--emit-gpu-assembly=chip={chip} output={path}", "-o", os.devnull,
    )  # fmt: skip
    with open(path) as file:
        text = file.read()
    kernels = re.findall(r"\.visible \.entry (\w+)", text)
    if f".target {chip}\n" not in text or ".extern" in text or not kernels:
        sys.exit(f"error: {path}: {len(kernels)} kernels, or not for {chip}, or open")
    if "ld.global.v4" not in text or "st.global.v4" not in text:
        sys.exit(f"error: {path}: no access of 16 bytes")
    if not is_known(chip):
        print(f"{chip}: {len(kernels)} kernels; ptxas does not know this chip")
        return
    report = run("ptxas", "-v", f"-arch={chip}", path, "-o", path + ".cubin")
    used = dict(
        re.findall(r"entry function '(\w+)'.*?\n.*?Used (\d+) registers", report, re.S)
    )
    spills = [int(n) for n in re.findall(r"(\d+) bytes spill stores", report)]
    if set(used) != set(kernels) or len(spills) < len(kernels):
        sys.exit(f"error: ptxas speaks of other kernels\n{report}")
    print(
        f"{chip}: {len(kernels)} kernels, at most {max(map(int, used.values()))} "
        f"registers, {sum(spills)} bytes spilt"
    )
    if any(spills):
        sys.exit(f"error: registers are spilt\n{report}")


def main():
    module, directory, chips = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.makedirs(directory, exist_ok=True)
    for chip in chips:
        check(module, directory, chip)


main()
