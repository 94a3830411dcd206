# ===- interrupt.py - Run a command and send it a signal -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: interrupt.py SIGNAL TEXT COMMAND...

Sends SIGNAL (TERM, KILL, ...) to COMMAND as soon as a line it prints contains
TEXT, passes its output on, and succeeds if it then ended with status 0, or by
the signal in case of KILL."""

import signal
import subprocess
import sys


def main():
    number = getattr(signal, "SIG" + sys.argv[1])
    text, command = sys.argv[2], sys.argv[3:]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    sent = False
    for line in process.stdout:
        sys.stdout.write(line)
        if not sent and text in line:
            process.send_signal(number)
            sent = True
    status = process.wait()
    if not sent:
        sys.exit(f"error: no line contains '{text}'")
    expected = -number if number == signal.SIGKILL else 0
    if status != expected:
        sys.exit(f"error: exit status {status}, expected {expected}")


main()
