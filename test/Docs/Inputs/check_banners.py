"""Fails if the banner of a source file is not one line: check_banners.py [ROOT]"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[3])
FOLDERS = ("bench", "examples", "include", "lib", "runtime", "tools", "unittests")
# Formatting moves what is too long for the line into a second one.
BANNER = re.compile(r"//===- \S+ - .*===//\n//\n")

found = 0
for folder in FOLDERS:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".h", ".cpp", ".td") and not BANNER.match(path.read_text()):
            print(f"{path.relative_to(ROOT)}:1: error: the banner is not '//===- NAME - TEXT ---===//'")
            found += 1
sys.exit(1 if found else 0)
