"""Compares the code in a page with the files that it is from:

  compare_snippets.py PAGE

A block that follows a comment <!-- from: PATH --> must be lines of that file, in
order and without a gap."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BLOCK = re.compile(
    r"<!-- from: (\S+) -->\n+^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def main():
    page = pathlib.Path(sys.argv[1])
    blocks = BLOCK.findall(page.read_text())
    if not blocks:
        sys.exit(f"error: {page} has no code of any file")
    for path, code in blocks:
        if "\n" + code not in (ROOT / path).read_text():
            sys.exit(f"error: {page}: this is not in {path}:\n{code}")
    print(f"{len(blocks)} blocks")


main()
