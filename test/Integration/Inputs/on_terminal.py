"""usage: on_terminal.py COMMAND...

Runs a command whose standard error is a terminal, and prints what it shows there."""

import os
import pty
import subprocess
import sys

terminal, end = pty.openpty()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=end)
os.close(end)
while True:
    try:
        text = os.read(terminal, 4096)
    except OSError:  # the other end is closed
        break
    if not text:
        break
    sys.stdout.write(text.decode(errors="replace").replace("\r", ""))
sys.exit(process.wait())
