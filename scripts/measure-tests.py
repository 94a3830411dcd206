#!/usr/bin/env python3
# ===- measure-tests.py - Processor seconds of every test ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs the entries of CTest and prints the processor seconds of each, with all
processes that it started, the longest first. Unlike elapsed time, they hardly
depend on what else the machine does.

With --write, those of lit's entries go to test/durations.txt, from which CTest
takes the order and the limits of tests."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DURATIONS = os.path.join(SOURCES, "test", "durations.txt")
LIT = re.compile(r"(lit|roundtrip|avx2)\.[A-Z][a-z]+(\.|$)|avx2$")


def read_entries(build):
    """[{"name", "command", "environment", "directory"}] of CTest."""
    listing = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    entries = []
    for test in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        entries.append(
            {
                "name": test["name"],
                "command": test["command"],
                "environment": dict(
                    text.split("=", 1) for text in properties.get("ENVIRONMENT", [])
                ),
                "directory": properties.get("WORKING_DIRECTORY", build),
                "serial": properties.get("RUN_SERIAL", False),
            }
        )
    return entries


# What measures one entry: a process of its own, whose only children are the
# entry's.
CHILD = """
import resource, subprocess, sys, time
start = time.monotonic()
status = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, used.ru_utime + used.ru_stime, time.monotonic() - start)
"""


def measure(entry):
    """Exit status, processor seconds, elapsed seconds."""
    output = subprocess.run(
        [sys.executable, "-c", CHILD, *entry["command"]],
        check=True,
        capture_output=True,
        text=True,
        cwd=entry["directory"],
        env={**os.environ, **entry["environment"]},
    ).stdout
    status, used, elapsed = output.split()
    return int(status), float(used), float(elapsed)


def write_durations(results):
    """Replaces the measured entries in test/durations.txt, keeps the others."""
    durations = {}
    with open(DURATIONS) as file:
        for line in file:
            name, seconds = line.split()
            durations[name] = int(seconds)
    for name, (_, used, _) in results.items():
        if LIT.match(name):
            durations[name] = max(1, round(used))
    with open(DURATIONS, "w") as file:
        for name, seconds in sorted(durations.items()):
            file.write(f"{name} {seconds}\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: scripts/measure-tests.py -R 'lit\\.Integration' --write",
    )
    parser.add_argument("--build", default=os.path.join(SOURCES, "build", "release"))
    parser.add_argument("-R", default="", help="entries whose names match (default: all)")
    parser.add_argument("-E", default="(?!)", help="entries to leave out (default: none)")
    parser.add_argument("-j", type=int, default=1, help="at a time (default: 1)")
    parser.add_argument("--top", type=int, default=40, help="rows printed (default: 40)")
    parser.add_argument("--write", action="store_true", help="to test/durations.txt")
    arguments = parser.parse_args()

    entries = [
        entry
        for entry in read_entries(arguments.build)
        if re.search(arguments.R, entry["name"])
        and not re.search(arguments.E, entry["name"])
    ]
    start, results = time.monotonic(), {}

    def run(entry):
        results[entry["name"]] = result = measure(entry)
        status, used, elapsed = result
        print(
            f"{len(results)} of {len(entries)}: {entry['name']}: {used:.1f} s of "
            f"processor time, {elapsed:.1f} s{', status %d' % status if status else ''}",
            flush=True,
        )

    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        list(pool.map(run, [entry for entry in entries if not entry["serial"]]))
    for entry in entries:
        if entry["serial"]:
            run(entry)

    print(f"\n{'processor':>10} {'elapsed':>9}  entry")
    longest = sorted(results, key=lambda name: -results[name][1])
    for name in longest[: arguments.top]:
        status, used, elapsed = results[name]
        print(f"{used:>9.1f}s {elapsed:>8.1f}s  {name}{'  FAILED' if status else ''}")
    used = sum(result[1] for result in results.values())
    print(f"{used:>9.1f}s {time.monotonic() - start:>8.1f}s  all {len(results)}")
    failed = [name for name, result in results.items() if result[0] not in (0, 77)]
    if failed:
        print("failed: " + " ".join(sorted(failed)))
    if arguments.write:
        write_durations(results)
    sys.exit(1 if failed else 0)


main()
