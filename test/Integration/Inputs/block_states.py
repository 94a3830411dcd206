# ===- block_states.py - AdamW with moments in blocks of 8 or 4 bits --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a tiny Llama whose optimizer states are in 8 bits, or with --format int4 in 4, and
checks that

  definition  steps are those of adamw8bit.py or adamw4bit.py, given the gradients of the
              program: codes of moments, scales, weights; tensors that are small, or end
              inside of a block of 4 bits, have moments in f32
  losses      over 200 steps, they stay near those with states in f32
  jobs        of two unlike device types in the stages 0 to 3, of two pipeline
              stages and of adapters beside nf4 have the losses of one device, hold
              the same on all ranks, and allocate what poplar build said and the
              formula says
  formats     so does a device that computes in bf16
  resuming    gives the losses of a run that was not interrupted, bit by bit; under
              another plan, whose shards end elsewhere, losses near those
  refusals    of checkpoints with states of the other format, both ways

--gpu: trains with executables for GPUs instead, on an emulated one (see
emulated_gpu.py): alone, as a job of stage 0 beside a host, whose masters and
states have to be the same bits, as a job of stage 3 on two types of GPUs, and in
turns with a host, each of which resumes the other's checkpoint."""

import json
import os
import random
import re
import struct

import adamw4bit
import adamw8bit
import adapters
import jobs
from jobs import DeviceType, Plan, Rank

STEPS, SAMPLES = 10, 14
RATE, BETAS, EPSILON, DECAY = 1e-2, (0.9, 0.95), 1e-8, 0.1
OPTIONS = ["--lr", RATE, "--schedule", "constant", "--warmup", 0]
# Of losses, where roundings of moments meet other roundings of gradients.
TOLERANCE = 1e-4
TYPES = (
    *adapters.TYPES,
    DeviceType("brain", "host", "bf16"),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("volta", "cuda:sm_70"),
)
RANKS = (
    Rank(4, 3, 2, state=2.0, type="fast"),
    Rank(2, 3, 0, state=1.0, type="slow"),
)


class Workshop(adapters.Workshop):
    """Also has "odd.int8", ...: a Llama whose matrices end inside of a block, by
    the format of its states; and "odd.qlora", adapters with such states."""

    def __init__(self, directory, form):
        super().__init__(directory)
        self.form = form
        self.states = {"int8": adamw8bit, "int4": adamw4bit}[form]

    def config(self, family):
        def make(target):
            with open(super(Workshop, self).config("llama")) as file:
                options = json.load(file) | {"hidden_size": 72}
            with open(target, "w") as file:
                json.dump(options, file)

        assert family == "odd"
        return self.once(self.path("odd.json"), make)

    def options_of(self, family, kind):
        if kind == "f32":
            return []
        options = ["--optimizer-states", self.form if kind == "qlora" else kind]
        if kind == "qlora":
            options += ["--lora-rank", "64", "--lora-targets", "q_proj,down_proj"]
            options += ["--frozen-format", "nf4"]
        return options


def read_parameters(workshop, name):
    """{name: (elements, is trained, decays)}"""
    with open(workshop.model(name)) as file:
        found = re.findall(
            r"nn\.parameter @(\S+) : tensor<([0-9x]+)x\S+>(.*)", file.read()
        )
    result = {}
    for parameter, shape, words in found:
        elements = 1
        for number in shape.split("x"):
            elements *= int(number)
        words = words.split()
        result[parameter.strip('"')] = (
            elements, "frozen" not in words, "decay" in words
        )  # fmt: skip
    return result


def count_states(states, parameters):
    """Bytes of moments, by the formula."""
    total = 0
    for elements, trained, _ in parameters.values():
        if trained and states.holds(elements):
            total += 2 * states.count_bytes(elements)
        elif trained:
            total += 8 * elements
    return total


def write_sample(path):
    """One sample of token ids, whose gradient is the same in every step."""
    numbers = random.Random(3)
    ids = [numbers.randrange(256) for _ in range(jobs.SEQ_LEN + 1)]
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{2 * jobs.SEQ_LEN}i", *ids[:-1], *ids[1:]))


def check_definition(workshop, report):
    name, steps, states = f"odd.{workshop.form}", 3, workshop.states
    sample, program = workshop.path("sample"), workshop.alone(name)
    write_sample(sample)
    data = ["--data-ids", sample, "--batch", 1, "--global-batch", 1, "--threads", 1]
    run = workshop.train(
        program,
        "definition",
        ["--steps", steps, *OPTIONS, "--clip", 0, *data]
        + ["--save-every", 1, "--keep", 0, "--seed", 5],
    )
    parameters = read_parameters(workshop, name)
    # A matrix that ends inside of a block, and one that does not.
    chosen = ["model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight"]
    chosen = [name for name in chosen if states.holds(parameters[name][0])]
    moments = {}
    failures, differ, count = [], 0, 0
    start = workshop.train(
        program,
        "definition-start",
        ["--steps", 1, "--lr", 0, "--min-lr", 0, "--weight-decay", 0, *data]
        + ["--seed", 5],
    )
    read = jobs.safetensors_reader.read
    for step in range(1, steps + 1):
        before = start.directory
        if step > 1:
            before = os.path.join(run.directory, f"checkpoint-{step - 1}")
        gradients = workshop.path("gradients.safetensors")
        command = ["poplar", "train", program, "--init", before]
        jobs.run([*command, *map(str, data), "--dump-gradients", gradients])
        gradients = read(gradients)[0]
        before = before if step > 1 else os.path.join(before, "latest")
        weights = read(os.path.join(before, "model.safetensors"))[0]
        after = os.path.join(run.directory, f"checkpoint-{step}")
        result = read(os.path.join(after, "model.safetensors"))[0]
        state = read(os.path.join(after, "optimizer.safetensors"))[0]
        for parameter in chosen:
            elements, _, decays = parameters[parameter]
            own = moments.setdefault(parameter, states.start(elements))
            expected = states.step(
                weights[parameter][1], gradients[parameter][1], own, step, RATE,
                BETAS, EPSILON, DECAY if decays else 0,
            )  # fmt: skip
            error = max(abs(x - y) for x, y in zip(result[parameter][1], expected))
            if not error <= 1e-6:
                failures.append(f"step {step}: {parameter} is off by {error:.2g}")
            for moment, letter in zip(own, "mv"):
                codes = state[f"{parameter}.{letter}"][1]
                scales = state[f"{parameter}.{letter}.absmax"][1]
                away = [abs(x - y) for x, y in zip(codes, moment.codes)]
                differ += sum(map(bool, away))
                count += len(away)
                if len(codes) != elements or max(away) > 1:
                    failures.append(f"step {step}: other codes of {parameter}")
                off = [abs(x - y) > 1e-6 * y for x, y in zip(scales, moment.scales)]
                if len(scales) != len(moment.scales) or any(off):
                    failures.append(f"step {step}: other scales of {parameter}")
                # What this step has left is where the next one begins.
                moment.codes, moment.scales = list(codes), list(scales)
    for parameter, (elements, _, _) in parameters.items():
        kind = int if states.holds(elements) else float
        if type(state[f"{parameter}.m"][1][0]) != kind:
            failures.append(f"{parameter} has moments of another type")
    if not chosen or differ > 1e-3 * count:
        failures.append(f"{differ} codes of {count} differ")
    report.check("definition", failures, f"{differ} codes of {count} differ")


def check_losses(workshop, report):
    options = ["--steps", 200, "--lr", 3e-3, "--clip", 1]
    runs = [
        workshop.train_alone(f"odd.{kind}", f"long-{kind}", 4, options)
        for kind in (workshop.form, "f32")
    ]
    # Single steps may be that far apart; at the end, they are nearer.
    tolerance = {"int8": 1e-1, "int4": 2.5e-1}[workshop.form]
    worst, failures = jobs.compare_losses(*runs, tolerance=tolerance)
    if runs[0].losses == runs[1].losses:
        failures.append("fewer bits change nothing")
    ends = [sum(run.losses[-20:]) / 20 for run in runs]
    if not abs(ends[0] - ends[1]) <= 5e-3 * ends[1]:
        failures.append(f"the last losses are {ends[0]:.4f} and {ends[1]:.4f}")
    report.check(
        "losses",
        failures,
        f"{worst:.1e} apart at most; the last are {ends[0]:.4f}, {ends[1]:.4f} in f32",
    )


def check_job(workshop, report, plan, title, reference, options=()):
    parameters = read_parameters(workshop, plan.model)
    job = workshop.build(plan, title)
    table = workshop.path(f"{title}.csv")
    options = ["--steps", STEPS, *OPTIONS, *options, "--report-memory", table]
    if plan.stage < 3 and not plan.groups:
        options.append("--check-replicas")
    run = workshop.train(job, f"{title}-run", options)
    worst, failures = jobs.compare_losses(run, reference, TOLERANCE)
    # Each stage of a pipeline has some of it.
    expected = {} if plan.groups else {"optimizer": count_states(workshop.states, parameters)}
    failures += adapters.check_memory(job, table, plan.stage, **expected)
    report.check(title, failures, f"losses {worst:.1e}")


def check_jobs(workshop, report):
    options = ["--steps", STEPS, *OPTIONS]
    reference = workshop.train_alone(f"odd.{workshop.form}", "reference", SAMPLES, options)
    for stage in range(4):
        plan = Plan(f"odd.{workshop.form}", stage, RANKS, TYPES)
        check_job(workshop, report, plan, f"stage{stage}", reference)
    ranks = (
        Rank(2, 7, 2, type="fast", group=0, turns=()),
        Rank(2, 7, 2, type="slow", group=1, turns=()),
    )
    groups = (((0, 2), 0), ((2, 4), 0))
    plan = Plan(f"odd.{workshop.form}", 0, ranks, TYPES, groups, "1f1b")
    check_job(workshop, report, plan, "pipeline", reference)
    reference = workshop.train_alone("odd.qlora", "qlora", SAMPLES, options)
    check_job(
        workshop, report, Plan("odd.qlora", 3, RANKS, TYPES), "qlora3", reference
    )


def check_formats(workshop, report):
    if not jobs.cpu_has("avx512bw"):
        print("skipped: bf16, which needs AVX-512")
        return
    plan = Plan(f"odd.{workshop.form}", 0, (Rank(SAMPLES, 1, SAMPLES, type="brain"),), TYPES)
    table = workshop.path("brain.csv")
    job = workshop.build(plan, "brain")
    options = ["--steps", STEPS, *OPTIONS, "--report-memory", table]
    run = workshop.train(job, "brain-run", options)
    reference = jobs.Run(workshop.path("reference"))
    worst, failures = jobs.compare_losses(run, reference, 2e-2)
    parameters = read_parameters(workshop, f"odd.{workshop.form}")
    masters = 4 * sum(elements for elements, *_ in parameters.values())
    failures += adapters.check_memory(
        job, table, 0, optimizer=count_states(workshop.states, parameters) + masters
    )
    report.check("bf16", failures, f"losses {worst:.1e}")


def check_resume(workshop, report):
    _, failures = adapters.check_resume(workshop, f"odd.{workshop.form}", STEPS, SAMPLES, OPTIONS)
    report.check("resume", failures)
    reference = jobs.Run(workshop.path("reference"))
    batch = ["--global-batch", SAMPLES, "--batch", SAMPLES, "--threads", 1]
    plans = {
        "alone": (workshop.alone(f"odd.{workshop.form}"), batch),
        "stage1": (workshop.path("stage1"), []),
        "stage3": (workshop.path("stage3"), []),
    }
    for first, second in (("alone", "stage3"), ("stage3", "stage1")):
        name = f"{first}-then-{second}"
        for plan, steps in ((first, STEPS // 2), (second, STEPS)):
            program, options = plans[plan]
            options = ["--steps", steps, *OPTIONS, *options]
            run = workshop.train(program, name, options, resume=steps == STEPS)
        worst, failures = jobs.compare_losses(run, reference, TOLERANCE)
        if f"at step {STEPS // 2}" not in run.output:
            failures.append("did not resume")
        report.check(name, failures, f"losses {worst:.1e}")


def check_refusals(workshop, report):
    workshop.train_alone("odd.f32", "wide", SAMPLES, ["--steps", 2, *OPTIONS])
    bits = f"{workshop.form[3:]} bits"
    other = "int4" if workshop.form == "int8" else "int8"
    others = f"{other[3:]} bits"
    for kind, run, has, keeps in (
        ("f32", "alone-then-stage3", bits, "f32"),
        (workshop.form, "wide", "f32", bits),
        (other, "alone-then-stage3", bits, others),
    ):
        status, output = jobs.execute(
            ["poplar", "train", workshop.alone(f"odd.{kind}"), "--resume"]
            + ["--out", workshop.path(run), "--steps", "20", "--data"]
            + [os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")]
        )
        format_of = {"8 bits": "int8", "4 bits": "int4", "f32": "f32"}[has]
        expected = (
            f"in {has}, and this program keeps it in {keeps}; resume with a program "
            f"of the model as imported with --optimizer-states {format_of}"
        )
        failures = []
        if status == 0 or expected not in output:
            failures.append(f"exit status {status}: {output}")
        report.check(f"{run} with states in {kind}", failures)


# The emulation is slow.
GPU_STEPS, GPU_SAMPLES = 2, 4
GPU_OPTIONS = ["--lr", 1e-3, *OPTIONS[2:]]


def check_gpu_jobs(workshop, report):
    options = ["--steps", GPU_STEPS, *GPU_OPTIONS]
    reference = workshop.train_alone(f"odd.{workshop.form}", "reference", GPU_SAMPLES, options)
    for stage, kinds in (
        (0, ["ampere"]),
        (0, ["volta", "slow"]),
        (3, ["ampere", "volta"]),
    ):
        share = GPU_SAMPLES // len(kinds)
        ranks = tuple(Rank(share, 1, share, type=kind) for kind in kinds)
        plan = Plan(f"odd.{workshop.form}", stage, ranks, TYPES)
        title = f"stage{stage}-{'-'.join(kinds)}"
        job = workshop.build(plan, title)
        table = workshop.path(f"{title}.csv")
        more = ["--report-memory", table]
        if len(kinds) > 1 and stage == 0:
            more.append("--check-replicas")
        run = workshop.train(job, f"{title}-run", [*options, *more])
        worst, failures = jobs.compare_losses(run, reference, TOLERANCE)
        parameters = read_parameters(workshop, f"odd.{workshop.form}")
        failures += adapters.check_memory(
            job, table, stage, has_peaks=False,
            optimizer=count_states(workshop.states, parameters)
        )
        report.check(title, failures, f"losses {worst:.1e}")


def check_gpu_resume(workshop, report):
    reference = jobs.Run(workshop.path("reference"))
    batch = ["--global-batch", GPU_SAMPLES, "--batch", GPU_SAMPLES, "--threads", 1]
    plans = {
        "host": (workshop.alone(f"odd.{workshop.form}"), batch),
        "gpu": (workshop.path("stage0-ampere"), []),
    }
    for first, second in (("host", "gpu"), ("gpu", "host")):
        name = f"{first}-then-{second}"
        for plan, steps in ((first, 1), (second, GPU_STEPS)):
            program, more = plans[plan]
            options = ["--steps", steps, *GPU_OPTIONS, *more]
            run = workshop.train(program, name, options, resume=steps > 1)
        worst, failures = jobs.compare_losses(run, reference, TOLERANCE)
        if "at step 1" not in run.output:
            failures.append("did not resume")
        report.check(name, failures, f"losses {worst:.1e}")


def main():
    def add_options(parser):
        parser.add_argument("--gpu", action="store_true")
        parser.add_argument("--format", choices=["int8", "int4"], default="int8")

    arguments = jobs.parse_arguments(__doc__, add_options)
    workshop = Workshop(arguments.directory, arguments.format)
    report = jobs.Report()
    for check in (
        (check_gpu_jobs, check_gpu_resume)
        if arguments.gpu
        else (
            check_definition,
            check_losses,
            check_jobs,
            check_formats,
            check_resume,
            check_refusals,
        )
    ):
        try:
            check(workshop, report)
        except jobs.JobError as error:
            report.check("command", [str(error)])
    report.finish()


main()
