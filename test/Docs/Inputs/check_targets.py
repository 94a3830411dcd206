"""Fails if a source file other than the table names a target: check_targets.py [ROOT]"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[3])
TABLE = "lib/Planner/Cluster/Targets.cpp"
# "host:avx2-f32", "cuda:sm_80"; a prefix such as "cuda:sm_" is none.
TARGET = re.compile(r'"(?:host|cuda|hip):[a-z]\w*[\w-]*\d[\w-]*"')
COMMENT = re.compile(r"//.*")

found = 0
for folder in ("include", "lib", "runtime", "tools"):
    for path in sorted((ROOT / folder).rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".h", ".cpp") or name == TABLE:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for target in TARGET.findall(COMMENT.sub("", line)):
                print(f"{name}:{number}: error: names {target}; ask {TABLE}")
                found += 1
sys.exit(1 if found else 0)
