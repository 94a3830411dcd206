"""Fails unless every pass has a description and an example, and every example a
pass: check_passes.py SCRIPTS"""

import importlib
import sys

sys.path.insert(0, sys.argv[1])
build_docs = importlib.import_module("build-docs")
passes = build_docs.source.read_passes().values()
errors = []
for item in passes:
    if not item.summary or not item.description.strip():
        errors.append(f"{item.path}: {item.name} has no summary or no description")
    example = build_docs.read_example(item.flag)
    if not example or f"--{item.flag}" not in (example[0] or "") or not example[2]:
        errors.append(f"--{item.flag} has no example in {build_docs.EXAMPLES}")
flags = {item.flag for item in passes}
for path in build_docs.EXAMPLES.iterdir():
    if path.stem not in flags:
        errors.append(f"{path}: there is no pass --{path.stem}")
print("\n".join(errors) or f"{len(flags)} passes")
sys.exit(bool(errors))
