# ===- cuda_attention.py - Attention by our kernels, and by cuDNN -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Rows of check_cuda.py's table that run programs built for cuDNN's attention both
ways: numbers against the host's, then the time of each pass, the rate of the whole
step, and which is faster. Standard library only."""

from cuda_checks import Failure, Skip, column, largest_difference, require_room
from cuda_speed import read_rate, read_times

NAME = "POPLAR_CUDA_ATTENTION"
OWN, LIBRARY = {NAME: "own"}, {NAME: "cudnn"}


def check_attention(bundle):
    for program in bundle.programs("attention"):
        yield (f"attention {program['name']}, {program.get('chip', '')}", 4,
               lambda program=program: check_numbers(bundle, program))  # fmt: skip
    for program in bundle.programs("benchmark"):
        if program.get("attention"):
            yield (f"attention of {program['name']}", 40,
                   lambda program=program: compare_speed(bundle, program))  # fmt: skip


def check_numbers(bundle, program):
    """Losses by cuDNN: those of the host, and the same bits twice."""
    if "skip" in program:
        raise Skip(program["skip"])
    options = [*program["options"], "--peak-gflops", 1]
    runs = [column(bundle.train(program, "attention", options, LIBRARY), "loss") for _ in range(2)]
    error = largest_difference(runs[0], program["losses"])
    text = f"losses by cuDNN within {error:.1e} of the host's, {program['tolerance']:g} allowed"
    if not error <= program["tolerance"]:
        raise Failure(text)
    if runs[0] != runs[1]:
        raise Failure("two runs with cuDNN's attention differ: its gradient does not repeat")
    return text + "; two runs are the same"


def measure(bundle, program, how):
    """Microseconds of attention forward and of its gradient in a micro-step, then
    tokens/s of steps with graphs."""
    options = ["--steps", 4, "--skip-save", "--peak-gflops", 1]
    path = bundle.work("attention.csv")
    times = {"POPLAR_CUDA_TIMES": path, "POPLAR_CUDA_GRAPHS": "0", **how}
    bundle.train(program, "attention", options, times)
    forward = gradient = 0
    for what, calls, seconds, _, _ in read_times(path):
        if "attention" in what and "cached" not in what and calls:
            each = 1e6 * seconds / calls
            # Our gradient is two kernels.
            forward += each if "forward" in what else 0
            gradient += each if "backward" in what else 0
    return forward, gradient, read_rate(bundle.train(program, "attention", options, how))


def compare_speed(bundle, program):
    if "skip" in program:
        raise Skip(program["skip"])
    require_room(bundle, program)
    own, library = (measure(bundle, program, how) for how in (OWN, LIBRARY))
    text = "; ".join(
        f"{name}: {forward:.0f} us forward, {gradient:.0f} us gradient, {rate:.0f} tokens/s"
        for name, (forward, gradient, rate) in (("own", own), ("cuDNN", library))
    )
    faster = "cuDNN" if library[2] > own[2] else "own"
    return f"{text}; faster: {faster}, {max(own[2], library[2]) / min(own[2], library[2]):.3f} times"
