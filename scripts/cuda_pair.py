# ===- cuda_pair.py - Two unlike ranks on one GPU ---------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The rows of check_cuda.py's table that need two ranks on one GPU. Standard
library only."""

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess

from cuda_checks import WARMUP_STEPS, Failure, Skip, column, find_reason, largest_difference

MPS_SHARES = (75, 25)
# Of the sum of what two ranks do alone.
PAIR_GOAL = 0.95


@contextlib.contextmanager
def mps(bundle):
    """NVIDIA's multi-process service, with a control daemon of our own. Yields
    the environment of its clients."""
    directory = bundle.work("mps")
    os.makedirs(directory, exist_ok=True)
    environment = {
        "CUDA_MPS_PIPE_DIRECTORY": directory,
        "CUDA_MPS_LOG_DIRECTORY": directory,
    }
    try:
        bundle.run(["nvidia-cuda-mps-control", "-d"], environment, own=False, limit=60)
    except (OSError, Failure) as error:
        raise Skip(f"MPS cannot be started: {error}") from None
    try:
        yield environment
    finally:
        subprocess.run(
            ["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=60,
            env={**os.environ, **environment}, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def start_pair(runner, commands, environments):
    """Starts a command per rank; returns what rank 0 said."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = []
    for rank, (command, environment) in enumerate(zip(commands, environments)):
        place = {"RANK": str(rank), "WORLD_SIZE": str(len(commands))}
        place.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        ranks.append(
            subprocess.Popen(
                [str(word) for word in command], text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment, **place},
            )  # fmt: skip
        )
    try:
        outputs = [p.communicate(timeout=max(runner.clock.left(), 1))[0] for p in ranks]
    except subprocess.TimeoutExpired:
        raise Failure("the ranks did not end before the deadline") from None
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
    runner.log.write("".join(outputs))
    for process, output in zip(ranks, outputs):
        if process.returncode:
            raise Failure(find_reason(process.returncode, output))
    return outputs[0]


class Pair:
    """Two ranks of one model on one GPU."""

    def __init__(self, bundle, program, environments):
        self.bundle, self.program = bundle, program
        self.environments, self.runs = environments, 0
        self.alone = {**program, "path": program["alone"]}

    def profile(self, rank):
        """{micro-batch: seconds} of a rank's share of the GPU, others idle."""
        out = self.bundle.work(f"profile{rank}.json")
        self.bundle.run(
            [self.bundle.executable(self.alone), "profile", "--out", out,
             "--max-batch", self.program["max_batch"]], self.environments[rank],
        )  # fmt: skip
        with open(out) as file:
            profile = json.load(file)["profiles"][0]
        return dict(zip(profile["micro_batches"], profile["seconds"]))

    def split(self, policy, curves):
        text = [",".join(f"{b}={s:.9g}" for b, s in c.items()) for c in curves]
        command = [self.bundle.path("bin", "split-batch"), policy]
        lines = self.bundle.run([*command, self.program["global_batch"], *text]).splitlines()
        return [tuple(map(int, line.split())) for line in lines]

    def speed_alone(self, rank):
        """Tokens per second of whole iterations by one rank, the other idle."""
        out = self.bundle.train(
            self.alone, f"alone{rank}",
            ["--steps", WARMUP_STEPS + 5, "--skip-save", "--peak-gflops", 1],
            self.environments[rank],
        )  # fmt: skip
        return statistics.median(column(out, "tokens_per_s")[WARMUP_STEPS:])

    def train(self, shares, steps):
        """The directory of a run with these batches."""
        self.runs += 1
        ranks, out = self.bundle.work(f"ranks{self.runs}.txt"), self.bundle.work(f"pair{self.runs}")
        shutil.rmtree(out, ignore_errors=True)
        with open(ranks, "w") as file:
            for rank, (micro, count, last) in enumerate(shares):
                file.write(f"{rank} localhost gpu 1 {micro} {count} {last}\n")
        command = [
            self.bundle.executable(self.program), "train", "--data-format", "bytes", "--data",
            self.bundle.path("corpus.txt"), "--ranks", ranks, "--out", out,
            "--steps", steps, "--peak-gflops", 1, "--skip-save",
            "--eval-every", 0, "--log-every", 1000,
        ]  # fmt: skip
        start_pair(self.bundle.runner, [command] * 2, self.environments)
        return out


def check_pair(bundle):
    programs = bundle.programs("pair")
    if not programs:
        return
    program = programs[0]
    tokens = program["global_batch"] * program["seq_len"]

    def same_curve():
        """The batches change nothing but the time: also in the emulation."""
        pair = Pair(bundle, program, [{}, {}])
        samples, third = program["global_batch"], program["global_batch"] // 3
        uniform = [(1, samples // 2, 1), (1, samples - samples // 2, 1)]
        uneven = [(2, third, 2), (1, samples - 2 * third, 1)]
        ours, theirs = (column(pair.train(s, 2), "loss") for s in (uneven, uniform))
        error = largest_difference(ours, theirs)
        limit = program["tolerance"]
        text = f"losses with uneven batches within {error:.1e} of those with even ones"
        if not error <= limit:
            raise Failure(f"{text}, {limit:g} allowed")
        return text

    def shares():
        if bundle.emulated:
            raise Skip("an emulated GPU has neither shares nor speeds")
        with mps(bundle) as service:
            pair = Pair(
                bundle, program,
                [{**service, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)}
                 for share in MPS_SHARES],
            )  # fmt: skip
            curves = [pair.profile(rank) for rank in range(2)]
            alone = [pair.speed_alone(rank) for rank in range(2)]
            speeds = {}
            for policy in ("exact", "uniform"):
                out = pair.train(pair.split(policy, curves), WARMUP_STEPS + 5)
                rates = column(out, "tokens_per_s")[WARMUP_STEPS:]
                speeds[policy] = statistics.median(rates)
        ideal = sum(alone)
        part = speeds["exact"] / ideal
        text = (
            f"alone {alone[0]:.0f} + {alone[1]:.0f} tokens/s; Poplar's plan "
            f"{speeds['exact']:.0f}, {part:.3f} of their sum; uniform "
            f"{speeds['uniform']:.0f}; {speeds['exact'] / speeds['uniform']:.2f} x "
            f"uniform ({tokens} tokens a step)"
        )
        if part < PAIR_GOAL:
            raise Failure(f"{text}; {PAIR_GOAL} is the goal")
        return text

    if "skip" in program:
        yield "unlike pair", 0, lambda: (_ for _ in ()).throw(Skip(program["skip"]))
        return
    yield "two ranks, one GPU", 5, same_curve
    yield f"unlike pair, {MPS_SHARES[0]} : {MPS_SHARES[1]}", 0 if bundle.emulated else 60, shares
