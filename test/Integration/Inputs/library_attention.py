# ===- library_attention.py - Attention by cuDNN, on an emulated GPU --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains with programs that were built for cuDNN's attention, on an emulated GPU
and an emulated cuDNN, and compares:
  losses     with those of the host, within 1 %
  norms      of the gradients, with those of our own kernels, within 1 %
  bits       of two runs
Then the library is missing, too old, needs more memory than was planned, or
fails: what the program says, and that it goes on, or ends."""

import os

import jobs
from jobs import DeviceType, Plan, Rank

# The third step is the first that replays graphs, the fourth goes on from it.
STEPS = 4
HOST = jobs.best_f32_target()
TYPES = (
    DeviceType("host", HOST),
    DeviceType("hopper", "cuda:sm_90", "bf16"),
    DeviceType("ampere", "cuda:sm_80", "f16"),
    DeviceType("volta", "cuda:sm_70", "f16"),
)
OWN = "note: kernels of the program compute attention: "
# Model, type.
RUNS = [
    ("gpt2", "hopper"),  # packed rows
    ("llama", "hopper"),  # grouped heads
    ("mistral", "ampere"),  # windows, in f16
    ("bert", "hopper"),  # all keys
]
# Variables of the emulated library, and what is said.
FAILURES = [
    ({"POPLAR_EMULATED_CUDNN_VERSION": "90501"}, "cuDNN 9.5.1 is too old"),
    ({"POPLAR_EMULATED_CUDNN_VERSION": "91500"}, "needs sequences of a multiple of 128 tokens"),
    ({"POPLAR_EMULATED_CUDNN_FAIL": "create"}, "cuDNN 9.19.0 does not start (EMULATED: no context)"),
    ({"POPLAR_EMULATED_CUDNN_FAIL": "graph"}, "cannot describe attention (EMULATED: no such graph)"),
    ({"POPLAR_EMULATED_CUDNN_FAIL": "plan"}, "does not run attention: EMULATED: the engine refuses"),
    ({"POPLAR_EMULATED_CUDNN_FAIL": "run"}, "fails (EMULATED: the kernel does not start)"),
    ({"POPLAR_EMULATED_CUDNN_WORKSPACE": str(1 << 30)}, "it needs a workspace of"),
    ({"POPLAR_CUDA_ATTENTION": "own"}, "POPLAR_CUDA_ATTENTION=own"),
]


# Those in which the job is also run with cuDNN asked for.
FORCED = (0, 4, 5)


class with_environment:
    def __init__(self, variables):
        self.variables = variables

    def __enter__(self):
        os.environ.update(self.variables)

    def __exit__(self, *_):
        for name in self.variables:
            del os.environ[name]


class Workshop(jobs.Workshop):
    def build_with(self, plan, name, source):
        """A job whose attention comes from `source`, with build.log."""

        def make(target):
            planned = self.planned(plan, name)
            command = ["poplar", "build", planned, "-o", target, "--no-kv-cache"]
            log = jobs.run([*command, "--gpu-attention", source])
            with open(os.path.join(target, "build.log"), "w") as file:
                file.write(log)

        return self.once(self.path(f"job-{name}-{source}"), make)


def make_plan(model, type):
    return Plan(model, 0, (Rank(3, 2, 2, type=type),), TYPES)


OPTIONS = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5]


def compare_norms(run, reference):
    pairs = list(zip(run.norms, reference.norms))
    worst = max(abs(a - b) / b for a, b in pairs)
    failures = [] if len(pairs) == STEPS and worst < 1e-2 else [f"norms {pairs}"]
    return worst, failures


def check_model(workshop, report, model, type):
    plan, name = make_plan(model, type), f"{model}-{type}"
    job = workshop.build_with(plan, name, "cudnn")
    reference = workshop.train_alone(model, f"{name}-alone", plan.samples, OPTIONS)
    with with_environment({"POPLAR_CUDA_ATTENTION": "cudnn"}):
        run = workshop.train(job, f"{name}-run", OPTIONS)
        again = workshop.train(job, f"{name}-again", OPTIONS)
    own = workshop.train(workshop.build_with(plan, name, "own"), f"{name}-own", OPTIONS)
    worst, failures = jobs.compare_losses(run, reference, 1e-2)
    norm, more = compare_norms(run, own)
    failures += more
    with open(os.path.join(job, "build.log")) as file:
        if "cuDNN, if the machine has it (as --gpu-attention says)" not in file.read():
            failures.append("poplar build does not say what computes attention")
    if run.output.count("note: attention is computed by cuDNN 9.19.0") != 1:
        failures.append("does not say once that cuDNN computes attention")
    if "attention is computed" in own.output or OWN in own.output:
        failures.append("a program with own attention speaks of cuDNN")
    if run.losses != again.losses or run.norms != again.norms:
        failures.append("two runs differ")
    report.check(name, failures, f"losses {worst:.1e}, norms {norm:.1e}")


def check_failures(workshop, report):
    plan, name = make_plan("gpt2", "hopper"), "gpt2-hopper"
    job = workshop.build_with(plan, name, "cudnn")
    own = workshop.train(workshop.build_with(plan, name, "own"), "failures-own", OPTIONS)
    for number, (variables, text) in enumerate(FAILURES):
        with with_environment(variables):
            run = workshop.train(job, f"failure-{number}", OPTIONS)
        failures = [] if f"{OWN}" in run.output and text in run.output else [run.output]
        notes = [line for line in run.output.splitlines() if OWN in line]
        # Each pass and size of micro-batch needs a workspace of its own.
        most = 4 if "WORKSPACE" in str(variables) else 1
        if not 1 <= len(notes) <= most or len(set(notes)) != len(notes):
            failures.append(f"does not say so once: {notes}")
        if "attention is computed" in run.output:
            failures.append("speaks of cuDNN")
        if run.losses != own.losses or run.norms != own.norms:
            failures.append("does not train as with own kernels")
        report.check(text, failures)
        if number not in FORCED:
            continue
        # With the library asked for, the job ends.
        try:
            with with_environment({**variables, "POPLAR_CUDA_ATTENTION": "cudnn"}):
                workshop.train(job, f"forced-{number}", OPTIONS)
            failures = ["goes on without the library"]
        except jobs.JobError as error:
            wanted = "error: cuDNN cannot compute attention"
            failures = [] if wanted in str(error) and text in str(error) else [str(error)]
        report.check(f"forced: {text}", failures)
    for variables, wanted in (
        ({"POPLAR_EMULATED_CUDNN_FAIL": "capture"}, "POPLAR_CUDA_ATTENTION=own uses kernels of the program"),
        ({"POPLAR_CUDA_ATTENTION": "best"}, "POPLAR_CUDA_ATTENTION is 'best'; it may be own or cudnn"),
    ):
        try:
            with with_environment(variables):
                workshop.train(job, "ends", OPTIONS)
            failures = ["goes on"]
        except jobs.JobError as error:
            failures = [] if wanted in str(error) else [str(error)]
        report.check(wanted, failures)


def check_choice(workshop, report):
    """What poplar build says of chips and models that cuDNN is not for."""
    for model, type, source, text in (
        ("gpt2", "volta", "cudnn", "own kernels (cuDNN has none before sm_80)"),
        ("gpt2", "hopper", "auto", "own kernels (cuDNN has not been measured on sm_90; --gpu-attention cudnn tries it)"),
        ("gemma2", "hopper", "cudnn", "own kernels (cuDNN: scores are capped)"),
    ):
        plan, name = make_plan(model, type), f"{model}-{type}-choice"
        with open(os.path.join(workshop.build_with(plan, name, source), "build.log")) as file:
            log = file.read()
        report.check(f"{model} on {type}", [] if text in log else [log])


def main():
    arguments = jobs.parse_arguments(__doc__)
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_90"
    workshop, report = Workshop(arguments.directory, ["--dropout", "0"]), jobs.Report()
    for model, type in RUNS:
        check_model(workshop, report, model, type)
    check_failures(workshop, report)
    check_choice(workshop, report)
    report.finish()


if __name__ == "__main__":
    main()
