# ===- combinations.py - Families with adapters, few bits and packing -------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""For each of --families (default: all that have goldens and a causal mask), what
options do together:
  packing    adapters on all linear layers of a model in --frozen-format, trained on
             documents that share samples, have the losses of a program without
             packing that is given the documents one by one: within 1e-5, relatively
  sampling   the text and the logits are the same with a KV cache and without:
             within 1e-4 of the largest logit
  merging    the merged model, without adapters or quantisation, has the logits of
             the run: within 1e-4 of the largest
"""

import argparse
import array
import os
import random
import shutil

import jobs
import safetensors_reader

STEPS, SEQ_LEN, LIMIT = 4, 16, 1e-5
# By sample.
LENGTHS = [[9, 7], [4, 11, 1], [16], [5, 6]]
GOLDENS = os.path.join(jobs.SOURCES, "test", "Integration", "goldens")


def find_families():
    """Directories with a model that others do not repeat."""
    return [
        name
        for name in sorted(os.listdir(GOLDENS))
        if name != "bert" and os.path.exists(f"{GOLDENS}/{name}/config.json")
    ]


def write_samples(path, samples, packed):
    data = array.array("i")
    for documents in samples:
        ids = [i for document in documents for i in document[:-1]]
        targets = [i for document in documents for i in document[1:]]
        positions = [p for document in documents for p in range(len(document) - 1)]
        rest = [0] * (SEQ_LEN - len(ids))
        data.extend(ids + rest)
        data.extend(targets + [-1] * len(rest))
        if packed:
            data.extend(positions + rest)
    with open(path, "wb") as file:
        data.tofile(file)
    return path


class Family:
    def __init__(self, directory, name, form):
        self.directory, self.base = os.path.join(directory, name), f"{GOLDENS}/{name}"
        self.lora = ["--lora-rank", 4, "--lora-alpha", 8, "--frozen-format", form]
        os.makedirs(self.directory)
        numbers = random.Random(3)
        self.samples = [
            [[numbers.randrange(3, 60) for _ in range(n + 1)] for n in lengths]
            for lengths in LENGTHS
        ]

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def poplar(self, *words):
        return jobs.run(["poplar", *map(str, words)])

    def build(self, name, *options, base=None):
        model = self.path(f"{name}.mlir")
        words = ["--seq-len", SEQ_LEN, *options, "-o", model]
        self.poplar("import", base or self.base, *words)
        self.poplar("build", model, "--threads", 1, "-o", self.path(name))
        return self.path(name)

    def train(self, program, packed):
        samples = self.samples
        if not packed:
            samples = [[document] for documents in samples for document in documents]
        name = os.path.basename(program)
        data = write_samples(self.path(f"{name}.ids"), samples, packed)
        out = self.path(f"{name}-run")
        self.poplar("train", program, "--init", self.base, "--data-ids", data, "--steps",
                    STEPS, "--lr", 1e-2, "--warmup", 0, "--schedule", "constant",
                    "--global-batch", len(samples), "--peak-gflops", 1, "--out", out)  # fmt: skip
        return jobs.Run(out)

    def sample(self, run, *options):
        """Ids and logits of a greedy text."""
        logits = self.path("sampled.safetensors")
        text = self.poplar("sample", run.directory, "--prompt-ids", "5,9,4", "--tokens", 8,
                           "--temperature", 0, "--dump-logits", logits, *options)  # fmt: skip
        ids = [word for word in text.split("\n") if word.strip()][-1]
        return ids, safetensors_reader.read(logits)[0]["logits"][1]

    def get_logits(self, program, *options):
        """Of the documents one by one."""
        samples = [[document] for documents in self.samples for document in documents]
        data = write_samples(self.path("logits.ids"), samples, packed=False)
        logits = self.path("logits.safetensors")
        self.poplar("train", program, "--data-ids", data, "--batch", len(samples),
                    "--global-batch", len(samples), "--dump-logits", logits, *options)  # fmt: skip
        return safetensors_reader.read(logits)[0]["logits"][1]


def compare(what, ours, theirs):
    worst = max(abs(x - y) for x, y in zip(ours, theirs, strict=True))
    scale = max(map(abs, theirs))
    # Written so that a NaN fails.
    return [] if worst <= 1e-4 * scale else [f"{what}: off by {worst:g} of {scale:g}"]


def check(family):
    packed = family.train(family.build("packed", *family.lora, "--packing"), True)
    alone_program = family.build("alone", *family.lora)
    loss, wrong = jobs.compare_losses(packed, family.train(alone_program, False), LIMIT)
    cached, whole = family.sample(packed), family.sample(packed, "--no-cache")
    if cached[0] != whole[0]:
        wrong.append(f"samples {cached[0]} with a cache and {whole[0]} without")
    wrong += compare("logits with a cache", cached[1], whole[1])
    family.poplar("merge", packed.directory, "-o", family.path("merged"))
    merged = family.build("plain", base=family.path("merged"))
    adapted = family.get_logits(alone_program, "--init", family.base, "--init-adapter",
                                packed.directory)  # fmt: skip
    ours = family.get_logits(merged, "--init", family.path("merged"))
    return loss, wrong + compare("logits of the merged model", ours, adapted)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", help="for builds and runs; is emptied")
    parser.add_argument("--families", nargs="+", default=find_families())
    parser.add_argument("--frozen-format", default="nf4")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.directory, ignore_errors=True)
    report = jobs.Report()
    for name in arguments.families:
        try:
            family = Family(arguments.directory, name, arguments.frozen_format)
            loss, wrong = check(family)
            report.check(name, wrong, f"losses {loss:.1e}")
        except jobs.JobError as error:
            report.check(name, [str(error)])
    report.finish()


main()
