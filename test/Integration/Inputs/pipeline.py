# ===- pipeline.py - Pipeline stages train as one device does --------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny models for 10 steps (--steps: more), cut into pipeline stages in many
ways, with the gradient clipped in every step, and compares with a run on one device,
which takes the batch at once, as equivalence.py does:
  losses     within 1e-5 of each other, relatively; so are those of validation
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it

Models are cut evenly and unevenly, into two, three and four stages of one, two
and three chunks, with one and with two pipelines that take unlike batches, in
every stage of ZeRO and in different ones, on like and unlike device types, also
within a stage, by every schedule and by turns of one's own. What several ranks hold has to be equal
at the end, bit for bit: also what the first and the last stage share. What ranks
have allocated is, byte for byte, what poplar build said.

Runs under some of these plans go on under a plan without stages, and the other
way round, and have to end where a run on one device does."""

import concurrent.futures

import jobs
from jobs import DeviceType, Plan, Rank

STEPS, CLIP, SAMPLES = 10, 0.5, 12
# The tiny models have two blocks, or as many as in their name: with what is in
# front of them and behind them, four units, or two more. Ranges of a group are
# those of its chunks.
CUTS = {
    "even": ((0, 2), (2, 4)),
    "uneven": ((0, 1), (1, 4)),
    "three": ((0, 1), (1, 3), (3, 4)),
    "four": ((0, 1), (1, 2), (2, 3), (3, 4)),
    "chunks": ((0, 1, 2, 3), (1, 2, 3, 4)),
    "three-chunks": ((0, 1, 3, 4, 6, 7), (1, 3, 4, 6, 7, 8)),
    "three-of-two": ((0, 1, 4, 5), (1, 2, 5, 7), (2, 4, 7, 8)),
}
# (micro_batch, steps, last) of the pipelines: where ranks meet in every
# micro-step (stages 2 and 3), and where they do not.
BATCHES = {
    "one": ([(3, 4, 3)], None),
    "ragged": ([(5, 3, 2)], None),
    "two": ([(3, 3, 2), (2, 3, 0)], [(3, 3, 2), (1, 4, 1)]),
    "none": ([(4, 3, 4), (0, 3, 0)], [(4, 3, 4), (0, 1, 0)]),
}
TYPES = {
    "device": DeviceType("device", jobs.best_f32_target()),
    "sse41": DeviceType("sse41", "host:sse41-f32"),
    "unit": DeviceType("unit", jobs.best_f32_target(), recompute="recompute-unit"),
}

# Model, cut, schedule, batches, stage of ZeRO of each group, types of each, or of
# each pipeline's ranks in it; and which of these go on under other plans.
RESUMED = (1, 6, 11, 13, 16)
CASES = [
    ("llama", "even", "gpipe", "one", "00", None),
    ("llama", "uneven", "1f1b", "two", "11", ["device", "sse41"]),
    ("llama", "three", "1f1b", "ragged", "012", None),
    ("llama", "even", "1f1b", "two", "33", None),
    ("llama", "four", "gpipe", "one", "1111", ["sse41", "device", "unit", "device"]),
    ("gpt2", "even", "1f1b", "one", "00", ["device", "sse41"]),
    ("gpt2", "uneven", "gpipe", "two", "22", None),
    ("gpt2", "three", "1f1b", "two", "010", None),
    ("gpt2", "even", "gpipe", "none", "11", ["sse41", "device"]),
    ("bert", "even", "gpipe", "two", "10", None),
    ("bert", "uneven", "1f1b", "none", "32", None),
    ("bert", "three", "gpipe", "one", "000", ["sse41", "unit", "device"]),
    ("llama", "chunks", "interleaved", "one", "00", None),
    ("llama", "chunks", "interleaved", "two", "11", ["device", "sse41"]),
    ("llama", "chunks", "interleaved", "two", "33", None),
    ("llama-6", "three-of-two", "interleaved", "ragged", "012", None),
    ("gpt2", "chunks", "interleaved", "two", "01", ["sse41", "device"]),
    ("gpt2", "chunks", "custom", "one", "00", None),
    ("gpt2-6", "three-chunks", "interleaved", "two", "22", ["unit", "device"]),
    ("bert", "chunks", "interleaved", "none", "10", ["device", "sse41"]),
    ("qwen3", "uneven", "1f1b", "two", "11", ["device", "sse41"]),
    ("phi3", "three", "1f1b", "two", "012", None),
    ("gpt_neox", "uneven", "1f1b", "two", "21", ["device", "sse41"]),
    ("mixtral", "three", "1f1b", "two", "031", ["unit", "device", "sse41"]),
    ("llama", "even", "1f1b", "two", "22", ["device sse41", "sse41 unit"]),
    ("gpt2", "chunks", "interleaved", "two", "33", ["sse41 device", "device sse41"]),
    ("bert", "uneven", "gpipe", "none", "32", ["device sse41", "unit device"]),
]


def turns_of_ones_own(cut, steps):
    """All forward passes, chunk by chunk, and all backward passes."""
    chunks = range(len(CUTS[cut][0]) // 2)
    return tuple(
        [(i + 1, chunk) for chunk in chunks for i in range(steps)]
        + [(-i - 1, chunk) for chunk in reversed(chunks) for i in range(steps)]
    )


def make_plan(model, cut, schedule, batch, stages, types):
    meeting, free = BATCHES[batch]
    stage = max(map(int, stages))
    pipelines = meeting if stage >= 2 or not free else free
    types = types or ["device"] * len(stages)
    return Plan(
        model,
        stage,
        tuple(
            Rank(
                *steps,
                type=names.split()[lane % len(names.split())],
                group=group,
                turns=turns_of_ones_own(cut, steps[1]) * (schedule == "custom"),
            )
            for group, names in enumerate(types)
            for lane, steps in enumerate(pipelines)
        ),
        tuple(TYPES.values()),
        tuple((units, int(zero)) for units, zero in zip(CUTS[cut], stages)),
        schedule,
    )


def main():
    arguments = jobs.parse_arguments(__doc__, steps=STEPS)
    steps, half = arguments.steps, arguments.steps // 2
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    # A constant rate: a schedule would know how many steps are to come.
    options = ["--lr", 1e-3, "--clip", CLIP, "--schedule", "constant", "--warmup", 0]
    options += ["--eval-every", half, "--eval-batches", 2]
    errors = []

    def prepare(model):
        reference = workshop.train_alone(
            model, f"{model}-reference", SAMPLES, [*options, "--steps", steps]
        )
        return reference, workshop.initial_weights(model)

    def compare(name, run, model):
        reference, initial = references[model]
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        failures += jobs.compare_validations(run, reference, 2)
        report.check(name, failures, f"losses {loss:.1e}, updates {update:.1e}")
        errors.append((loss, update))

    def check(case):
        model, cut, schedule, batch, stages, types = case
        name = f"{model}-{cut}-{schedule}-{batch}-stage{stages}"
        if types:
            name += "-" + "-".join(types).replace(" ", "+")
        plan = make_plan(*case)
        assert plan.samples == SAMPLES
        replicated = ["--check-replicas"] if set(stages) != {"3"} else []
        whole = Plan(model, 1, (Rank(4, 2, 3), Rank(3, 2, 2)))
        memory = workshop.path(f"{name}.csv")
        try:
            job = workshop.build(plan, name)
            run = workshop.train(
                job,
                f"{name}-run",
                [*options, "--steps", steps, *replicated, "--report-memory", memory],
            )
            compare(name, run, model)
            allocated, said = jobs.allocated_peaks(memory), jobs.printed_peaks(job)
            report.check(
                f"{name}-memory",
                [] if allocated == said else [f"{allocated} bytes, not {said}"],
            )
            if CASES.index(case) not in RESUMED:
                return
            # Half of the steps each, with stages and without.
            other = workshop.build(whole, f"{model}-whole")
            for first, second, kind in ((job, other, "to"), (other, job, "from")):
                out = f"{name}-{kind}-zero"
                workshop.train(first, out, [*options, "--steps", half])
                run = workshop.train(second, out, [*options, "--steps", steps], True)
                compare(out, run, model)
        except jobs.JobError as error:
            report.check(name, [str(error)])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        models = list(dict.fromkeys(case[0] for case in CASES))
        references = dict(zip(models, pool.map(prepare, models)))
        list(pool.map(check, CASES))
    if errors:
        loss, update = map(max, zip(*errors))
        print(f"worst: losses {loss:.1e}, updates {update:.1e}")
    report.finish()


main()
