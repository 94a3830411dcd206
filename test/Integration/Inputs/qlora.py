# ===- qlora.py - Adapters beside quantised weights --------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains adapters of a tiny Llama, or with --experts of a tiny Mixtral, whose frozen
weights are quantised, and checks that

  rounding   losses and adapters are, bit by bit, those beside weights in f32 that
             quantized.py has rounded (lora.py and Adapters/peft.test compare these
             with PEFT); poplar merge gives the rounded weights and the adapters
             beside them, whose validation loss is that of the run; poplar evaluate
             and poplar sample give the same for both
  formats    in bf16 and with activations in f16, losses are near those
  jobs       of two unlike device types in the stages 0 to 3 have the losses and the
             updates of one device, hold the same bytes on all ranks, and allocate
             what poplar build said
  memory     frozen weights take the bytes of their format and no more
  resuming   gives the losses of a run that was not interrupted, bit by bit

--gpu: trains with executables for GPUs instead, on an emulated one (see
emulated_gpu.py), alone and as a job of stage 3 beside a host, and compares with
the host."""

import json
import os
import re
import struct

import adapters
import jobs
import quantized
from jobs import DeviceType, Plan, Rank

STEPS, SAMPLES, CLIP = 8, 14, 0.01
OPTIONS = ["--steps", STEPS, "--lr", 1e-2, "--clip", CLIP]
FORMATS = ("nf4", "nf4_double", "int8")
# What is quantised: of experts, all weights but the router's.
LINEAR = re.compile(r"\.((q|k|v|o|gate|up|down)_proj|experts\.\d+\.w[123])\.weight$")
MODULES = {"llama": "q_proj,v_proj,down_proj", "mixtral": "q_proj,v_proj"}
TYPES = (
    *adapters.TYPES,
    DeviceType("half", "host:f16-storage", "f16"),
    DeviceType("brain", "host", "bf16"),
    DeviceType("ampere", "cuda:sm_80"),
    DeviceType("hopper", "cuda:sm_90", "bf16"),
)


class Workshop(adapters.Workshop):
    """Also has "llama.same", "llama.nf4", ...: that model with adapters, and the
    format of what is frozen, experts among it."""

    def options_of(self, family, kind):
        options = ["--lora-rank", "4", "--lora-targets", MODULES[family]]
        if family == "mixtral" and kind != "same":
            options.append("--quantize-experts")
        return [*options, "--frozen-format", kind]


def write_rounded(base, form, directory):
    """The checkpoint in `base`, with linear weights rounded to a format."""
    tensors = jobs.safetensors_reader.read(os.path.join(base, "model.safetensors"))[0]
    header, data = {}, []
    offset = 0
    for name, (shape, values) in tensors.items():
        if LINEAR.search(name):
            values = quantized.round_matrix(form, shape, list(values))
        data.append(struct.pack(f"<{len(values)}f", *values))
        end = offset + len(data[-1])
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    os.makedirs(directory)
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    with open(os.path.join(base, "config.json")) as source:
        with open(os.path.join(directory, "config.json"), "w") as target:
            target.write(source.read())


def evaluate(workshop, run):
    """The loss that poplar evaluate prints of a run, on a part of the corpus."""
    data = workshop.path("evaluated.txt")
    if not os.path.exists(data):
        corpus = os.path.join(jobs.SOURCES, "examples", "data", "corpus.txt")
        with open(corpus, "rb") as source, open(data, "wb") as target:
            target.write(source.read(3000))
    command = ["poplar", "evaluate", run.directory, "--data", data]
    found = re.search(
        r"loss (\S+), perplexity", jobs.run([*command, "--data-format", "bytes"])
    )
    return float(found[1]) if found else float("nan")


def check_rounding(workshop, report, family, base, form):
    name = f"{family}.{form}"
    rounded = workshop.path(f"rounded-{form}")
    write_rounded(base, form, rounded)
    run = workshop.train_alone(name, f"{name}-run", SAMPLES, [*OPTIONS, "--init", base])
    plain = workshop.train_alone(
        f"{family}.same", f"{name}-plain", SAMPLES, [*OPTIONS, "--init", rounded]
    )
    failures = []
    if run.losses != plain.losses:
        failures.append(f"losses {run.losses}, expected {plain.losses}")
    if run.tensors() != plain.tensors():
        failures.append("other adapters than beside rounded weights")
    for directory, of in ((run.directory, "ours"), (plain.directory, "plain")):
        jobs.run(["poplar", "merge", directory, "-o", workshop.path(f"{form}-{of}")])
    path = workshop.path(f"{form}-%s", "model.safetensors")
    ours, theirs = (
        jobs.safetensors_reader.read(path % of)[0] for of in ("ours", "plain")
    )
    if ours != theirs:
        failures.append("merging gives other weights than beside rounded ones")
    merged = adapters.first_loss(
        workshop, workshop.alone(family), "--init", workshop.path(f"{form}-ours")
    )
    beside = adapters.first_loss(
        workshop,
        workshop.alone(name),
        *["--init", base, "--init-adapter", run.directory],
    )
    if not abs(merged - beside) <= 1e-5 * merged:
        failures.append(f"the loss is {beside} with adapters, {merged} merged")
    sample = ["--prompt", "A", "--tokens", "4", "--seed", "3"]
    texts = [jobs.run(["poplar", "sample", of.directory, *sample]) for of in (run, plain)]
    if not texts[0] or texts[0] != texts[1]:
        failures.append(f"{texts[0]!r} is sampled, {texts[1]!r} beside rounded weights")
    losses = [evaluate(workshop, of) for of in (run, plain)]
    if losses[0] != losses[1]:
        failures.append(f"evaluation gives {losses[0]}, beside rounded ones {losses[1]}")
    report.check(f"{form}-rounding", failures, f"losses {beside:.6f} and {merged:.6f}")
    return run


def check_formats(workshop, report, family, base, form):
    """One device that computes in another format than f32."""
    reference = workshop.path(f"{family}.{form}-run")
    kinds = [("half", 1e-2)]
    if jobs.cpu_has("avx512bw"):
        kinds.append(("brain", 2e-2))
    for kind, tolerance in kinds:
        ranks = (Rank(SAMPLES, 1, SAMPLES, type=kind),)
        plan = Plan(f"{family}.{form}", 0, ranks, TYPES)
        job = workshop.build(plan, f"{form}-{kind}")
        run = workshop.train(job, f"{form}-{kind}-run", [*OPTIONS, "--init", base])
        worst, failures = jobs.compare_losses(run, jobs.Run(reference), tolerance)
        report.check(f"{form}-{kind}", failures, f"losses {worst:.1e}")


def count_parameters(module, form):
    """Bytes of working copies in f32, and elements that are trained."""
    held = trained = 0
    for shape, kind, frozen in re.findall(
        r"nn\.parameter @\S+ : tensor<([0-9x]+)x(f32|!nn\.quantized<\w+>)>"
        r".*?( frozen)?$",
        module,
        re.MULTILINE,
    ):
        sizes = [int(number) for number in shape.split("x")]
        elements = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
        held += 4 * elements if kind == "f32" else quantized.count_bytes(form, *sizes)
        trained += 0 if frozen else elements
    return held, trained


def check_jobs(workshop, report, family, base, form, reference, stages):
    name = f"{family}.{form}"
    with open(workshop.model(name)) as file:
        held, trained = count_parameters(file.read(), form)
    initial = workshop.initial_weights(name)
    for stage in stages:
        ranks = (
            Rank(4, 3, 2, state=2.0, type="fast"),
            Rank(2, 3, 0, state=1.0, type="slow"),
        )
        plan = Plan(name, stage, ranks, TYPES)
        assert plan.samples == SAMPLES
        title = f"{name}-stage{stage}"
        job = workshop.build(plan, title)
        table = workshop.path(f"{title}.csv")
        options = [*OPTIONS, "--init", base, "--report-memory", table]
        if stage < 3:
            options.append("--check-replicas")
        run = workshop.train(job, f"{title}-run", options)
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        failures += adapters.check_memory(
            job,
            table,
            stage,
            parameters=held,
            gradients=4 * trained,
            optimizer=8 * trained,
        )
        if stage == 3:
            evaluated, alone = evaluate(workshop, run), evaluate(workshop, reference)
            if not abs(evaluated - alone) <= 1e-4 * alone:
                failures.append(f"evaluation gives {evaluated}, alone {alone}")
        report.check(title, failures, f"losses {loss:.1e}, updates {update:.1e}")


def check_resume(workshop, report, family, base, form):
    name = f"{family}.{form}"
    options = [*OPTIONS, "--init", base]
    _, failures = adapters.check_resume(workshop, name, STEPS, SAMPLES, options)
    report.check(f"{name}-resume", failures)


def check_gpus(workshop, report, family, base):
    # The emulation is slow.
    options = ["--steps", 2, *OPTIONS[2:], "--init", base]
    cases = [
        ("nf4", 1e-5, 0, ["ampere"]),
        ("nf4_double", 1e-5, 3, ["ampere", "fast"]),
        ("int8", 2e-2, 0, ["hopper"]),
    ]
    # Experts' products on tensor cores dequantise.
    if family == "mixtral":
        cases.append(("nf4_double", 2e-2, 0, ["hopper"]))
    for form, tolerance, stage, kinds in cases:
        name = f"{family}.{form}"
        share = 4 // len(kinds)
        reference = workshop.train_alone(name, f"{name}-host", 4, options)
        ranks = tuple(Rank(share, 1, share, type=kind) for kind in kinds)
        title = f"{form}-{'-'.join(kinds)}"
        job = workshop.build(Plan(name, stage, ranks, TYPES), title)
        run = workshop.train(job, f"{title}-run", options)
        worst, failures = jobs.compare_losses(run, reference, tolerance)
        report.check(title, failures, f"losses {worst:.1e}")


def add_arguments(parser):
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--experts", action="store_true")


def main():
    arguments = jobs.parse_arguments(__doc__, add_arguments)
    workshop, report = Workshop(arguments.directory), jobs.Report()
    family = "mixtral" if arguments.experts else "llama"
    try:
        base = workshop.train_alone(
            family, "base", 8, ["--steps", 2, "--seed", 7]
        ).directory
        base = os.path.realpath(os.path.join(base, "latest"))
        if arguments.gpu:
            check_gpus(workshop, report, family, base)
            report.finish()
            return
        of = (workshop, report, family, base)
        runs = {form: check_rounding(*of, form) for form in FORMATS}
        check_formats(*of, "nf4")
        check_jobs(*of, "nf4", runs["nf4"], range(4))
        check_jobs(*of, "nf4_double", runs["nf4_double"], [3])
        check_jobs(*of, "int8", runs["int8"], [3])
        check_resume(*of, "nf4")
    except jobs.JobError as error:
        report.check("command", [str(error)])
    report.finish()


main()
