"""Fails unless the picture has the passes of each pipeline in the order in which
--dump-pass-pipeline prints them: check_order.py PICTURE DUMP..."""

import re
import sys

drawn = re.findall(
    r'<text class="pass[^"]*"[^>]*>([\w-]+)</text>', open(sys.argv[1]).read()
)
for path in sys.argv[2:]:
    text = open(path).read()
    run = [flag for flag in re.findall(r"^ +([\w-]+)", text, re.M) if flag in drawn]
    if len(run) < 3:
        sys.exit(f"error: {path} names {len(run)} passes that are drawn")
    rest = iter(drawn)
    for flag in run:
        if flag not in rest:
            sys.exit(f"error: {flag} is not drawn where {path} has it: {drawn}")
