"""Saves the one encoded text of a cache as a .npy of 16-bit ids."""

import pathlib
import struct
import sys

(ids,) = pathlib.Path(sys.argv[1]).glob("*.ids")
data = ids.read_bytes()
header = f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({len(data) // 2},), }}"
header += " " * (-(len(header) + 11) % 64) + "\n"
pathlib.Path(sys.argv[2]).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
