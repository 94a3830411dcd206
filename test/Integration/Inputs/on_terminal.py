# ===- on_terminal.py - Run a slow command on a terminal -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: on_terminal.py PIPE [--file] COMMAND...

Runs a command that reads PIPE, which is empty for 3 s, and prints what it writes to
its standard error: a terminal or, with --file, something else."""

import os
import pty
import subprocess
import sys
import threading
import time


def fill(path):
    time.sleep(3)
    while True:  # as often as it is opened, with an end in between
        with open(path, "w") as stream:
            stream.write("no model\n")
        time.sleep(0.5)


def read(end):
    while True:
        try:
            text = os.read(end, 4096)
        except OSError:  # a terminal that nobody writes to any more
            return
        if not text:
            return
        sys.stdout.write(text.decode(errors="replace").replace("\r", ""))


def main():
    path, *command = sys.argv[1:]
    os.mkfifo(path)
    is_file = command[0] == "--file"
    ours, theirs = os.pipe() if is_file else pty.openpty()
    process = subprocess.Popen(command[is_file:], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    threading.Thread(target=fill, args=(path,), daemon=True).start()
    read(ours)
    sys.exit(process.wait())


main()
