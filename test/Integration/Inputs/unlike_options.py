# ===- unlike_options.py - Ranks that do not agree -------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Starts two ranks one by one. For every option that the executable lists and
that ranks must have alike, they get unlike values, and must both end within
seconds, name the option and both values, and write nothing. Files are compared
by what they hold, not by their paths. Options in which ranks may differ do."""

import concurrent.futures
import os
import shutil
import socket
import subprocess
import time

import jobs
from jobs import Plan, Rank

CORPUS = jobs.CORPUS
# Of a job on a machine that is busy with other tests.
SECONDS = 30
# What fits all options of a kind, and options that need something else.
VALUES = {
    "integer": ("2", "3"),
    "number": ("0.25", "0.5"),
    "text": ("one", "two"),
    "flag": ("true", "false"),
}
SPECIAL = {
    "comm": ("auto", "tcp"),
    "link-delay": ("1,1", "2,1"),
    "loss-scale": ("1024", "2048"),
    "val-split": ("end", "random"),
    "long-examples": ("cut", "drop"),
    "preference": ("dpo", "orpo"),
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Pair:
    """Two ranks of a job."""

    def __init__(self, program):
        self.program = program

    def start(self, options, directories=(None, None)):
        """Exit statuses and outputs; `options` are those of each rank."""
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        place["MASTER_PORT"] = str(free_port())
        ranks = [
            subprocess.Popen(
                [self.program, *map(str, options[rank])],
                env={**os.environ, **place, "RANK": str(rank)},
                cwd=directories[rank],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(2)
        ]
        outputs = []
        for process in ranks:
            try:
                outputs.append(process.communicate(timeout=2 * SECONDS)[0])
            except subprocess.TimeoutExpired:
                process.kill()
                outputs.append(process.communicate()[0] + "(killed)")
        return [process.returncode for process in ranks], outputs


def list_options(program):
    """(name, kind, rule) of every option."""
    lines = jobs.run([program, "options"]).splitlines()
    return [tuple(line.split("\t")[:3]) for line in lines]


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    plan = Plan("gpt2", 1, (Rank(1, 1, 1), Rank(1, 1, 1)))
    job = workshop.build(plan, "job")
    pair = Pair(os.path.join(job, "device", "train"))

    def train(out, *options, steps=1, data=CORPUS):
        given = " ".join(map(str, options))
        command = ["train", *options, "--out", out]
        for name, value in (("--steps", steps), ("--data", data)):
            # One option excludes the other.
            words = given.replace("--epochs", "--steps").split()
            if data is not None or name == "--steps":
                command += [name, value] * (name not in words)
        validates = {"--eval-every", "--eval-ratio"} & set(given.split())
        return command + ([] if validates else ["--eval-every", 0])

    def refused(name, options, *texts, directories=(None, None)):
        begin = time.monotonic()
        statuses, outputs = pair.start(options, directories)
        took = time.monotonic() - begin
        failures = [] if took < SECONDS else [f"takes {took:.1f} s"]
        for rank, (status, output) in enumerate(zip(statuses, outputs)):
            if status != 1:
                failures.append(f"rank {rank} ends with {status}")
            failures += [
                f"rank {rank} does not say '{text}'" for text in texts
                if text not in output
            ]
        report.check(name, failures + (outputs if failures else []), f"{took:.1f} s")

    def accepted(name, options):
        statuses, outputs = pair.start(options)
        report.check(name, outputs if any(statuses) else [])

    def unlike(name, kind, first, second):
        out = workshop.path(f"{name}-run")
        words = [["--" + name] + [value] for value in (first, second)]
        if kind == "flag":
            words = [[f"--{name}={value}"] for value in (first, second)]
        if name == "out":
            options = [["train", *w, "--data", CORPUS, "--steps", 1] for w in words]
        else:
            options = [train(out, *w) for w in words]
        quote = "'" if kind == "text" else ""
        refused(
            f"--{name}",
            options,
            "the ranks do not have the same",
            f"--{name}: rank 0 (",
            f" has {quote}{first}{quote}, rank 1 (",
            f" has {quote}{second}{quote}",
        )
        for path in (out, "one", "two"):
            if os.path.lexists(path):
                report.check(f"--{name}", [f"{path} was written"])

    # Every option there is; those that a command needs no more than others.
    options = list_options(pair.program)
    for known in ("steps", "lr", "seed", "save-every", "resume", "skip-save"):
        if known not in [name for name, _, rule in options if rule == "same"]:
            report.check(known, ["need not be the same"])
    os.chdir(arguments.directory)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        started = [
            pool.submit(unlike, name, kind, *SPECIAL.get(name, VALUES[kind]))
            for name, kind, rule in options
            if rule == "same"
        ]
    for result in started:
        result.result()

    # Files: the same contents elsewhere, and other contents of the same size.
    with open(CORPUS, "rb") as file:
        text = file.read()
    other = bytearray(text)
    other[len(text) // 2] ^= 1
    for name, content in (("a", text), ("copy", text), ("b", other)):
        with open(name + ".txt", "wb") as file:
            file.write(content)
        # The same as samples of token ids.
        with open(name + ".ids", "wb") as file:
            ids = bytes(b for byte in content[: 64 * 8] for b in (byte, 0, 0, 0))
            file.write(ids)
    bytes_and_hash = f"rank 0 (", f" has {len(text)} bytes with the hash ", "rank 1 ("
    refused("data", [train("data-run", data="a.txt"), train("data-run", data="b.txt")],
            "--data: ", *bytes_and_hash)
    refused(
        "validation",
        [train("val-run", "--val-data", name, "--eval-every", 1) for name in ("a.txt", "b.txt")],
        "--val-data: ", *bytes_and_hash,
    )
    with open("b.ids", "r+b") as file:
        file.seek(40)
        file.write(b"\7")
    refused(
        "ids", [train("ids-run", "--data-ids", name, data=None) for name in ("a.ids", "b.ids")],
        "--data-ids: rank 0 (",
    )
    refused(
        "val-data on one rank",
        [train("none-run", "--val-data", "a.txt"), train("none-run")],
        "--val-data: rank 0 (", " has a path, rank 1 (", " has none",
    )
    refused(
        "tokenizer",
        [train("tokenizer-run", "--tokenizer", name) for name in ("a.txt", "b.txt")],
        "--tokenizer: ", *bytes_and_hash,
    )
    # 2000 tokens, of which 1800 are trained on, are 56 samples of 32: 1.25 epochs
    # in steps of two are 35 steps.
    with open("short.txt", "wb") as file:
        file.write(text[:2000])
    options = train("epochs-run", "--epochs", 1.25, data="short.txt")
    statuses, outputs = pair.start([options, options])
    said = "pre-training, 35 steps (1.25 epochs of 56 samples)"
    trained = "step 35/35" in outputs[0] and said in outputs[0]
    report.check("epochs", outputs if any(statuses) or not trained else [])

    accepted("copies", [train("copy-run", data=name) for name in ("a.txt", "copy.txt")])

    # What one rank finds wrong before it calls the other.
    with open("bad.config", "w") as file:
        file.write("steps 3\n")
    for rank, (name, text) in enumerate((
        (["--bogus", 1], "unknown option --bogus"),
        (["--config", "bad.config"], "bad.config:1: expected `option = value`"),
        (["--config", "absent.config"], "cannot open 'absent.config'"),
    )):  # fmt: skip
        options = [train("early-run"), train("early-run")]
        options[rank % 2] += name
        refused(f"{name[0]} of one rank", options, text)

    # Checkpoints.
    seeds = [workshop.path(f"seed-{seed}") for seed in (1, 2)]
    for seed, run in enumerate(seeds):
        options = train(run, "--seed", seed + 1)
        accepted(f"seed {seed + 1}", [options, options])
    refused("init", [train("init-run", "--init", run) for run in seeds], "--init: rank 0 (")
    accepted("same init", [train("init-run", "--init", seeds[0])] * 2)
    places = [workshop.path(f"place-{rank}") for rank in range(2)]
    for place, run in zip(places, seeds):
        shutil.copytree(run, os.path.join(place, "run"), symlinks=True)
        # The seed is in the state: it says the same.
        state = os.path.join(place, "run", "checkpoint-1", "state.json")
        shutil.copy(os.path.join(seeds[0], "checkpoint-1", "state.json"), state)
    refused("resume", [train("run", "--resume", steps=2)] * 2,
            "checkpoint to resume from: rank 0 (", directories=places)

    # The plan's batches, and versions.
    with open(os.path.join(job, "ranks.txt")) as file:
        ranks = file.read()
    for name, last in (("a", "1"), ("b", "2")):
        with open(name + ".ranks", "w") as file:
            file.write("\n".join(
                line if line[:1] in ("#", "") else " ".join(line.split()[:-1] + [last])
                for line in ranks.splitlines()))
    refused("ranks", [train("ranks-run", "--ranks", name) for name in ("a.ranks", "b.ranks")],
            "--ranks: rank 0 (", "plan: rank 0 (")
    accepted("per rank", [
        train("per-rank-run", "--threads", rank + 1, "--peak-gflops", rank + 1)
        for rank in range(2)])
    report.finish()


main()
