#!/usr/bin/env python3
# ===- cuda_libraries.py - Where CUDA's libraries are -----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints the directories that hold CUDA's libraries on this machine, separated
by colons, for POPLAR_CUDA_PATH:

  export POPLAR_CUDA_PATH=$(scripts/cuda_libraries.py)

Looks in Python's wheels (site-packages/nvidia/*/lib and site-packages/torch/lib
of this python3, of the active environment, and of the `python3` and `python` in
PATH), then in /usr/local/cuda*/lib64. What is in POPLAR_CUDA_PATH already stays
in front. Standard library only."""

import glob
import json
import os
import re
import shutil
import site
import subprocess
import sys

# The libraries that Poplar or its checks load, without their versions.
NAMES = ("libcublasLt.so", "libnccl.so", "libcudnn.so")
LIST_PATH = "import json, site, sys; print(json.dumps(sys.path + [site.getusersitepackages()]))"


def ask_python(interpreter):
    """sys.path of another interpreter; empty if it does not answer."""
    try:
        text = subprocess.run(
            [interpreter, "-c", LIST_PATH], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout  # fmt: skip
        return json.loads(text)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def site_directories():
    """Directories with Python packages, without repetitions, in order."""
    found = list(sys.path)
    try:
        found += site.getsitepackages() + [site.getusersitepackages()]
    except AttributeError:  # an old virtualenv's site
        pass
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        root = os.environ.get(variable)
        if root:
            found += sorted(glob.glob(os.path.join(root, "lib", "python3*", "site-packages")))
    own = os.path.realpath(sys.executable or "")
    for name in ("python3", "python"):
        other = shutil.which(name)
        # An environment's interpreter is a link to the one it was made from.
        if other and (other != sys.executable or os.path.realpath(other) != own):
            found += ask_python(other)
    return list(dict.fromkeys(d for d in found if d and os.path.isdir(d)))


def newest(directory):
    """(names of libraries in a directory, its highest version)."""
    names, version = set(), 0
    for name in NAMES:
        for file in glob.glob(os.path.join(glob.escape(directory), name + ".*")):
            number = re.fullmatch(re.escape(name) + r"\.(\d+)", os.path.basename(file))
            if number:
                names.add(name)
                version = max(version, int(number[1]))
    return names, version


def find_directories():
    """Directories that hold at least one of the libraries."""
    found = [d for d in os.environ.get("POPLAR_CUDA_PATH", "").split(":") if d]
    for place in site_directories():
        pattern = os.path.join(glob.escape(place), "nvidia", "*", "lib")
        candidates = [d for d in glob.glob(pattern) if newest(d)[0]]
        # CUDA 13's cuBLASLt before CUDA 12's, where both are installed.
        found += sorted(candidates, key=lambda d: (-newest(d)[1], d))
        bundled = os.path.join(place, "torch", "lib")
        if newest(bundled)[0]:
            found.append(bundled)
    toolkits = ["/usr/local/cuda/lib64"]
    toolkits += sorted(glob.glob("/usr/local/cuda-*/lib64"), reverse=True)
    found += [d for d in toolkits if newest(d)[0]]
    # /usr/local/cuda is a link to one of the others.
    return list({os.path.realpath(d): d for d in reversed(found)}.values())[::-1]


if __name__ == "__main__":
    print(":".join(find_directories()))
