# ===- kill_while_saving.py - Kill a run again and again -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: kill_while_saving.py READER_DIR RUN KILLS COMMAND...

Starts COMMAND, which trains into RUN and saves after every step, and kills it
at once, KILLS times, at moments spread over its steps and saves. After each
kill every checkpoint in RUN must be whole; COMMAND resumes from the last one,
and at the end is left to finish."""

import json
import os
import subprocess
import sys
import time

FILES = ("config.json", "model.safetensors", "optimizer.safetensors", "state.json")


def check_whole(reader, run):
    """Returns the steps of the checkpoints."""
    steps = []
    for name in sorted(os.listdir(run) if os.path.isdir(run) else []):
        if not name.startswith("checkpoint-"):
            continue
        directory = os.path.join(run, name)
        found = tuple(sorted(os.listdir(directory)))
        if found != FILES:
            sys.exit(f"error: {directory} holds {found}")
        weights, _ = reader.read(os.path.join(directory, "model.safetensors"))
        moments, _ = reader.read(os.path.join(directory, "optimizer.safetensors"))
        if len(moments) != 2 * len(weights):
            sys.exit(f"error: {directory}: {len(moments)} moments")
        for file in ("config.json", "state.json"):
            with open(os.path.join(directory, file)) as stream:
                content = json.load(stream)
        if name != f"checkpoint-{content['step']}":
            sys.exit(f"error: {directory} is of step {content['step']}")
        steps.append(content["step"])
    latest = os.path.join(run, "latest")
    if os.path.islink(latest) and not os.path.isdir(latest):
        sys.exit(f"error: {latest} points at nothing")
    return steps


def main():
    sys.path.insert(0, sys.argv[1])
    import safetensors_reader

    run, kills, command = sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    for kill in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        saves = 0
        for line in process.stdout:
            saves += line.startswith("saved")
            # The next save comes within milliseconds: spread over those.
            if saves == 1 + kill % 2:
                time.sleep(0.0007 * kill)
                break
        process.kill()
        process.stdout.close()
        if process.wait() == 0:
            sys.exit("error: the run ended before it was killed")
        steps = check_whole(safetensors_reader, run)
        if not steps:
            sys.exit("error: a save was reported and there is no checkpoint")
        left = [name for name in os.listdir(run) if name.startswith(".")]
        print(f"kill {kill}: checkpoints {steps}, unfinished {left}")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    left = [name for name in os.listdir(run) if name.startswith(".")]
    if left:
        sys.exit(f"error: {left} was never removed")


main()
