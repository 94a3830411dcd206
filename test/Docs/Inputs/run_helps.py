# ===- run_helps.py - Runs the examples of helps ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Pastes the examples that `poplar COMMAND --help` ends with, command by command,
into a shell in DIRECTORY: run_helps.py DIRECTORY EXAMPLES

Every command has one. Those of a command may use what those of the commands
before have written. Shorter runs and a smaller model stand in where only time is
at stake, and plans leave no device out."""

import os
import re
import subprocess
import sys

# In the order in which a user comes to them.
COMMANDS = ["import", "cluster detect", "cluster show", "cluster devices", "cluster", "place", "profile", "plan"]
COMMANDS += ["simulate", "build", "doctor", "cluster links", "train", "watch", "evaluate", "sample", "report"]
# fine-tune.test merges and exports a run with adapters, and runs all stages.
ELSEWHERE = {"merge", "export", "finetune", "pretrain"}
SHORTER = [
    (r"demo-llama\.json", "tiny-llama.json --seq-len 32"),
    (r"--steps \d+", "--steps 2 --global-batch 2 --peak-gflops 1"),
    (r"--tokens \d+", "--tokens 2"),
    (r"(poplar evaluate run --data) \S+", r"\1 short.txt"),
    (r"(poplar profile .*)$", r"\1 --zero 1 --max-batch 2"),
    # Profiles of a busy machine may say that one device is faster than both, and later
    # examples measure the links of the job.
    (r"(poplar plan .* --profiles .*)$", r"\1 --leave-out none"),
]


def get_help(command):
    return subprocess.run(
        ["poplar", *command.split(), "--help"], check=True, capture_output=True, text=True
    ).stdout


def list_commands(help_text):
    block = re.search(r"^Subcommands:\n((?:  .*\n)+)", help_text, re.MULTILINE | re.IGNORECASE)
    return re.findall(r"^  (\w+)", block[1], re.MULTILINE)


def main():
    directory, examples = sys.argv[1:]
    os.makedirs(directory)
    os.chdir(directory)
    os.symlink(examples, "examples")
    with open("examples/data/corpus.txt") as corpus, open("short.txt", "w") as short:
        short.write(corpus.read(2000))
    known = {command.split()[0] for command in COMMANDS} | ELSEWHERE
    if left := set(list_commands(get_help(""))) - known:
        sys.exit(f"error: nothing is known of {left}")
    for command in COMMANDS:
        lines = re.findall(r"^  (poplar .*)$", get_help(command), re.MULTILINE)
        if not lines:
            sys.exit(f"error: poplar {command} --help has no example")
        for line in lines:
            for pattern, replacement in SHORTER:
                # What the example gives itself stays.
                if "--zero" not in line or "--zero" not in replacement:
                    line = re.sub(pattern, replacement, line)
            print(f"$ {line}", flush=True)
            if subprocess.run(line, shell=True).returncode != 0:
                sys.exit(f"error: an example of poplar {command} --help fails")


main()
