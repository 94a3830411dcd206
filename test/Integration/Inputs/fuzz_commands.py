# ===- fuzz_commands.py - Damage command lines and files -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: fuzz_commands.py DIRECTORY EXAMPLES [--cases N] [--all] [--only TEXT]

Gives each option of each poplar command values that it may not expect, gives
options twice and leaves values out, and damages the files that commands read.
Whatever comes of it: no signal, no hang; either exit status 0, or 1 with one
line that begins with `NAME: error: `, and then no file was begun.

Without --all, as many cases as --cases says are drawn by --seed, in turn from
every option and file."""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import time

VALUES = ["", "-1", "0", "1", "nan", "inf", "1e999", "1e-999", "-0.0", "0x10", "1,", ",", "1,2,", "1 "]
VALUES += ["2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809"]
VALUES += ["\udcff\udcfe", "x" * 5000, "absent/x", "=", "a=b", "a=1,a=2", "host=1", "*", "@", "auto"]
JSON_VALUES = [None, True, "", "0", "nan", -1, 0, 1, 0.5, 1e300, 2**63, 2**64, [], [0], {}, {"a": {}}, "\x00", "../x"]
ERROR = re.compile(r"(poplar|train|sample|evaluate|merge|doctor|profile|links): error: \S")
# What a command is asked for is much work, and is not refused.
LONG = {("train", "--threads"), ("sample", "--tokens")}
TIME_LIMIT = 60

# By command: words that make it work, and the files among them. {out} is written.
COMMANDS = {
    "import": ["config.json", "-o", "{out}"],
    "cluster detect": ["-o", "{out}"],
    "cluster show": ["cluster.json", "-o", "{out}"],
    "cluster devices": [],
    "plan": ["--model", "model.mlir", "--cluster", "cluster.json", "--profiles", "profiles.json",
             "--global-batch", "8", "-o", "{out}"],
    "simulate": ["plan.mlir", "--json", "{out}"],
    "report": ["plan.mlir", "-o", "{out}"],
    "place": ["--network", "network.json", "--stages", "2", "--out", "{out}"],
    "profile": ["--model", "absent.mlir", "--cluster", "cluster.json", "--device-type", "fast", "-o", "{out}"],
    "build": ["absent.mlir", "-o", "{out}"],
    "doctor": ["absent"],
    "train": ["program", "--data", "text.txt", "--steps", "1", "--global-batch", "1", "--batch", "1",
              "--peak-gflops", "1", "--threads", "1", "--eval-every", "0", "--out", "{out}"],
    "evaluate": ["run", "--data", "text.txt", "--threads", "1"],
    "sample": ["run", "--tokens", "1", "--threads", "1"],
    "merge": ["run", "-o", "{out}"],
}  # fmt: skip
FILES = {
    "config.json": "import",
    "cluster.json": "plan",
    "profiles.json": "plan",
    "network.json": "place",
}


def make_files(directory, examples):
    """What the commands read."""

    def call(*words):
        subprocess.run(["poplar", *words], check=True, capture_output=True, cwd=directory)

    config = json.loads((examples / "models/tiny-gpt2.json").read_text())
    config["n_layer"] = 1
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "text.txt").write_text((examples / "data/corpus.txt").read_text()[:4000])
    types = {
        name: {"target": target, "memory": "1GiB", "threads": 1, "flops": {"f32": flops}, "bandwidth": 1e10}
        for name, target, flops in (("fast", "host:avx2-f32", 4e10), ("slow", "host:sse41-f32", 1e10))
    }
    nodes = [{"name": "a", "devices": ["fast"]}, {"name": "b", "devices": {"slow": 2}}]
    links = [
        {"inside": "nodes", "latency": 2e-6, "bandwidth": 5e9},
        {"between": ["a", "b"], "latency": 1e-4, "bandwidth": 1e9, "overhead": 1e-11},
    ]
    (directory / "cluster.json").write_text(json.dumps({"device_types": types, "nodes": nodes, "links": links}))
    profile = {"device_type": "fast", "stage": 1, "micro_batches": [1, 2, 4], "seconds": [0.1, 0.15, 0.3]}
    profile.update(max_micro_batch=64, spread=[0, 0.01, 0], memory={"fixed": 10**7, "per_sample": 10**6})
    profile.update(optimizer=1e-3, precision="f32", recompute="keep")
    (directory / "profiles.json").write_text(json.dumps({"profiles": [profile]}))
    network = {"c_dp": 0.5, "c_pp": 0.1, "delay_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[0, 8], [8, 0]]}
    (directory / "network.json").write_text(json.dumps(network))
    call("import", "config.json", "--seq-len", "16", "-o", "model.mlir")
    call(*"plan --model model.mlir --cluster cluster.json --global-batch 8 -o plan.mlir".split())
    call("build", "model.mlir", "-o", "program")
    call(*"train program --data text.txt --steps 1 --global-batch 1 --peak-gflops 1 --eval-every 0 --out run".split())


def list_options(command, directory):
    words = command.split()
    if command in ("train", "evaluate", "sample"):
        words.append(COMMANDS[command][0])
    text = subprocess.run(
        ["poplar", *words, "--help"], check=True, capture_output=True, text=True, cwd=directory
    ).stdout
    return re.findall(r"^  (?:-\w,)?(--[\w-]+)( \S+)?", text, re.MULTILINE)


def damage_options(command, directory):
    """(what a group of cases is about, words behind the command)"""
    base = COMMANDS[command]
    for option, value in list_options(command, directory):
        if option in ("--help", "--version"):
            continue
        topic = (command, option)
        for new in VALUES:
            if topic not in LONG:
                yield topic, [*base, f"{option}={new}"]
        yield topic, [*base, option]
        if value:
            yield topic, [*base, option, "1", option, "2"]
    for index in range(len(base)):
        yield (command, "without"), base[:index] + base[index + 1 :]
    yield (command, "more"), [*base, "more"]
    yield (command, "more"), [*base, "--no-such-option=1"]


def list_places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from list_places(child, (*path, key))


def damage_json(text):
    """The text with each value replaced, removed, or given twice."""
    for path in list_places(json.loads(text)):
        for new in [*JSON_VALUES, "remove"]:
            root = {"root": json.loads(text)}
            parent = root
            for key in ("root", *path)[:-1]:
                parent = parent[key]
            key = ("root", *path)[-1]
            if new == "remove" and path:
                del parent[key]
            else:
                parent[key] = new
            yield path, json.dumps(root["root"])
    for cut in (0, 1, len(text) // 2, len(text) - 1):
        yield ("cut",), text[:cut]


def list_cases(directory):
    """(topic, command, words, a file and its text or nothing)"""
    for command in COMMANDS:
        for topic, words in damage_options(command, directory):
            yield topic, command, words, None
    for name, command in FILES.items():
        if not (directory / name).exists():
            continue
        for path, text in damage_json((directory / name).read_text()):
            kind = tuple("#" if isinstance(key, int) else key for key in path)
            yield (name, kind), command, COMMANDS[command], (name, text)


def draw(cases, count, seed):
    """In turn from every topic."""
    topics = {}
    for case in cases:
        topics.setdefault(case[0], []).append(case)
    source = random.Random(seed)
    topics = list(topics.values())
    for topic in topics:
        source.shuffle(topic)
    source.shuffle(topics)
    drawn = []
    while topics and len(drawn) < count:
        drawn += [topic.pop() for topic in topics]
        topics = [topic for topic in topics if topic]
    return drawn[:count]


def run(directory, command, words, file):
    """(exit status or "hang", why it is wrong or nothing, output, seconds)"""
    out = directory / "out"
    subprocess.run(["rm", "-rf", out], check=True)
    if file:
        # Beside the others, so that they stay.
        (directory / f"bad-{file[0]}").write_text(file[1])
        words = [f"bad-{file[0]}" if word == file[0] else word for word in words]
    words = [word.replace("{out}", "out") for word in words]
    before = {path.name for path in directory.iterdir()}
    begin = time.monotonic()
    try:
        done = subprocess.run(
            ["poplar", *command.split(), *words], capture_output=True, text=True, errors="surrogateescape",
            timeout=TIME_LIMIT, cwd=directory, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hang", "does not end", "", TIME_LIMIT
    seconds = time.monotonic() - begin
    status, text = done.returncode, done.stderr
    made = sorted({path.name for path in directory.iterdir()} - before)
    for name in made:
        if name != "out":
            subprocess.run(["rm", "-rf", "--", directory / name], check=True)
    wrong = None
    errors = [line for line in text.splitlines() if ": error:" in line]
    if status == 0:
        wrong = "an error, and status 0" if errors else None
    elif status != 1:
        wrong = f"exit status {status}"
    elif len(errors) != 1 or not ERROR.match(errors[0]):
        wrong = f"{len(errors)} errors"
    elif made:
        wrong = f"left {made}"
    return status, wrong, text, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("examples", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="cases whose topic has this text")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    make_files(directory, arguments.examples)
    cases = [case for case in list_cases(directory) if arguments.only in str(case[0])]
    if not arguments.all:
        cases = draw(cases, arguments.cases, arguments.seed)
    counts, failures = {}, 0
    for topic, command, words, file in cases:
        status, wrong, text, seconds = run(directory, command, words, file)
        counts[status] = counts.get(status, 0) + 1
        line = f"{topic} {command} {' '.join(words)[-200:]!a} {file[1][:2000] if file else ''}"
        if wrong:
            failures += 1
            print(f"WRONG {line}: {wrong}\n{ascii(text[-1000:])}", flush=True)
        elif arguments.all:
            print(f"{status} {seconds:.2f} s {line[:300]}: {ascii(text[-300:])}", flush=True)
    print(f"{len(cases)} cases, {counts}, {failures} wrong")
    # Most of it is refused, or the damage says nothing.
    sys.exit(1 if failures or (not arguments.only and counts.get(1, 0) < len(cases) / 2) else 0)


if __name__ == "__main__":
    main()
