#!/usr/bin/env python3
# ===- check_wheel.py - What a wheel holds ---------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_wheel.py WHEEL

Checks a wheel of build-wheel.sh: its name, its record (PEP 427), its metadata, the
licences of what it bundles, its programs, and that it is smaller than 100 MB."""

import base64
import csv
import hashlib
import io
import os
import re
import sys
import zipfile

LARGEST_BYTES = 100_000_000
EXECUTABLE = [
    "poplar/bin/poplar", "poplar/lib/poplar/runtime-host", "poplar/lib/poplar/runtime-cuda",
    "poplar/share/poplar/scripts/start-ranks.py",
]  # fmt: skip
FILES = [
    "poplar/__init__.py", "poplar/lib/poplar/kernels.bc", "poplar/lib/poplar/kernels-nvptx.bc",
    "poplar/lib/libpoplar_tcp.so", "poplar/lib/poplar/libraries/libdnnl.so.2",
    "poplar/share/poplar/examples/chat/config.json",
]  # fmt: skip


def check(path):
    name = os.path.basename(path)
    found = re.fullmatch(r"poplar-([\d.]+)-(py3-none-manylinux_2_\d+_x86_64)\.whl", name)
    assert found, f"{name} is no name of a wheel of Poplar"
    version, tag = found.groups()
    size = os.path.getsize(path)
    assert size < LARGEST_BYTES, f"{size} bytes, {LARGEST_BYTES} at most"
    info = f"poplar-{version}.dist-info"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert len(names) == len(set(names)), "a file is there twice"
        rows = list(csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode())))
        assert sorted(row[0] for row in rows) == sorted(names), "RECORD lists other files"
        for file, digest, length in rows:
            if file == f"{info}/RECORD":
                continue
            contents = wheel.read(file)
            expected = base64.urlsafe_b64encode(hashlib.sha256(contents).digest())
            assert digest == "sha256=" + expected.rstrip(b"=").decode(), f"RECORD: {file}"
            assert int(length) == len(contents), f"RECORD: {file}"
        metadata = wheel.read(f"{info}/METADATA").decode()
        assert f"Name: poplar\nVersion: {version}\n" in metadata, metadata[:200]
        for licence in re.findall("^License-File: (.*)$", metadata, re.MULTILINE):
            assert wheel.read(f"{info}/licenses/{licence}"), licence
        assert f"Tag: {tag}\n" in wheel.read(f"{info}/WHEEL").decode(), "WHEEL: the tag"
        for file in FILES + EXECUTABLE:
            assert file in names, f"there is no {file}"
        for file in EXECUTABLE:
            mode = wheel.getinfo(file).external_attr >> 16
            assert mode & 0o111 == 0o111, f"{file} has mode {mode:o}"
        for file in names:
            library = os.path.basename(file)
            assert not re.match(r"lib(LLVM|MLIR|cuda|nccl|mpi|c\.so)", library), f"{file} is bundled"


if __name__ == "__main__":
    try:
        check(sys.argv[1])
    except (AssertionError, KeyError) as error:
        sys.exit(f"check_wheel: error: {sys.argv[1]}: {error}")
    print(f"check_wheel: {sys.argv[1]}: sound")
