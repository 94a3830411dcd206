# ===- token_weighting.py - Unequal numbers of targets on the ranks --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains on samples with unlike numbers of counted targets. Losses and gradients
are sums over the tokens of all ranks, divided by how many of these count:
averages of the ranks' averages would be others. The steps, again and again:
  1  two targets on one rank, all on the other
  2  none on one rank
  3  none at all: skipped by every rank, which changes no bit of the state
  4  all targets count
Compares with one device: losses to 1e-5, updates to 1e-3."""

import array
import random

import jobs
from jobs import Plan, Rank

# (micro_batch, steps, last) of the ranks; the first gets samples 0 to 6 of
# every batch, the second 7 to 11.
RANKS = {
    "meeting": ((3, 3, 1), (2, 3, 1)),
    "free": ((3, 3, 1), (1, 5, 1)),
}
FIRST, SAMPLES, STEPS = 7, 12, 8
VOCABULARY = 250  # ids that all models have, and none of which is special


def write_samples(path):
    """Four batches: per sample the ids, then the targets, -1 if not counted."""
    numbers = random.Random(5)
    data = array.array("i")
    counts = []
    for step in range(4):
        count = [0, 0]
        for sample in range(SAMPLES):
            ids = [numbers.randrange(5, VOCABULARY) for _ in range(jobs.SEQ_LEN)]
            targets = ids[1:] + [numbers.randrange(5, VOCABULARY)]
            second = sample >= FIRST
            if step == 2 or (step == 1 and second):
                targets = [-1] * jobs.SEQ_LEN
            elif step == 0 and second:
                keep = {3, 17} if sample == SAMPLES - 1 else {}
                targets = [t if i in keep else -1 for i, t in enumerate(targets)]
            count[second] += sum(target != -1 for target in targets)
            data.extend(ids + targets)
        counts.append(tuple(count))
    with open(path, "wb") as file:
        data.tofile(file)
    full = FIRST * jobs.SEQ_LEN, (SAMPLES - FIRST) * jobs.SEQ_LEN
    assert counts == [(full[0], 2), (full[0], 0), (0, 0), full], counts


def tensors_of_step(run, step):
    return [run.checkpoint(step, f"{kind}.safetensors") for kind in ("model", "optimizer")]


def check_evaluation(workshop, report, run):
    """What is masked does not depend on how an evaluation cuts its data."""
    data = workshop.path("evaluated.txt")
    with open(jobs.CORPUS) as source, open(data, "w") as target:
        target.write(source.read(20 * jobs.SEQ_LEN))
    command = ["poplar", "evaluate", run.directory, "--data", data, "--data-format", "bytes"]
    texts = [jobs.run([*command, "--batch", batch]).splitlines()[-1] for batch in "16"]
    same = texts[0] == texts[1] and "perplexity" in texts[0]
    report.check("evaluation", [] if same else texts, texts[0])


def main():
    arguments = jobs.parse_arguments(__doc__)
    workshop, report = jobs.Workshop(arguments.directory), jobs.Report()
    data = workshop.path("samples")
    write_samples(data)
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5, "--data-ids", data]
    options += ["--save-every", 1, "--keep", 0]
    for model, stage, stepping in (
        ("bert", 0, "free"),
        ("llama", 1, "free"),
        ("gpt2", 2, "meeting"),
        ("bert", 3, "meeting"),
    ):
        name = f"{model}-stage{stage}"
        ranks = tuple(Rank(*step) for step in RANKS[stepping])
        plan = Plan(model, stage, ranks)
        assert plan.ranks[0].samples == FIRST and plan.samples == SAMPLES
        reference = workshop.train_alone(model, f"{name}-alone", SAMPLES, options)
        initial = workshop.initial_weights(model)
        try:
            run = workshop.train(workshop.build(plan, name), f"{name}-run", options)
        except jobs.JobError as error:
            report.check(name, [str(error)])
            continue
        loss, failures = jobs.compare_losses(run, reference)
        update, more = jobs.compare_updates(run, reference, initial)
        for step, value in enumerate(run.losses, 1):
            skipped = step % 4 == 3
            if (value != value) != skipped:
                more.append(f"loss of step {step} is {value}")
            same = tensors_of_step(run, step) == tensors_of_step(run, step - 1) \
                if step > 1 else False
            if same != skipped:
                more.append(
                    f"step {step} changes {'something' if skipped else 'nothing'}"
                )
        report.check(name, failures + more, f"losses {loss:.1e}, updates {update:.1e}")

    # BERT's own masks, of which ranks draw unlike numbers.
    name = "bert-masks"
    ranks = (Rank(5, 2, 4), Rank(1, 2, 1), Rank(2, 2, 1))
    plan = Plan("bert", 2, ranks)
    options = ["--steps", STEPS, "--lr", 1e-3, "--clip", 0.5]
    reference = workshop.train_alone("bert", f"{name}-alone", plan.samples, options)
    initial = workshop.initial_weights("bert")
    run = workshop.train(workshop.build(plan, name), f"{name}-run", options)
    loss, failures = jobs.compare_losses(run, reference)
    update, more = jobs.compare_updates(run, reference, initial)
    report.check(name, failures + more, f"losses {loss:.1e}, updates {update:.1e}")
    check_evaluation(workshop, report, reference)
    report.finish()


if __name__ == "__main__":
    main()
