# ===- moved_job.py - Run a job away from where it was built ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: moved_job.py JOB CORPUS

Moves JOB to a directory with an inconvenient name, and runs its launch.sh there.
Succeeds if no file of the job names the build tree, no process opens a library
of it, and the plug-in is the job's own. Where mount namespaces are permitted,
the build tree and the sources are out of sight meanwhile."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def find_trees():
    """Of the build and of the sources."""
    tool = pathlib.Path(shutil.which("poplar")).resolve()
    return [tool.parent.parent, pathlib.Path(__file__).resolve().parents[3]]


def check_contents(job, trees):
    for path in sorted(job.rglob("*")):
        if path.is_file():
            contents = path.read_bytes()
            for tree in trees:
                if bytes(tree) in contents:
                    sys.exit(f"{path} names {tree}")


def hide(trees, place):
    """The start of a command that does not see the trees, if that is permitted."""
    empty = place / "empty"
    empty.mkdir()
    script = "".join(f"mount --bind '{empty}' '{tree}' && " for tree in trees)
    command = ["unshare", "-m", "sh", "-c", script + 'exec "$@"', "hide"]
    tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if tried.returncode == 0 else []


def check_loaded(logs, job, trees):
    loaded = "".join(log.read_text(errors="replace") for log in logs.iterdir())
    for tree in trees:
        if f"{tree}/" in loaded:
            sys.exit(f"a library of {tree} was looked for")
    if f"{job}/lib/libpoplar_mpi.so" not in loaded:
        sys.exit("the plug-in of the job was not loaded")


def check_hosts(job, place):
    """What launch.sh tells mpirun of nodes, by one that prints it."""
    tools = place / "tools"
    tools.mkdir()
    fake = tools / "mpirun"
    fake.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    fake.chmod(0o755)
    for local in ("", "1"):
        environment = {"PATH": f"{tools}:/usr/bin:/bin", "POPLAR_LOCAL": local}
        done = subprocess.run(
            [job / "launch.sh", "train", "a b"],
            env=environment, capture_output=True, text=True, check=True,
        )
        words = done.stdout.split("\n")
        nodes = [words[i + 1] for i, word in enumerate(words) if word == "<-host>"]
        if len(nodes) != (0 if local else 2) or words.count("<a b>") != 2:
            sys.exit(f"POPLAR_LOCAL={local}: mpirun was given {words}")


def main():
    job, corpus = map(pathlib.Path, sys.argv[1:])
    trees = find_trees()
    with tempfile.TemporaryDirectory(prefix="poplar-moved-") as directory:
        place = pathlib.Path(directory)
        moved = place / "it's \"moved\""
        shutil.move(job, moved)
        shutil.copy(corpus, place / "corpus.txt")
        check_contents(moved, trees)
        check_hosts(moved, place)
        logs = place / "logs"
        logs.mkdir()
        words = "train --data corpus.txt --steps 2 --peak-gflops 1 --out run".split()
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": directory,
            "POPLAR_LOCAL": "1",
            "OMP_WAIT_POLICY": "passive",
            "LD_DEBUG": "files",
            "LD_DEBUG_OUTPUT": str(logs / "log"),
        }
        hiding = hide(trees, place)
        done = subprocess.run(
            [*hiding, moved / "launch.sh", *words],
            cwd=place, env=environment, capture_output=True, text=True, check=False,
        )
        print(done.stdout, done.stderr, sep="")
        if done.returncode:
            sys.exit(f"launch.sh: exit status {done.returncode}")
        check_loaded(logs, moved, trees)
        print("hidden" if hiding else "not hidden: mount namespaces are not permitted")


if __name__ == "__main__":
    main()
