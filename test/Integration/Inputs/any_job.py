# ===- any_job.py - Every kind of plan, everything a job can do ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A table of plans: rows are kinds of plans, columns are what a job can do. Each
cell does as one device alone does, or is refused by name. Resuming is a column per
plan: one run goes through all pairs of plans, a step each."""

import json
import os
import re

import jobs
from jobs import DeviceType, Plan, Rank

TYPES = (
    DeviceType("first", jobs.best_f32_target()),
    DeviceType("second", "host:sse41-f32"),
)
MODEL, SAMPLES, STEPS = "gpt2", 6, 2
COLUMNS = ("validate", "evaluate", "init", "sample", "logits", "doctor", "profile", "show")
TEXT = ["--prompt", "ROMEO", "--tokens", "12", "--temperature", "0"]


def zero(stage):
    return Plan(
        MODEL, stage,
        (Rank(2, 2, 1, type="first"), Rank(2, 2, 1, state=2.0, type="second")), TYPES,
    )  # fmt: skip


def pipeline(schedule, groups, lanes, turns=((), ())):
    """Of two groups, each of the other type."""
    ranks = [
        Rank(*lane, type=type, group=group, turns=turns[group])
        for group, type in enumerate(("first", "second"))
        for lane in lanes
    ]
    stage = max(stage for _, stage in groups)
    return Plan(MODEL, stage, tuple(ranks), TYPES, groups, schedule)


HALVES, CHUNKS = ((0, 2), (2, 4)), ((0, 1, 2, 3), (1, 2, 3, 4))
ONE, TWO = ((2, 3, 2),), ((2, 2, 1), (2, 2, 1))


def shared(*groups, pipelines=1):
    """Of groups (end, stage, parts): as many devices as parts share each unit, of
    one type after the other."""
    samples = SAMPLES // pipelines
    size = samples // 3 + 1
    ranks, described, begin = [], [], 0
    for index, (end, stage, parts) in enumerate(groups):
        described.append(((begin, end), stage, *([parts] if len(parts) > 1 else [])))
        begin = end
        ranks += [
            Rank(size, 2, samples - size, type=TYPES[(index + place) % 2].name, group=index)
            for _ in range(pipelines)
            for place in range(len(parts))
        ]
    stage = max(stage for _, stage, _ in groups)
    schedule = "1f1b" if len(groups) > 1 else ""
    return Plan(MODEL, stage, tuple(ranks), TYPES, tuple(described), schedule)


def split(ranges, stages):
    return tuple(zip(ranges, stages))


PLANS = {
    "alone": None,
    "zero-0": zero(0),
    "zero-1": zero(1),
    "zero-2": zero(2),
    "zero-3": zero(3),
    "1f1b": pipeline("1f1b", split(HALVES, (0, 0)), ONE),
    "gpipe-zero": pipeline("gpipe", split(HALVES, (1, 3)), TWO),
    "interleaved": pipeline("interleaved", split(CHUNKS, (0, 0)), ONE),
    "shared": shared((4, 3, (2, 1)), pipelines=2),
    "shared-stages": shared((2, 0, (2, 1)), (4, 1, (2, 1))),
}


# Cells that are refused: words of the command, and what it says.
REFUSED = {
    ("alone", "profile"): (
        ["profile", "--out", os.devnull],
        "was built from a model without a plan",
    ),
}


def find_tour(count):
    """Numbers below `count` of which every ordered pair is once side by side, from
    0 to 0 (Hierholzer)."""
    rest = {a: [b for b in range(count) if b != a] for a in range(count)}
    stack, tour = [0], []
    while stack:
        if rest[stack[-1]]:
            stack.append(rest[stack[-1]].pop())
        else:
            tour.append(stack.pop())
    return tour[::-1]


class Matrix:
    def __init__(self, directory):
        self.workshop, self.report = jobs.Workshop(directory), jobs.Report()
        self.common = ["--lr", 1e-3, "--schedule", "constant", "--warmup", 0]
        self.references = {}
        self.weights = os.path.join(self.train("alone", "weights", 3).directory, "latest")

    def build(self, name):
        if PLANS[name] is None:
            return self.workshop.alone(MODEL)
        assert PLANS[name].samples == SAMPLES, name
        return self.workshop.build(PLANS[name], name)

    def alone_options(self, name):
        if PLANS[name] is not None:
            return []
        return ["--global-batch", SAMPLES, "--batch", SAMPLES, "--threads", 1]

    def train(self, name, run, steps, *options, resume=False):
        options = ["--steps", steps, *self.common, *self.alone_options(name), *options]
        return self.workshop.train(self.build(name), run, options, resume)

    def check(self, name, column, work):
        try:
            failures = work() or []
        except jobs.JobError as error:
            failures = [str(error)]
        self.report.check(f"{name}: {column}", failures)

    def launch(self, name, *words):
        """A command of the job: exit status and output."""
        return jobs.run([self.get_program(name), *words])

    def get_program(self, name):
        program = "host/train" if PLANS[name] is None else "launch.sh"
        return os.path.join(self.build(name), program)

    def refer(self, name, make):
        """What one device does, once."""
        if name not in self.references:
            self.references[name] = make()
        return self.references[name]

    def refuse(self, name, words, text):
        output = self.refused([self.get_program(name), *words])
        return [] if text in output else [output]

    # Columns.

    def validate(self, name):
        options = ["--eval-every", 1, "--eval-batches", 1]

        def run_on(plan, run):
            return self.train(plan, run, STEPS, *options)

        run = run_on(name, f"{name}-evaluate")
        reference = self.refer("evaluate", lambda: run_on("alone", "evaluate"))
        _, failures = jobs.compare_losses(run, reference)
        if len(run.validation_losses) != STEPS:
            failures.append(f"has {len(run.validation_losses)} validation losses")
        for ours, theirs in zip(run.validation_losses, reference.validation_losses):
            if not abs(ours - theirs) <= jobs.LOSS_TOLERANCE * theirs:
                failures.append(f"validation loss {ours}, expected {theirs}")
        return failures

    def evaluate(self, name):
        """All of a text, after the run of validate(). It leaves a rest behind whole
        batches."""
        text = self.workshop.path("other.txt")
        with open(jobs.CORPUS) as source, open(text, "w") as target:
            target.write(source.read(32 * (3 * SAMPLES + 1) + 40))

        def measure(run):
            command = ["poplar", "evaluate", self.workshop.path(run), "--data", text]
            output = jobs.run(command)
            found = re.search(r"loss (\S+), perplexity (\S+), of (\d+) tokens", output)
            return [float(word) for word in found.groups()] if found else [output]

        ours = measure(f"{name}-evaluate")
        theirs = self.refer("evaluation", lambda: measure("evaluate"))
        same = len(ours) == 3 and all(
            abs(a - b) <= 1e-5 * b for a, b in zip(ours, theirs)
        )
        return [] if same else [f"{ours}, expected {theirs}"]

    def init(self, name):
        def run_on(plan, run):
            return self.train(plan, run, STEPS, "--init", self.weights, "--seed", 7)

        run = run_on(name, f"{name}-init")
        reference = self.refer("init", lambda: run_on("alone", "init"))
        return jobs.compare_losses(run, reference)[1]

    def sample(self, name):
        """From its own run, and from another's; with a KV cache what one device samples
        without, and without one, after a note of that, where there is none."""

        def run(command):
            lines = jobs.run(command).splitlines(keepends=True)
            return "".join(line for line in lines if not line.startswith("note: "))

        whole = ["sample", "--checkpoint", self.weights, *TEXT, "--no-cache"]
        expected = self.refer("sample", lambda: self.launch("alone", *whole))
        words = ["sample", "--checkpoint", self.weights, *TEXT]
        text = run([self.get_program(name), *words])
        own = run(["poplar", "sample", self.workshop.path(f"{name}-evaluate"), *TEXT])
        reference = run(["poplar", "sample", self.workshop.path("evaluate"), *TEXT])
        return [
            f"text {ours!r}, expected {theirs!r}"
            for ours, theirs in ((text, expected), (own, reference))
            if ours != theirs
        ]

    def logits(self, name):
        def run_on(plan, file):
            path = self.workshop.path(f"{file}.safetensors")
            words = ["--data", jobs.CORPUS, *map(str, self.alone_options(plan))]
            self.launch(plan, "train", *words, "--peak-gflops", "1", "--dump-logits", path)
            return jobs.safetensors_reader.read(path)[0]["logits"]

        shape, ours = run_on(name, f"{name}-logits")
        expected, theirs = self.refer("logits", lambda: run_on("alone", "logits"))
        error = jobs.norm(jobs.difference(ours, theirs)) / jobs.norm(theirs)
        return [] if shape == expected and error <= 1e-5 else [f"{shape}, off by {error}"]

    def doctor(self, name):
        output = self.launch(name, "doctor")
        return [] if "rank" in output else [output]

    def profile(self, name):
        """Of each program of the job. What is measured of a stage or of a share is no
        profile of the model, and nothing takes it for one."""
        failures = []
        programs = self.list_programs(name)
        for program in sorted(set(programs)):
            executable = os.path.join(self.build(name), program, "train")
            out = self.workshop.path(f"{name}-{program}.json")
            words = ["profile", "--rank", str(programs.index(program)), "--out", out]
            jobs.run([executable, *words, "--max-batch", "2"])
            with open(out) as file:
                profile = json.load(file)["profiles"][0]
            if len(profile["seconds"]) != 2 or not min(profile["seconds"]) > 0:
                failures.append(f"{program}: {profile}")
            rank = PLANS[name].ranks[programs.index(program)]
            group = (PLANS[name].groups or (((),),))[rank.group]
            # What says of which part of the model a profile is.
            parts = {"pipeline_stage"} if PLANS[name].schedule else set()
            parts |= {"share", "shares"} if group[2:] else set()
            if set(profile) & {"pipeline_stage", "share", "shares"} != parts:
                failures.append(f"{program}: {profile}")
            if parts:
                text = self.refused(["poplar", "cluster", "show", self.cluster(), "--profiles", out])
                if not any(f"unknown key '{part}'" in text for part in parts):
                    failures.append(text)
        return failures

    def cluster(self):
        """A file of the cluster that all plans are of."""
        path = self.workshop.path("cluster.json")
        types = {t.name: {"target": t.target, "memory": t.memory} for t in TYPES}
        nodes = [{"name": "localhost", "devices": sorted(types)}]
        link = {"inside": "nodes", "latency": 0, "bandwidth": 1e9}
        with open(path, "w") as file:
            json.dump({"device_types": types, "nodes": nodes, "links": [link]}, file)
        return path

    def refused(self, command):
        status, output = jobs.execute(command)
        return output if status == 1 and output.count("error: ") == 1 else f"{status}: {output}"

    def list_programs(self, name):
        """By rank."""
        with open(os.path.join(self.build(name), "ranks.txt")) as file:
            return [line.split()[2] for line in file if line[0] != "#"]

    def show(self, name):
        """The page of a run."""
        run = self.workshop.path(f"{name}-evaluate")
        page = self.workshop.path(f"{name}.html")
        jobs.run(["poplar", "report", run, "-o", page])

    def resume(self):
        """Every plan after every other, in one run of a step each."""
        names = list(PLANS)
        tour = [names[number] for number in find_tour(len(names))]
        self.train("alone", "tour", 1)
        for step, (before, after) in enumerate(zip(tour, tour[1:])):
            self.check(before, f"resumed as {after}", lambda: self.go_on(after, step + 2))
        run = jobs.Run(self.workshop.path("tour"))
        whole = self.train("alone", "whole", len(tour))
        return jobs.compare_losses(run, whole)[1]

    def go_on(self, name, steps):
        run = self.train(name, "tour", steps, resume=True)
        return [] if f"at step {steps - 1}" in run.output else [run.output]


def main():
    arguments = jobs.parse_arguments(__doc__)
    matrix = Matrix(arguments.directory)
    for name in PLANS:
        for column in COLUMNS:
            cell = REFUSED.get((name, column))
            work = getattr(matrix, column) if cell is None else matrix.refuse
            words = () if cell is None else cell
            matrix.check(name, column, lambda: work(name, *words))
    matrix.check("all", "resume", matrix.resume)
    matrix.report.finish()


if __name__ == "__main__":
    main()
