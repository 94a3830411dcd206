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

Without --all, --cases are drawn by --seed; with it, every change of every module is
tried, with the passes of its own test. In a sanitized build, add --memory 0."""

import argparse
import bisect
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys

from module_edits import list_edits

SEPARATOR = "// -----"
# Of a processor, in seconds. Machines that do much else take longer.
TIME_LIMIT = 10
# What decides how much is run, how it is compared and where it goes.
DROPPED = re.compile(r"-?-(split-input-file|verify-diagnostics|verify-roundtrip|mlir-print-op-generic)")
ERROR = re.compile(r"(.*?): error: (.*)")
# What MLIR's own parser, and what TableGen writes, add to an error.
REPEATED = re.compile(
    r".*failed to parse .* parameter|expected an integer or floating point type$|use of undeclared SSA value name$"
)
# What is verified on its own, and passes may run on.
FUNCTION = re.compile(r"\bfunc\.func\b|\bexec\.(kernel|function)\b|\bzero\.plan\b|\bmodule\b")
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


def limit_resources():
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT, TIME_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_opt(flags, text):
    """(exit status or "hang", output, errors)"""
    command = ["poplar-opt", "--mlir-disable-threading", "--mlir-print-op-on-diagnostic=false", *flags]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=60 * TIME_LIMIT,
            check=False, preexec_fn=limit_resources, env={**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hang", "", ""
    ends = {-signal.SIGXCPU: "hang", -signal.SIGKILL: "hang"}
    return ends.get(done.returncode, done.returncode), done.stdout, done.stderr


def find_errors(text):
    """(line or nothing, message)"""
    for match in filter(None, map(ERROR.match, text.splitlines())):
        place = re.fullmatch(r"\S*:(\d+):\d+", match[1])
        yield int(place[1]) if place else None, match[2]


class Outcome:
    """Of one module: the lines of its errors, or None for those at no place."""

    def __init__(self):
        self.lines = []

    def add(self, line, message):
        if not self.lines or not REPEATED.match(message):
            self.lines.append(line)

    def judge(self, has_failed, text):
        """Why it is wrong; nothing if it is right. Functions are verified, and
        passes run on them, side by side: each may have an error of its own."""
        if bool(self.lines) != has_failed:
            return "an error, and no failure" if self.lines else "fails without an error"
        if None in self.lines:
            return "an error at no place"
        lines = text.splitlines()
        functions = [
            next((index for index in range(min(line, len(lines)) - 1, -1, -1) if FUNCTION.search(lines[index])), None)
            for line in self.lines
        ]
        return f"{len(self.lines)} errors" if len(set(functions)) < len(functions) else None


def check_alone(case):
    """(why the outcome is wrong or nothing, errors)"""
    status, output, errors = run_opt(case.flags, case.text)
    if status not in (0, 1):
        return "does not end" if status == "hang" else f"exit status {status}", errors
    outcome = Outcome()
    for line, message in find_errors(errors):
        outcome.add(line, message)
    wrong = outcome.judge(status == 1, case.text)
    if None in outcome.lines and None in (line for line, _ in find_errors(run_opt(case.flags, "")[2])):
        wrong = None  # Flags that are wrong have no place.
    if wrong or status == 1:
        return wrong, errors
    status, again, errors = run_opt([], output)
    if status != 0:
        return "prints what does not read back", errors
    return (None if again == output else "prints something else when read back"), errors


def split(output):
    """The modules that a process printed, without those that failed."""
    return [text.strip("\n") for text in re.split(rf"^{SEPARATOR}\n", output, flags=re.MULTILINE)]


def run_together(flags, cases):
    """(cases that end in an error, cases where something may be wrong)"""
    join = f"\n{SEPARATOR}\n".join
    status, output, errors = run_opt([*flags, "--split-input-file"], join(case.text for case in cases))
    outputs = split(output)
    if status not in (0, 1) or len(outputs) != len(cases):
        return 0, cases
    # Places count lines from the first module on.
    outcomes, first_lines, line = [Outcome() for _ in cases], [], 1
    for case in cases:
        first_lines.append(line)
        line += case.text.count("\n") + 2
    for line, message in find_errors(errors):
        if line is None:
            return 0, cases
        index = bisect.bisect(first_lines, line) - 1
        outcomes[index].add(line - first_lines[index] + 1, message)
    wrong = [
        outcome.judge(not text, case.text) is not None for case, outcome, text in zip(cases, outcomes, outputs)
    ]
    right = [index for index, text in enumerate(outputs) if text and not wrong[index]]
    if right:
        printed = [outputs[index] for index in right]
        status, output, errors = run_opt(["--split-input-file"], join(printed))
        again = split(output)
        for index, (first, second) in zip(right, zip(printed, again)):
            wrong[index] = first != second
        if len(again) != len(right):
            return 0, cases
    refused = sum(bool(outcome.lines) for outcome in outcomes)
    return refused, [case for case, is_wrong in zip(cases, wrong) if is_wrong]


def check(flags, cases):
    """(cases that end in an error, [(case, why it is wrong, errors)])"""
    refused, suspects = run_together(flags, cases)
    if len(suspects) == len(cases) > 4:
        half = len(cases) // 2
        first, second = check(flags, cases[:half]), check(flags, cases[half:])
        return first[0] + second[0], first[1] + second[1]
    results = [(case, *check_alone(case)) for case in suspects]
    return refused, [result for result in results if result[1]]


def read_runs(test, directory, examples):
    """The (flags, text) of each poplar-opt in the RUN lines of a test."""
    lines = re.findall(r"^(?://|#) RUN: *((?:.*\\\n(?://|#) RUN:)*.*)", test.read_text(), re.MULTILINE)
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
            if any(word.startswith(("--emit-gpu-assembly", "--zero-report")) for word in flags):
                continue  # prints something else than a module
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
    _, output, _ = run_opt(["--split-input-file", "--mlir-print-op-generic"], f"\n{SEPARATOR}\n".join(texts))
    generic = dict(zip(texts, split(output)))
    for module in list(found):
        text = generic.get(module.text)
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
    parser.add_argument("--memory", type=int, default=4 << 30, help="of a process, in bytes; 0 for no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="tests whose path has this text")
    arguments = parser.parse_args()
    if arguments.memory:
        resource.setrlimit(resource.RLIMIT_AS, (arguments.memory, arguments.memory))
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
