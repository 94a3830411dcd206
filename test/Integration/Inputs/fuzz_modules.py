# ===- fuzz_modules.py - Damage textual modules ----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: fuzz_modules.py DIRECTORY EXAMPLES TESTS... [--cases N] [--all] [--only TEXT]

Changes the modules of lit tests, in their own form and in MLIR's generic one, and
runs the passes of the tests' RUN lines, or those of another test, on them. A case
is a module with one change. It must end in one error at a place in the module, or
in a module that reads back as it was printed. Never in a signal, in a hang, in an
error at no place, or in a failure without an error.

Many cases share a process, with --split-input-file. Where something is wrong, each
of them runs alone. Wrong modules are left in DIRECTORY, with their commands.

Without --all, --cases are drawn by --seed; with it, every change of the kinds that
number few is tried on every module, and none of other tests' passes."""

import argparse
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys

from module_edits import list_edits

SEPARATOR = "// -----"
TIME_LIMIT = 10
MEMORY_LIMIT = 4 << 30
# What decides how much is run, how it is compared and where it goes.
DROPPED = re.compile(r"-?-(split-input-file|verify-diagnostics|verify-roundtrip|mlir-print-op-generic)")
ERROR = re.compile(r"^(?:within split at \S*?:(\d+) offset )?(.*?): error: (.*)")
COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|[ \t]*//.*')


class Module:
    """A module of a test, and the flags to run on it."""

    def __init__(self, name, flags, text):
        self.name, self.flags, self.text = name, flags, text
        self.edits = None

    def get_edits(self):
        if self.edits is None:
            self.edits = list_edits(self.text)
        return self.edits


class Case:
    def __init__(self, module, flags, edit):
        self.module, self.flags, self.edit = module, flags, edit
        self.text = edit.apply(module.text)

    def __str__(self):
        return f"{self.module.name} {shlex.join(self.flags)}: {self.edit}"


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_opt(flags, text, time_limit=TIME_LIMIT):
    """(exit status or "hang", output, errors)"""
    command = ["poplar-opt", "--mlir-disable-threading", "--mlir-print-op-on-diagnostic=false", *flags]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=time_limit,
            check=False, preexec_fn=limit_memory,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hang", "", ""
    return done.returncode, done.stdout, done.stderr


def judge(status, output, errors):
    """Why the outcome of one module is wrong; nothing if it is right."""
    if status == "hang":
        return "does not end"
    if status not in (0, 1):
        return f"exit status {status}"
    found = [match for match in map(ERROR.match, errors.splitlines()) if match]
    if status == 0:
        return "an error, and status 0" if found else None
    if len(found) != 1:
        return f"{len(found)} errors"
    if not re.search(r":\d+:\d+$", found[0][2]):
        return "an error at no place"
    return None


def check_alone(case):
    status, output, errors = run_opt(case.flags, case.text)
    wrong = judge(status, output, errors)
    if wrong or status != 0:
        return wrong, errors
    status, again, errors = run_opt([], output)
    if status != 0:
        return "prints what does not read back", errors
    return (None if again == output else "prints something else when read back"), ""


def check_together(flags, cases):
    """Whether all is well with cases of the same flags, and how many of them end
    in an error."""
    join = f"\n{SEPARATOR}\n".join
    status, output, errors = run_opt([*flags, "--split-input-file"], join(case.text for case in cases))
    if status not in (0, 1):
        return False, 0
    # The line of the separator before a module says which module it is.
    lines, line = {}, 1
    for index, case in enumerate(cases):
        lines[line] = index
        line += case.text.count("\n") + 2
    outputs = re.split(rf"^{SEPARATOR}\n", output, flags=re.MULTILINE)
    if len(outputs) != len(cases):
        return False, 0
    counts = [0] * len(cases)
    for match in filter(None, map(ERROR.match, errors.splitlines())):
        index = lines.get(int(match[1] or 0))
        if index is None or not re.fullmatch(r":\d+:\d+", match[2]):
            return False, 0
        counts[index] += 1
    if any(count > 1 or bool(count) == bool(text.strip()) for count, text in zip(counts, outputs)):
        return False, 0
    printed = join(text.strip("\n") for text in outputs if text.strip())
    if printed:
        status, again, errors = run_opt(["--split-input-file"], printed)
        texts = [text.strip("\n") for text in re.split(rf"^{SEPARATOR}\n", again, flags=re.MULTILINE)]
        if status != 0 or join(texts) != printed:
            return False, 0
    return True, sum(counts)


def check(flags, cases):
    """(cases that end in an error, [(case, why it is wrong, errors)])"""
    is_right, count = check_together(flags, cases)
    if is_right:
        return count, []
    if len(cases) > 8:
        half = len(cases) // 2
        first, second = check(flags, cases[:half]), check(flags, cases[half:])
        return first[0] + second[0], first[1] + second[1]
    results = [(case, *check_alone(case)) for case in cases]
    return 0, [result for result in results if result[1]]


def read_runs(test, directory, examples):
    """The (flags, text) of each poplar-opt in the RUN lines of a test."""
    lines = re.findall(r"^(?://|#) RUN: *(.*(?:\\\n(?://|#) RUN:.*)*)", test.read_text(), re.MULTILINE)
    temporary = directory / "lit"
    names = {"%s": test, "%t": temporary, "%S": test.parent, "%examples": examples}
    for line in lines:
        line = re.sub(r"\\\n(?://|#) RUN:", " ", line)
        line = re.sub(r"%(examples|[stS])\b", lambda match: str(names[match[0]]), line)
        stages = re.split(r" \| ", line)
        if not any("poplar-opt" in stage for stage in stages):
            subprocess.run(["bash", "-c", line], check=False, capture_output=True, cwd=directory)
            continue
        for index, stage in enumerate(stages):
            words = [word for word in shlex.split(stage) if word not in ("not", "2>&1")]
            if words[0] != "poplar-opt":
                continue
            if "-o" in words:
                del words[words.index("-o") : words.index("-o") + 2]
            flags = [word for word in words[1:] if word[0] == "-" and not DROPPED.match(word)]
            files = [word for word in words[1:] if word[0] not in "-<>"]
            if index:
                text = subprocess.run(
                    ["bash", "-c", " | ".join(stages[:index])], check=False, capture_output=True, text=True,
                    cwd=directory,
                ).stdout  # fmt: skip
            elif len(files) == 1 and pathlib.Path(files[0]).exists():
                text = pathlib.Path(files[0]).read_text()
            else:
                continue
            yield flags, text


def list_modules(tests, directory, examples):
    """The modules of all tests in both forms, each once for the same flags."""
    found, known = [], set()
    for test in tests:
        for flags, text in read_runs(test, directory, examples):
            for part in text.split(SEPARATOR):
                part = COMMENT.sub(lambda match: match[1] or "", part)
                part = re.sub(r"\n\s*\n+", "\n", part).strip()
                if part and (part, *flags) not in known:
                    known.add((part, *flags))
                    found.append(Module(test.name, flags, part))
    texts = list(dict.fromkeys(module.text for module in found))
    _, output, _ = run_opt(["--split-input-file", "--mlir-print-op-generic"], f"\n{SEPARATOR}\n".join(texts), 120)
    generic = dict(zip(texts, re.split(rf"^{SEPARATOR}\n", output, flags=re.MULTILINE)))
    for module in list(found):
        text = generic.get(module.text, "").strip()
        if text:
            found.append(Module(f"{module.name} (generic)", module.flags, text))
    return found


def draw(modules, count, per_process, seed):
    """Lists of cases with the same flags. A third of them has other tests' flags."""
    source = random.Random(seed)
    all_flags = sorted({tuple(module.flags) for module in modules})
    by_flags = {flags: [] for flags in all_flags}
    for module in modules:
        by_flags[tuple(module.flags)].append(module)
    while count > 0:
        flags = source.choice(all_flags)
        chosen = by_flags[flags] if source.random() < 0.67 else modules
        cases = []
        for module in source.choices(chosen, k=min(per_process, count)):
            kinds = module.get_edits()
            edits = kinds[source.choice(sorted(kinds))]
            cases.append(Case(module, list(flags), source.choice(edits)))
        count -= len(cases)
        yield list(flags), cases


def list_all(modules, per_process):
    for module in modules:
        edits = [edit for edits in module.get_edits().values() for edit in edits]
        module.edits = None
        for begin in range(0, len(edits), per_process):
            yield module.flags, [Case(module, module.flags, edit) for edit in edits[begin : begin + per_process]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("examples", type=pathlib.Path)
    parser.add_argument("tests", type=pathlib.Path, nargs="+", help="tests, or folders of them")
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--per-process", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="tests whose path has this text")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    tests = []
    for path in arguments.tests:
        tests += sorted(path.rglob("*.mlir")) if path.is_dir() else [path]
    tests = [test.resolve() for test in tests if arguments.only in str(test)]
    modules = list_modules(tests, directory, arguments.examples.resolve())
    if arguments.all:
        batches = list_all(modules, arguments.per_process)
    else:
        batches = draw(modules, arguments.cases, arguments.per_process, arguments.seed)
    total, refused, failures = 0, 0, 0
    for flags, cases in batches:
        count, wrong = check(flags, cases)
        total, refused = total + len(cases), refused + count
        for case, reason, errors in wrong:
            failures += 1
            file = directory / f"wrong-{failures}.mlir"
            file.write_text(f"// RUN: poplar-opt {shlex.join(case.flags)} %s\n{case.text}\n")
            print(f"WRONG {case}: {reason} ({file.name})\n{errors[-1000:]}", flush=True)
    print(f"{len(modules)} modules, {total} cases, {refused} refused, {failures} wrong")
    # The changes are not so small that all goes well.
    sys.exit(1 if failures or (total >= 100 and not 0 < refused < total) else 0)


if __name__ == "__main__":
    main()
