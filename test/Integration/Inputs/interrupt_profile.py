# ===- interrupt_profile.py - Kill a profile, and let it go on -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: interrupt_profile.py OUTPUT JOURNAL COMMAND...

Starts COMMAND, a poplar profile that writes OUTPUT, and kills it with all that it
started as soon as JOURNAL holds three measurements. Prints how many it holds
then: no OUTPUT may be there. Leaves a copy of the journal in JOURNAL.kept."""

import os
import shutil
import signal
import subprocess
import sys
import time

OUTPUT, JOURNAL, *COMMAND = sys.argv[1:]
HEAD = 2  # lines that are no measurements


def read():
    if not os.path.exists(JOURNAL):
        return []
    with open(JOURNAL) as file:
        return file.read().splitlines()[HEAD:]


def main():
    job = subprocess.Popen(COMMAND, start_new_session=True, stdout=subprocess.DEVNULL)
    limit = time.monotonic() + 300
    while len(read()) < 3:
        if job.poll() is not None:
            sys.exit(f"error: it ended with {job.returncode} before it was killed")
        if time.monotonic() > limit:
            sys.exit("error: nothing was measured in five minutes")
        time.sleep(0.01)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    if os.path.exists(OUTPUT):
        sys.exit(f"error: {OUTPUT} is there, but was not finished")
    shutil.copy(JOURNAL, JOURNAL + ".kept")
    print(f"killed after {len(read())} measurements")


main()
