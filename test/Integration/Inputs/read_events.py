# ===- read_events.py - Do the event files say what metrics.csv says? ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: read_events.py RUN

Reads RUN/events.out.tfevents.* by the definitions of TFRecord and of Event, and
checks every length and sum. Steps from where a later file begins are dropped.
What is left must be what metrics.csv holds. Where the package tensorboard is
installed, what it reads is compared as well."""

import csv
import glob
import struct
import sys

TAGS = {
    "train/loss": "loss",
    "eval/loss": "val_loss",
    "train/learning_rate": "lr",
    "train/grad_norm": "grad_norm",
    "train/tokens_per_second": "tokens_per_s",
    "train/epoch": "epoch",
}


def crc32c(data):
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def check_sum(data, expected):
    plain = crc32c(data)
    masked = ((plain >> 15 | plain << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
    if struct.unpack("<I", expected) != (masked,):
        sys.exit("error: a checksum is wrong")


def read_records(path):
    with open(path, "rb") as file:
        data = file.read()
    place = 0
    while place < len(data):
        head = data[place : place + 8]
        check_sum(head, data[place + 8 : place + 12])
        place += 12
        end = place + struct.unpack("<Q", head)[0]
        check_sum(data[place:end], data[end : end + 4])
        yield data[place:end]
        place = end + 4


def read_varint(data, place):
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def read_fields(data):
    """Numbers and values of a message of Protocol Buffers."""
    place = 0
    while place < len(data):
        key, place = read_varint(data, place)
        if key & 7 == 0:
            value, place = read_varint(data, place)
        elif key & 7 == 1:
            value, place = struct.unpack_from("<d", data, place)[0], place + 8
        elif key & 7 == 5:
            value, place = struct.unpack_from("<f", data, place)[0], place + 4
        else:
            size, place = read_varint(data, place)
            value, place = data[place : place + size], place + size
        yield key >> 3, value


def read_run(run):
    """Values by tag and step."""
    values = {tag: {} for tag in TAGS}
    for path in sorted(glob.glob(f"{run}/events.out.tfevents.*")):
        for index, record in enumerate(read_records(path)):
            fields = dict(read_fields(record))
            if not fields[1] > 1e9:
                sys.exit(f"error: {path}: an event without a time")
            if index == 0 and fields[3] != b"brain.Event:2":
                sys.exit(f"error: {path}: does not begin with its version")
            if 7 in fields and dict(read_fields(fields[7])) == {1: 1}:
                for steps in values.values():
                    for step in [s for s in steps if s >= fields[2]]:
                        del steps[step]
            for _, value in read_fields(fields.get(5, b"")):
                entry = dict(read_fields(value))
                values[entry[1].decode()][fields[2]] = entry[2]
    return values


def read_with_tensorboard(run):
    try:
        from tensorboard.backend.event_processing import event_accumulator
    except ImportError:
        return None
    events = event_accumulator.EventAccumulator(
        run, size_guidance={event_accumulator.SCALARS: 0}
    )
    events.Reload()
    return {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in TAGS}


def main():
    run = sys.argv[1]
    with open(f"{run}/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    read = {"events": read_run(run), "tensorboard": read_with_tensorboard(run)}
    for reader, values in read.items():
        if values is None:
            continue
        for tag, column in TAGS.items():
            expected = {int(r["step"]): float(r[column]) for r in rows if r[column]}
            found = values[tag]
            if found.keys() != expected.keys():
                sys.exit(
                    f"error: {reader}: {tag} has steps {sorted(found)}, "
                    f"expected {sorted(expected)}"
                )
            for step, value in expected.items():
                if abs(found[step] - value) > 1e-3 * abs(value) + 1e-12:
                    sys.exit(f"error: {reader}: {tag} of step {step}")
    files = len(glob.glob(f"{run}/events.out.tfevents.*"))
    print(f"{len(rows)} steps in {files} files")


main()
