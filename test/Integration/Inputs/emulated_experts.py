# ===- emulated_experts.py - Mixtures of experts on an emulated GPU ---------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains mixtures of experts with executables for GPUs, on an emulated one (see
emulated_gpu.py), from the weights of goldens:
  gradients  the loss and the gradients of a batch are PyTorch's, in f32 as on a
             host, in bf16 and f16 within 1 % and with cosines of at least 0.999
  losses     of some steps are those of the host: 1e-5 apart in f32, 1 % in bf16
             and f16; in f32 so are updates, as in equivalence.py
  adapters   beside frozen experts: losses are those of the host, which evaluates
             what the GPU has trained
  moving     a run that goes from the GPU to the host and back has the losses of
             one that stays on the host
  jobs       the same of a GPU and a host in one job
  many       a layer of more experts than 4096 bytes of pointers are for trains as
             on a host, with drivers for CUDA 12.1 or newer
Nothing here runs on a GPU."""

import json
import os
import sys

import adapters
import jobs
from jobs import DeviceType, Plan, Rank

GOLDENS = os.path.join(jobs.SOURCES, "test", "Integration", "goldens")
CHECK = os.path.join(jobs.SOURCES, "scripts", "goldens", "check_goldens.py")
TYPES = (
    DeviceType("host", jobs.best_f32_target()),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("turing_f16", "cuda:sm_75", "f16"),
    DeviceType("ampere_f16", "cuda:sm_80", "f16"),
    DeviceType("hopper_bf16", "cuda:sm_90", "bf16"),
)
# On vector units, and from sm_80 on tensor cores.
ALONE = [
    ("gpt_oss", "ampere", 1e-5),
    ("gpt_oss", "hopper_bf16", 1e-2),
    ("mixtral", "turing_f16", 1e-2),
    ("mixtral", "hopper_bf16", 1e-2),
    ("qwen2_moe", "hopper_bf16", 1e-2),
    ("qwen3_moe", "ampere", 1e-5),
    ("qwen3_moe", "ampere_f16", 1e-2),
    ("qwen3_moe", "hopper_bf16", 1e-2),
    ("qwen3_next", "ampere", 1e-5),
]
# With bits of bf16, some of their tokens choose another expert than in f32, whose
# gradients are of other tokens then; or some columns of gpt_oss are clamped that were
# not, as in PyTorch, whose gradients in bf16 have cosines down to 0.990.
OTHER_CHOICES = {
    ("gpt_oss", "hopper_bf16"),
    ("qwen2_moe", "hopper_bf16"),
    ("qwen3_moe", "hopper_bf16"),
}
# Three samples, as goldens have.
OPTIONS = ["--lr", 1e-3, "--clip", 0.5]
MANY = 512


class Workshop(jobs.Workshop):
    """Has the models of goldens, the same with adapters ("qwen3_moe.lora"), and one
    of many experts."""

    def model(self, name):
        family, _, kind = name.partition(".")

        def make(target):
            command = ["poplar", "import", self.config(family), "--seq-len", "24"]
            if kind == "lora":
                targets = "q_proj,v_proj,lm_head"
                command += ["--lora-rank", "4", "--lora-targets", targets]
            jobs.run([*command, "-o", target])

        return self.once(self.path(f"{name}.mlir"), make)

    def config(self, family):
        if family != "many":
            return os.path.join(GOLDENS, family)
        path = self.path("many.json")
        with open(os.path.join(GOLDENS, "mixtral", "config.json")) as file:
            options = json.load(file)
        sizes = {"num_local_experts": MANY, "num_hidden_layers": 1}
        options.update(sizes, hidden_size=16, intermediate_size=8)
        with open(path, "w") as file:
            json.dump(options, file)
        return path

    def start(self, name, resume=False):
        """Options of runs: the golden's weights, unless they are resumed, and its
        batch as data."""
        family = name.partition(".")[0]
        if family == "many":
            return OPTIONS
        golden = os.path.join(GOLDENS, family)
        options = [*OPTIONS, "--data-ids", os.path.join(golden, "batch3.tokens")]
        return options + ["--init", golden] * (not resume)

    def on(self, name, kind, micro_batch=2):
        """The job of one rank."""
        rank = Rank(micro_batch, 2, 3 - micro_batch, type=kind)
        return self.build(Plan(name, 0, (rank,), TYPES), f"{name}-{kind}")


def compare(workshop, report, title, name, job, tolerance, steps, options=(), own=()):
    """Some steps against those of the host; `own` are options of the job alone."""
    options = ["--steps", steps, *workshop.start(name), *options]
    reference = workshop.train_alone(name, f"{title}-host", 3, options)
    run = workshop.train(job, f"{title}-run", [*options, *own])
    worst, failures = jobs.compare_losses(run, reference, tolerance)
    note = f"losses {worst:.1e}"
    if tolerance == jobs.LOSS_TOLERANCE:
        still = [*workshop.start(name), "--steps", 1, "--lr", 0, "--min-lr", 0]
        still += ["--weight-decay", 0]
        initial = workshop.train_alone(name, f"{title}-initial", 3, still).tensors()
        update, more = jobs.compare_updates(run, reference, initial)
        failures += more
        note += f", updates {update:.1e}"
    report.check(title, failures, note)
    return run, reference


def check_gradients(workshop, report, name, kind, tolerance):
    golden, title = os.path.join(GOLDENS, name), f"{name}-{kind}"
    gradients, log = workshop.path(f"{title}.st"), workshop.path(f"{title}.log")
    command = ["poplar", "train", workshop.on(name, kind), *workshop.start(name)]
    command += ["--peak-gflops", 1, "--dump-gradients", gradients]
    with open(log, "w") as file:
        file.write(jobs.run(list(map(str, command))))
    precision = "f32" if tolerance == jobs.LOSS_TOLERANCE else "bf16"
    command = [sys.executable, CHECK, golden, "--precision", precision, "--log", log]
    failures = []
    try:
        jobs.run([*command, "--gradients", gradients])
    except jobs.JobError as error:
        failures.append(str(error))
    report.check(f"{title}-gradients", failures)


def check_adapters(workshop, report):
    name, kind = "qwen3_moe.lora", "hopper_bf16"
    job = workshop.on(name, kind)
    options = ["--lr", 1e-2]
    run, host = compare(workshop, report, name, name, job, 1e-2, 3, options)
    failures, base = [], os.path.join(GOLDENS, "qwen3_moe")
    if not run.losses[-1] < run.losses[0] - 0.05:
        failures.append(f"nothing was learnt: losses {run.losses}")
    # The host goes on from the GPU's adapter.
    first = [
        adapters.first_loss(
            workshop, workshop.alone(name), "--init", base, "--init-adapter", of
        )
        for of in (run.directory, host.directory)
    ]
    if not abs(first[0] - first[1]) <= 1e-2 * first[1]:
        failures.append(f"the host's loss with the GPU's adapter is {first[0]}")
    report.check(f"{name}-on-host", failures, f"losses {first[0]:.4f}, {first[1]:.4f}")


def check_moving(workshop, report):
    """From the GPU to the host and back."""
    name, title = "qwen3_moe", "moving"
    constant = ["--schedule", "constant", "--warmup", 0]
    options = ["--steps", 4, *constant, *workshop.start(name)]
    reference = workshop.train_alone(name, f"{title}-host", 3, options)
    gpu, host = workshop.on(name, "ampere"), workshop.alone(name)
    for steps, program in ((2, gpu), (3, host), (4, gpu)):
        resume = steps > 2
        options = ["--steps", steps, *constant, *workshop.start(name, resume)]
        if program == host:
            options += ["--global-batch", 3, "--batch", 3, "--threads", 1]
        run = workshop.train(program, f"{title}-run", options, resume)
    worst, failures = jobs.compare_losses(run, reference)
    report.check(title, failures, f"losses {worst:.1e}")


def check_together(workshop, report):
    os.environ["POPLAR_COMM"] = "host"
    ranks = (Rank(1, 1, 1, type="ampere"), Rank(2, 1, 2, state=2.0, type="host"))
    name, title = "qwen3_moe", "qwen3_moe-stage2-ampere-host"
    job = workshop.build(Plan(name, 2, ranks, TYPES), title)
    compare(workshop, report, title, name, job, 1e-5, 3, own=["--check-replicas"])


def check_many(workshop, report):
    job = workshop.on("many", "ampere", 3)
    compare(workshop, report, f"{MANY}-experts", "many", job, 1e-5, 1)
    os.environ["POPLAR_EMULATED_CUDA"] = "12000"
    failures = []
    try:
        workshop.train(job, "old-driver", [*OPTIONS, "--steps", 1])
        failures.append("an old driver is not refused")
    except jobs.JobError as error:
        expected = "for CUDA 12.0, knows no PTX 8.1, which"
        if expected not in str(error):
            failures.append(f"expected '{expected}' in: {error}")
    del os.environ["POPLAR_EMULATED_CUDA"]
    report.check("old-driver", failures)


def main():
    arguments = jobs.parse_arguments(__doc__)
    os.environ["POPLAR_EMULATED_GPUS"] = "sm_90"
    workshop, report = Workshop(arguments.directory), jobs.Report()
    try:
        for name, kind, tolerance in ALONE:
            if (name, kind) not in OTHER_CHOICES:
                check_gradients(workshop, report, name, kind, tolerance)
            job = workshop.on(name, kind)
            compare(workshop, report, f"{name}-{kind}", name, job, tolerance, 3)
        check_adapters(workshop, report)
        check_moving(workshop, report)
        check_together(workshop, report)
        check_many(workshop, report)
    except jobs.JobError as error:
        report.check("command", [str(error)])
    report.finish()


main()
