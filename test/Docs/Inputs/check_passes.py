"""Fails unless every pass has a description and an example, every example a pass,
every pass its source and a test in the directory whose Passes.td defines it, and
every Passes.td a line in Poplar/Passes.td: check_passes.py SCRIPTS [ROOT]"""

import importlib
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[1])
build_docs = importlib.import_module("build-docs")
root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else build_docs.source.ROOT
passes = build_docs.source.read_passes(root).values()
errors = []


def is_tested(item):
    """Whether a test beside the sources runs the pass."""
    run = re.compile(rf"RUN:.*-{item.flag}\b")
    tests = (root / "test" / item.directory).rglob("*.*")
    return any(path.is_file() and run.search(path.read_text()) for path in tests)


listed = {item.path for item in passes}
for path in sorted((root / "include" / "Poplar").rglob("*/Passes.td")):
    if path not in listed:
        errors.append(f"{path}: Poplar/Passes.td does not include it")
for item in passes:
    source = root / "lib" / item.directory / f"{item.name}.cpp"
    if not source.exists():
        errors.append(f"{item.path}: {item.name} has no {source}")
    if not is_tested(item):
        errors.append(f"{item.path}: no test of --{item.flag} in test/{item.directory}")
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
