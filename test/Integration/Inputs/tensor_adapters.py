# ===- tensor_adapters.py - Adapters of devices that share units ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains tiny models for 10 steps under plans in which devices share units: of
adapters with dropout, beside frozen weights in f32 or in few bits, and with
moments in 8 bits. Compares with a run on one device:
  losses     within 1e-6 of each other, relatively; with moments in 8 bits, 1e-4
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it
  memory     each rank has the peak that poplar build printed, to the byte
  resuming   after 5 steps, runs with shared units go on without them, and the
             other way round
  merging    gives the weights that one device's program gives, bit by bit
  sampling   greedy text is that of one device, with caches and without
  refusals   of parts that would cut a block of quantised values"""

import json
import os

import adapters
import jobs

STEPS, CLIP, SAMPLES = 10, 0.01, 12
LOSSES, INT8_LOSSES = 1e-6, 1e-4
OPTIONS = ["--lr", 1e-3, "--clip", CLIP, "--schedule", "constant"]
LORA = ["--lora-rank", "4", "--lora-alpha", "8", "--lora-dropout", "0.1"]
FAST, SLOW = "fast", "slow"
# Types of adapters.py recompute in unlike ways, which sharers may not.
TYPES = (
    jobs.DeviceType(FAST, jobs.best_f32_target()),
    jobs.DeviceType(SLOW, "host:sse41-f32"),
)


class Workshop(adapters.Workshop):
    """Also has "wide.KIND": a Llama with grouped heads of 64 columns, which blocks
    of quantised values do not cross."""

    def config(self, family):
        if family != "wide":
            return super().config(family)

        def make(target):
            with open(super(Workshop, self).config("llama")) as file:
                options = json.load(file)
            options |= {"num_attention_heads": 8, "num_key_value_heads": 4}
            options |= {"head_dim": 64, "intermediate_size": 512}
            with open(target, "w") as file:
                json.dump(options, file)

        return self.once(self.path("wide.json"), make)

    def model(self, name):
        if name != "wide":
            return super().model(name)

        def make(target):
            command = ["poplar", "import", self.config(name), "-o", target]
            jobs.run([*command, "--seq-len", str(jobs.SEQ_LEN)])

        return self.once(self.path("wide.mlir"), make)

    def options_of(self, family, kind):
        options = {
            "lora": LORA,
            "states": ["--optimizer-states", "int8"],
            "both": ["--lora-rank", "64", "--optimizer-states", "int8"]
            + ["--frozen-format", "nf4"],
        }
        return options.get(kind) or [*LORA, "--frozen-format", kind]


def shared(*types, parts=None, end=4, stage=0, beside=()):
    return (end, stage, tuple(zip(types, parts or [1] * len(types))), beside)


# name: (model, pipelines, groups), a group (end, stage of ZeRO, ((type, part),
# ...), types of the last pipelines, which compute whole units beside the others).
VARIANTS = {
    "wide-lora": ("wide.lora", 1, [shared(FAST, SLOW, parts=[3, 1])]),
    "gpt2-lora": ("gpt2.lora", 1, [shared(FAST, SLOW, SLOW, parts=[5, 2, 1], stage=3)]),
    "llama-lora-stages": (
        "llama.lora",
        1,
        [
            shared(FAST, SLOW, parts=[2, 1], end=2),
            shared(FAST, end=3),
            shared(SLOW, FAST, parts=[1, 5], stage=1),
        ],
    ),
    # Parts of some matrices cut blocks of scales.
    "nf4_double": ("wide.nf4_double", 1, [shared(FAST, SLOW, stage=3)]),
    "int8": ("wide.int8", 2, [shared(FAST, SLOW, parts=[2, 1], stage=3)]),
    # Of the tiny Llama, parts of some matrices cut blocks of moments.
    "states-cut": ("llama.states", 2, [shared(FAST, SLOW, stage=1)]),
    "states-nf4": ("wide.both", 1, [shared(FAST, SLOW, parts=[3, 1], stage=2)]),
    "beside-lora": ("wide.lora", 2, [shared(FAST, SLOW, parts=[3, 1], beside=[FAST])]),
    "beside-nf4": ("wide.nf4_double", 2, [shared(SLOW, SLOW, stage=1, beside=[FAST])]),
    "beside-states": ("llama.states", 2, [shared(SLOW, SLOW, stage=1, beside=[FAST])]),
}
RESUMED = ("nf4_double", "states-cut")
MERGED = ("nf4_double", "int8", "beside-nf4")
SAMPLED = ("nf4_double", "gpt2-lora", "llama-lora-stages", "beside-nf4")


def make_plan(model, pipelines, groups):
    return jobs.plan_shared(model, pipelines, groups, SAMPLES, TYPES)


class Tester:
    def __init__(self, directory):
        self.workshop, self.report = Workshop(directory), jobs.Report()
        self.references = {}

    def base(self, family):
        """A checkpoint of the family, for frozen weights."""
        weights = self.workshop.path(f"{family}-base")
        if not os.path.exists(weights):
            options = ["--steps", 1, "--seed", 7]
            self.workshop.train_alone(family, f"{family}-base", 8, options)
        return os.path.realpath(os.path.join(weights, "latest"))

    def options_of(self, model, steps):
        family, _, kind = model.partition(".")
        base = [] if kind == "states" else ["--init", self.base(family)]
        return [*OPTIONS, *base, "--steps", steps]

    def reference(self, model):
        if model not in self.references:
            self.references[model] = (
                self.workshop.train_alone(
                    model, f"{model}-reference", SAMPLES, self.options_of(model, STEPS)
                ),
                self.workshop.initial_weights(model),
            )
        return self.references[model]

    def compare(self, run, model):
        reference, initial = self.reference(model)
        if "both" in model or "states" in model:
            loss, failures = jobs.compare_losses(run, reference, INT8_LOSSES)
            return f"losses {loss:.1e}", failures
        loss, failures = jobs.compare_losses(run, reference, LOSSES)
        update, more = jobs.compare_updates(run, reference, initial)
        return f"losses {loss:.1e}, updates {update:.1e}", failures + more

    def check(self, name):
        model = VARIANTS[name][0]
        job = self.workshop.build(make_plan(*VARIANTS[name]), name)
        table = self.workshop.path(f"{name}.csv")
        options = [*self.options_of(model, STEPS), "--report-memory", table]
        run = self.workshop.train(job, f"{name}-run", [*options, "--check-replicas"])
        note, failures = self.compare(run, model)
        printed, allocated = jobs.printed_peaks(job), jobs.allocated_peaks(table)
        if printed != allocated:
            failures.append(f"peaks of {allocated} bytes, but {printed} were printed")
        self.report.check(name, failures, note)

    def check_resumed(self, name):
        model = VARIANTS[name][0]
        job, alone = self.workshop.path(name), self.workshop.alone(model)
        batch = ["--global-batch", SAMPLES, "--batch", SAMPLES, "--threads", 1]
        more = {job: [], alone: batch}
        for title, first, then in (("out-of", job, alone), ("into", alone, job)):
            run_name = f"{name}-{title}"
            for program, steps in ((first, STEPS // 2), (then, STEPS)):
                options = [*self.options_of(model, steps), *more[program]]
                run = self.workshop.train(
                    program, run_name, options, resume=program == then
                )
            note, failures = self.compare(run, model)
            self.report.check(run_name, failures, note)

    def check_merged(self, name):
        """Adapters of one run, beside weights as each program rounds them."""
        run = self.workshop.path(f"{name}-run", "latest")
        base = self.base(VARIANTS[name][0].partition(".")[0])
        contents = []
        for program in (self.workshop.path(name), self.workshop.alone(VARIANTS[name][0])):
            out = self.workshop.path(f"{name}-merged-{len(contents)}")
            executable = next(
                os.path.join(program, entry, "train")
                for entry in sorted(os.listdir(program))
                if os.path.exists(os.path.join(program, entry, "train"))
            )
            command = [executable, "merge", "--checkpoint", run, "--init", base]
            jobs.run([*command, "--out", out])
            with open(os.path.join(out, "model.safetensors"), "rb") as file:
                contents.append(file.read())
        failures = [] if contents[0] == contents[1] else ["other weights are merged"]
        self.report.check(f"{name}-merged", failures)

    def check_sampled(self, name):
        alone = self.workshop.alone(VARIANTS[name][0])
        latest = os.path.realpath(self.workshop.path(f"{name}-run", "latest"))
        text = ["--prompt", "KING", "--tokens", "20", "--temperature", "0"]
        expected = jobs.run(
            [os.path.join(alone, "host", "train"), "sample", "--checkpoint", latest, *text]
        )
        failures = []
        for options in ([], ["--no-cache"]):
            found = jobs.run(
                ["poplar", "sample", self.workshop.path(f"{name}-run"), *text, *options]
            )
            if found != expected:
                failures.append(f"{found!r} is sampled, {expected!r} on one device")
        self.report.check(f"{name}-sampled", failures)

    def check_refused(self):
        plan = make_plan("llama.nf4", 1, [shared(FAST, FAST)])
        path = self.workshop.planned(plan, "cut")
        status, output = jobs.execute(["poplar", "build", path, "-o", f"{path}.job"])
        expected = "in blocks of 64 quantised values, which a device's part, from 0 to 32"
        failures = []
        if status == 0 or expected not in output:
            failures.append(f"exit status {status}: {output}")
        self.report.check("refusal", failures)


def main():
    arguments = jobs.parse_arguments(
        __doc__, lambda parser: parser.add_argument("--only", nargs="+")
    )
    tester = Tester(arguments.directory)
    chosen = arguments.only or list(VARIANTS)
    tests = [(tester.check, chosen)]
    tests.append((tester.check_resumed, [n for n in RESUMED if n in chosen]))
    tests.append((tester.check_merged, [n for n in MERGED if n in chosen]))
    tests.append((tester.check_sampled, [n for n in SAMPLED if n in chosen]))
    for check, names in tests:
        for name in names:
            try:
                check(name)
            except jobs.JobError as error:
                tester.report.check(name, [str(error)])
    tester.check_refused()
    tester.report.finish()


main()
