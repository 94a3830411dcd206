# ===- random_jobs.py - Random jobs train as one device does ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Draws jobs over all that a model, a plan and a run may be (random_job.py), trains
each for some steps, and compares with one device that has no plan:
  losses     and norms of gradients: within 1e-5 and 1e-4, relatively; of wires or
             devices that round, within 5e-2
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it;
             so are moments. All of these with linear attention also within 4 times of
             what one device's own run is moved by if its weights are by a rounding
  the rest   losses of evaluations, logits, gradients, sampled text, rates, the
             memory of every rank
A job that is refused has to be in REFUSED, by the words of the one error before
training starts, and by what is true of the job.

--minimize leaves out one axis after the other of a job that fails, as long as it
fails with the others; --without does so by hand."""

import argparse
import os
import random
import re
import shutil
import struct
import time

import jobs
import random_job
import safetensors_reader

LOSSES, NORMS, ROUNDED = 1e-5, 1e-4, 5e-2
# How often one device shakes its weights by a rounding, and how many times as far as that
# moves it another run may be.
SHAKES, SHAKEN = 3, 4
UPDATES = 1e-3

# What an error says, and of which jobs it may say so.
REFUSED = (
    ("devices (cannot share|that share the unit): each takes (one|a head of keys) at least",
     lambda job: job.largest_degree() > job.model.kv_heads),
    ("fewer than the \\d devices that share units",
     lambda job: job.largest_degree() > job.model.seq_len),
    ("of a mixture of experts, which devices cannot",
     lambda job: job.model.family in random_job.EXPERTS and job.largest_degree() > 1),
    ("of linear (or latent )?attention, which devices cannot",
     lambda job: job.model.family in (*random_job.LINEAR, *random_job.LATENT)
     and job.largest_degree() > 1),
    ("is used by groups that divide it in unlike ways", lambda job: job.largest_degree() > 1),
    ("reads queries of all heads, as behind a norm of all of them, which devices cannot",
     lambda job: job.model.family in random_job.NORMED and job.largest_degree() > 1),
    ("activations of this model overflow f16",
     lambda job: "gemma" in job.model.family and "f16" in job.precisions()),
    ("which is no narrower than the b?f16 that all ranks compute in",
     lambda job: "parameter_wire bf16" in job.plan.wires),
    ("int8 a scale for each row, which has to be an output's",
     lambda job: job.model.frozen == "int8" and job.model.family == "gpt2"),
    ("in blocks of 64 quantised values, which a device's part",
     lambda job: job.model.frozen.startswith("nf4") and job.largest_degree() > 1),
)


class Wrong(Exception):
    """What a job does is not what one device does."""


class Refused(Exception):
    """By one error, before training."""


def is_near(ours, theirs, tolerance):
    # Written so that a NaN is not.
    return ours == theirs or abs(ours - theirs) <= tolerance * abs(theirs)


class Tester(jobs.Workshop):
    """Of one job."""

    def __init__(self, directory, job):
        super().__init__(directory)
        self.job = job
        self.failures = []
        # Runs of one device from weights that are moved by a rounding.
        self.shaken = []
        self.exact = not job.plan.wires and job.precisions() == {"f32"}
        self.tolerance = LOSSES if self.exact else ROUNDED
        # Batches of a validation are micro-batches of one device.
        samples = job.plan.samples
        batch = samples if job.text else max(1, samples // 2)
        self.alone_batch = ["--global-batch", samples, "--batch", batch, "--threads", 1]

    def expect(self, condition, text):
        if not condition:
            self.failures.append(text)

    def refusable(self, command):
        """The output of a command, which may be refused before it does anything."""
        status, output = jobs.execute(list(map(str, command)))
        if status == 0:
            return output
        text = f"{' '.join(map(str, command))}\n  exit status {status}\n{output}"
        if status != 1 or output.count("error: ") != 1:
            raise Wrong(text)
        raise Refused(text)

    # What jobs.Workshop makes, of this job.

    def model(self, name):
        def make(target):
            config = self.path("config.json")
            options = self.job.model.options if name == "model" else ["--seq-len", 8]
            with open(config, "w") as file:
                random_job.json.dump(self.job.model.config, file)
            self.refusable(["poplar", "import", config, *options, "-o", target])

        return self.once(self.path(f"{name}.mlir"), make)

    def planned(self, plan, name):
        with open(self.model(plan.model)) as file:
            module = jobs.add_plan(file.read(), plan)
        text, path = self.path(f"{name}-plan.mlir"), self.path(f"{name}.mlir")
        with open(text, "w") as file:
            file.write(module)
        form = f"--zero-form-buckets=min-bytes={self.job.min_bytes}"
        self.refusable(["poplar-opt", form, text, "-o", path])
        return path

    def build(self, plan, name):
        target = self.path(name)
        log = self.refusable(["poplar", "build", self.planned(plan, name), "-o", target])
        with open(os.path.join(target, "build.log"), "w") as file:
            file.write(log)
        return target

    def initial(self, shake=0):
        """A checkpoint of random weights, of which norms are near 1. With `shake`, a
        number, embeddings are moved by at most a rounding."""
        directory = self.path(f"base-{shake}" if shake else "base")
        numbers = random.Random(f"{self.job.seed} base")
        signs = random.Random(shake)
        with open(self.model("plain")) as file:
            found = re.findall(r"nn\.parameter @(\S+) : tensor<([0-9x]+)xf32>", file.read())
        header, data, offset = {}, [], 0
        for name, shape in found:
            shape = [int(n) for n in shape.split("x")]
            count = 1
            for n in shape:
                count *= n
            middle = 1.0 if len(shape) == 1 and "weight" in name else 0.0
            values = [middle + numbers.gauss(0, 0.15) for _ in range(count)]
            if shake and "embed" in name:
                values = [value * (1 + signs.choice((-1, 0, 1)) * 2**-23) for value in values]
            data.append(struct.pack(f"<{count}f", *values))
            end = offset + 4 * count
            header[name.strip('"')] = {
                "dtype": "F32", "shape": shape, "data_offsets": [offset, end]
            }  # fmt: skip
            offset = end
        text = random_job.json.dumps(header).encode()
        os.makedirs(directory)
        with open(os.path.join(directory, "model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
        shutil.copy(self.path("config.json"), directory)
        return directory

    def train_with(self, program, run, steps, *more, resume=False):
        """Of a plan's program or of the one without."""
        options = [*self.data, *self.job.options, "--steps", steps, *more]
        if self.job.init and not resume:
            options += ["--init", self.base]
        if program == self.path("model-alone"):
            options += self.alone_batch
        return self.train(program, run, options, resume)

    # What is compared.

    def check(self):
        job = self.job
        self.data = random_job.write_data(self.path("data"), job)
        self.base = self.initial() if job.init else None
        program, alone = self.build(job.plan, "job"), self.alone("model")
        evaluations = ["--eval-every", 2, "--eval-batches", 1, "--val-fraction", 0.1]
        evaluations *= job.text
        reference = self.train_with(alone, "reference", job.steps, *evaluations)
        start = self.train_with(alone, "start", 0)
        table = self.path("memory.csv")
        more = [*evaluations, "--report-memory", table]
        # Some of the state is on several ranks.
        stages = [group[1] for group in job.plan.groups] or [job.plan.stage]
        replicated = min(stages) < 3 and len(job.plan.ranks) > 1
        more += ["--check-replicas"] if replicated else []
        if job.resume:
            half = job.steps // 2
            then = {"out": alone, "into": program}.get(job.resume)
            then = then or self.build(job.other_plan, "other")
            first = alone if job.resume == "into" else program
            self.train_with(first, "run", half, *evaluations)
            run = self.train_with(then, "run", job.steps, *evaluations, resume=True)
        else:
            run = self.train_with(program, "run", job.steps, *more)
            printed, allocated = jobs.printed_peaks(program), jobs.allocated_peaks(table)
            self.expect(printed == allocated,
                        f"allocates {allocated} bytes, but {printed} were printed")  # fmt: skip
        others = len(self.failures)
        self.compare_runs(run, reference, start)
        # The norm of what linear attention has made of a token with hardly any product of
        # q and k is as uncertain as that product.
        if len(self.failures) > others and job.init and job.model.family in random_job.LINEAR:
            del self.failures[others:]
            self.shaken = [self.shake(number, *evaluations) for number in range(1, SHAKES + 1)]
            self.compare_runs(run, reference, start)
        self.compare_commands(program, alone, reference)
        return self.failures

    def shake(self, number, *evaluations):
        """The run of one device from weights that are moved by a rounding."""
        base, self.base = self.base, self.initial(number)
        try:
            return self.train_with(
                self.path("model-alone"), f"shaken-{number}", self.job.steps, *evaluations
            )
        finally:
            self.base = base

    def compare_runs(self, run, reference, start):
        losses = self.tolerance
        if self.job.model.has_blocks:
            losses = max(losses, 1e-4)
        names = ["val_loss", "grad_norm"]
        if self.shaken:
            names.insert(0, "loss")
        else:
            self.failures += jobs.compare_losses(run, reference, losses)[1]
        # As many steps, too.
        self.expect(run.column("lr") == reference.column("lr"), "has other rates")
        for name in names:
            ours, theirs = run.column(name), reference.column(name)
            tolerance = max(NORMS, 10 * losses) if name == "grad_norm" else losses
            if name == "grad_norm" and not self.exact:
                tolerance = 0.3
            for step, (x, y, *moved) in enumerate(
                zip(ours, theirs, *[each.column(name) for each in self.shaken]), 1
            ):
                most = SHAKEN * max([abs(each - y) for each in moved], default=0)
                near = is_near(x, y, tolerance) or abs(x - y) <= most
                self.expect((x != x and y != y) or near,
                            f"{name} of step {step} is {x}, expected {y}")  # fmt: skip
        self.expect(not any(x != x for x in reference.losses) or "weights" not in
                    self.job.draws.without, "a loss is NaN")  # fmt: skip
        if self.exact and not self.job.model.has_blocks:
            rate = max(reference.column("lr"))
            first, ours, theirs = start.tensors(), run.tensors(), reference.tensors()
            move = lambda tensors: {
                name: jobs.difference(tensors[name][1], first[name][1]) for name in tensors
            }
            moved = [each.tensors() for each in self.shaken]
            self.compare_all("update", move(ours), move(theirs), rate, map(move, moved))
            moments = [
                {name: values for name, (_, values) in of.tensors("optimizer.safetensors").items()}
                for of in (run, reference, *self.shaken)
            ]
            most = max(jobs.norm(v) for v in moments[1].values())
            self.compare_all("moment", *moments[:2], most, moments[2:])

    def compare_all(self, kind, ours, theirs, most, shaken):
        """Where gradients are zero, what is computed is noise: it is small beside the
        most that it could be, of one element."""
        shaken = list(shaken)
        self.expect(set(ours) == set(theirs), f"has {kind}s of other tensors")
        for name in sorted(set(ours) & set(theirs)):
            error = jobs.norm(jobs.difference(ours[name], theirs[name]))
            size = jobs.norm(theirs[name])
            limit = UPDATES * (size + (1e-3 if kind == "moment" else len(ours[name]) ** 0.5) * most)
            moved = [jobs.norm(jobs.difference(each[name], theirs[name])) for each in shaken]
            limit = max([limit, *(SHAKEN * each for each in moved)])
            self.expect(len(ours[name]) == len(theirs[name]) and error <= limit,
                        f"{kind} of {name}: off by {error:g} of {size:g}")  # fmt: skip

    def compare_commands(self, program, alone, reference):
        """Two of what a job can do besides, on weights that one device has trained."""
        latest = os.path.realpath(os.path.join(reference.directory, "latest"))
        commands = [self.compare_evaluation, self.compare_logits]
        # Others add up gradients in the update only, and fill gaps.
        commands += [] if self.job.plan.groups else [self.compare_gradients]
        commands += [] if self.job.model.masked else [self.compare_samples] * 2
        for command in random.Random(f"{self.job.seed} commands").sample(commands, 2):
            command(program, alone, latest)

    def compare_evaluation(self, program, alone, latest):
        results = []
        for name, more in ((f"{program}/launch.sh", []), (f"{alone}/host/train", ["--batch", 2])):
            words = [name, "evaluate", *self.data, "--checkpoint", latest, *more]
            status, text = jobs.execute(list(map(str, words)))
            found = re.search(r"loss (\S+), perplexity (\S+), of (\d+) tokens", text)
            nothing = "error: none of the tokens is a target" in text and status == 1
            results.append([float(found[1]), int(found[3])] if found else nothing and [0.0, 0])
        ours, theirs = results
        same = ours and theirs and ours[1] == theirs[1]
        self.expect(same and is_near(ours[0], theirs[0], self.tolerance),
                    f"evaluates to {ours}, expected {theirs}")  # fmt: skip

    def compare_logits(self, program, alone, latest):
        self.compare_tensors("logits", program, alone, latest, self.tolerance)

    def compare_gradients(self, program, alone, latest):
        self.compare_tensors("gradients", program, alone, latest, 10 * self.tolerance)

    def compare_samples(self, program, alone, latest):
        """The same tokens, each chosen from the same logits, also beyond the sequence
        length of the model: with caches those of whole sequences."""
        numbers, logits = random.Random(f"{self.job.seed} prompt"), self.path("sampled")
        vocabulary = self.job.model.vocabulary
        prompt = [numbers.randrange(vocabulary) for _ in range(numbers.choice((1, 3, 8)))]
        words = ["sample", "--checkpoint", latest, "--prompt-ids", ",".join(map(str, prompt))]
        words += ["--tokens", 10, "--dump-logits", logits]
        words += numbers.choice((["--temperature", 0], ["--temperature", 0.7, "--top-k", 9]))
        rows, texts = [], []
        for name, more in ((f"{program}/launch.sh", []), (f"{alone}/host/train", ["--no-cache"])):
            # Notes are where the text goes on.
            text = jobs.run(list(map(str, [name, *words, *more])))
            texts.append(re.sub(r"\n?note: .*\n", "", text).split())
            rows.append(safetensors_reader.read(logits)[0]["logits"][1])
        scale = max(map(abs, rows[1]))
        worst = max(map(abs, jobs.difference(*rows)))
        if self.exact:
            self.expect(texts[0] == texts[1], f"samples {texts[0]}, expected {texts[1]}")
            self.expect(worst <= 1e-4 * scale, f"sampled logits off by {worst:g} of {scale:g}")

    def compare_tensors(self, kind, program, alone, latest, tolerance):
        """Of the first batch, which may have no targets."""
        init = ["--init", latest]
        if self.job.model.adapters:
            init = ["--init", self.base, "--init-adapter", latest]
        results = []
        for place in (program, alone):
            path = self.path(kind)
            own = self.alone_batch if place == alone else []
            words = ["poplar", "train", place, *self.data, *init, *own, f"--dump-{kind}", path]
            status, text = jobs.execute(list(map(str, words)))
            if status and not re.search("error: (rank .*: )?the first batch has no targets", text):
                raise Wrong(text)
            results.append({} if status else safetensors_reader.read(path)[0])
        ours, theirs = results
        self.expect(set(ours) == set(theirs), f"dumps other {kind}")
        total = jobs.norm(x for _, values in theirs.values() for x in values)
        for name in sorted(set(ours) & set(theirs)):
            error = jobs.norm(jobs.difference(ours[name][1], theirs[name][1]))
            self.expect(ours[name][0] == theirs[name][0] and error <= tolerance * total,
                        f"{kind} {name}: off by {error:g} of {total:g}")  # fmt: skip


def find_refusal(job, text):
    return next((words for words, holds in REFUSED if re.search(words, text) and holds(job)), None)


def run_job(directory, job):
    """What it did, and what is wrong with that."""
    tester = Tester(directory, job)
    try:
        return "trained", tester.check()
    except Refused as error:
        words = find_refusal(job, str(error))
        return (f"refused: {words}", []) if words else ("refused", [str(error)])
    except (Wrong, jobs.JobError) as error:
        return "failed", [str(error)]


def minimize(directory, job):
    """The job without the axes that it fails without."""
    without = set(job.draws.without)
    for axis in random_job.AXES:
        smaller = random_job.draw_job(job.seed, without | {axis})
        if run_job(directory, smaller)[1]:
            without.add(axis)
    return random_job.draw_job(job.seed, without)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", help="for builds and runs; is emptied")
    parser.add_argument("--seed", type=int, default=1, help="of the first job")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="start no job after as many")
    parser.add_argument("--without", nargs="+", default=[], choices=random_job.AXES)
    parser.add_argument("--minimize", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the jobs")
    arguments = parser.parse_args()
    os.environ["POPLAR_LOCAL"] = "1"
    report, begin = jobs.Report(), time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        if arguments.seconds and time.monotonic() - begin > arguments.seconds:
            break
        job = random_job.draw_job(seed, arguments.without)
        if arguments.show:
            print(job.describe())
        directory, start = os.path.join(arguments.directory, str(seed)), time.monotonic()
        note, failures = run_job(directory, job)
        if failures and arguments.minimize:
            job = minimize(directory, job)
            note, failures = run_job(directory, job)
            note += f" without {' '.join(sorted(job.draws.without))}"
        if failures:
            print(f"seed {seed}\n    {job.describe()}")
        else:
            shutil.rmtree(directory)
        report.check(f"seed {seed}", failures, f"{note}, {time.monotonic() - start:.1f} s")
    report.finish()


if __name__ == "__main__":
    main()
