# ===- damage.py - Copy a checkpoint and damage one of its files -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: damage.py FROM TO FILE ACTION...

Copies checkpoint FROM to TO, replacing TO, and in TO's FILE does one of:
  cut N          keep the first N bytes (negative: drop the last -N)
  size           make the size of the header all ones
  replace A B    replace the first A by B
  remove         remove the file"""

import os
import shutil
import sys


def main():
    source, target, file, action, *arguments = sys.argv[1:]
    shutil.rmtree(os.path.dirname(target), ignore_errors=True)
    shutil.copytree(source, target)
    path = os.path.join(target, file)
    if action == "remove":
        os.remove(path)
        return
    with open(path, "rb") as stream:
        content = stream.read()
    if action == "cut":
        damaged = content[: int(arguments[0])]
    elif action == "size":
        damaged = b"\xff" * 8 + content[8:]
    else:
        old, new = (argument.encode() for argument in arguments)
        damaged = content.replace(old, new, 1)
    if damaged == content:
        sys.exit(f"error: nothing changed in {path}")
    with open(path, "wb") as stream:
        stream.write(damaged)


main()
