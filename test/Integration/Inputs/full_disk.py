# ===- full_disk.py - Let a run fill its disk ------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: full_disk.py limit|mount DIR WHOLE COMMAND...
       full_disk.py build DIR COMMAND...

Runs COMMAND, which trains and saves every other step, with --out DIR/run for 8
steps, where there is room for two of its checkpoints only:
  limit   after step 4 no file may have more than 100,000 bytes
  mount   DIR is a file system of 4 MiB, in a mount namespace of its own; where
          that is not permitted, a line says so and nothing is tested

The command must fail with one error; the two checkpoints must be whole, and
nothing else left; with room again, the run must end as WHOLE did.

With `build`, runs COMMAND -o DIR/out on a file system of 1 MiB, where nothing
may be left of what it makes."""

import os
import resource
import signal
import subprocess
import sys

FILES = ("model.safetensors", "optimizer.safetensors", "config.json")


def read(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


def train(command, steps, *more, **options):
    return subprocess.run(
        [*command, "--steps", str(steps), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def succeed(result):
    if result.returncode:
        sys.exit(f"error: exit status {result.returncode}: {result.stderr}")


def check_failed(result, run, whole):
    print(result.stderr, end="")
    if result.returncode != 1 or result.stderr.count("error") != 1:
        sys.exit(f"error: exit status {result.returncode}, expected 1 and one error")
    names = {n for n in os.listdir(run) if not n.startswith("events.out.tfevents.")}
    expected = {"checkpoint-2", "checkpoint-4", "executable", "latest", "plan.mlir"}
    expected |= {"devices.csv", "metrics.csv"}
    names.discard("loss.svg")  # of the run to step 4
    if names != expected:
        sys.exit(f"error: there are {sorted(names)}")
    for checkpoint in ("checkpoint-2", "checkpoint-4"):
        for file in FILES:
            if read(run, checkpoint, file) != read(whole, checkpoint, file):
                sys.exit(f"error: {checkpoint}/{file} was harmed")


def check_resumed(command, run, whole):
    succeed(train(command, 8, "--resume"))
    for file in FILES:
        if read(run, "latest", file) != read(whole, "latest", file):
            sys.exit(f"error: {file} is not as without the failure")
    if any(name.startswith(".") for name in os.listdir(run)):
        sys.exit(f"error: left over: {os.listdir(run)}")
    print("same as a run with room")


def forbid_large_files():
    # Ignored, the signal leaves an error of write(), as a full disk does.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))


def call_inside(directory, size, how):
    """This program again, with a small file system at the directory."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", directory]
    namespace = ["unshare", "--map-root-user", "--mount"]
    probe = subprocess.run([*namespace, *mount], capture_output=True, text=True)
    if probe.returncode:
        print(f"skipped: {probe.stderr.strip()}\nnothing was tested")
        return 0
    inside = [sys.executable, __file__, how, *sys.argv[2:]]
    script = '"${@:1:7}" && exec "${@:8}"'
    return subprocess.run(
        [*namespace, "bash", "-c", script, "bash", *mount, *inside]
    ).returncode


def build_inside(directory, command):
    command += ["-o", os.path.join(directory, "out")]
    result = subprocess.run(command, capture_output=True, text=True)
    print(result.stderr, end="")
    if result.returncode != 1 or result.stderr.count("error") != 1:
        sys.exit(f"error: exit status {result.returncode}, expected 1 and one error")
    if os.listdir(directory):
        sys.exit(f"error: left over: {os.listdir(directory)}")
    return 0


def main():
    how, directory, whole, *command = sys.argv[1:]
    run = os.path.join(directory, "run")
    os.makedirs(directory, exist_ok=True)
    if how == "build":
        return call_inside(directory, "1m", "build-inside")
    if how == "build-inside":
        return build_inside(directory, [whole, *command])
    if how == "mount":
        return call_inside(directory, "4m", "inside")

    command += ["--out", run]
    if how == "inside":
        check_failed(train(command, 8), run, whole)
        subprocess.run(["mount", "-o", "remount,size=64m", directory], check=True)
    else:
        succeed(train(command, 4))
        limited = train(command, 8, "--resume", preexec_fn=forbid_large_files)
        check_failed(limited, run, whole)
    check_resumed(command, run, whole)
    return 0


sys.exit(main())
