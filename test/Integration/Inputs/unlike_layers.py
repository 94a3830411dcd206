# ===- unlike_layers.py - Stages between unlike layers train as one device ---===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Models whose layers differ, cut between unlike layers. Each plan trains for 6 steps
(--steps: more), with the gradient clipped in every step, and is compared with a run
on one device, which takes the batch at once:
  losses     within 1e-5 of each other, relatively; so are those of validation
  updates    |D - D*| <= 1e-3 |D*| for every tensor, D what training added to it
  memory     each rank has the peak that poplar build printed, to the byte
  text       `poplar sample` of the run continues a prompt as that of the other run
Runs under some plans go on on one device, and the other way round.

--goldens instead cuts golden models, in the weights and on the tokens of PyTorch:
pipelines have its loss within 1e-5, and sample the text that transformers generates."""

import concurrent.futures
import json
import os
import sys

import jobs
from jobs import DeviceType, Plan, Rank

STEPS, CLIP, SAMPLES = 6, 0.2, 12
GOLDENS = os.path.join(jobs.SOURCES, "test", "Integration", "goldens")
TYPES = (
    DeviceType("fast", jobs.best_f32_target()),
    DeviceType("slow", "host:sse41-f32"),
    DeviceType("unit", jobs.best_f32_target(), recompute="recompute-unit"),
)
SLIDING, FULL = "sliding_attention", "full_attention"
# By name: the golden configuration of a family, what is changed in it besides heads
# of keys, of which devices share two, and options of the import. Units are the layers,
# one before and one behind them.
MODELS = {
    "gemma2": ("gemma2", {"layer_types": [SLIDING, FULL] * 3}, []),
    "gemma3": ("gemma3", {"layer_types": [SLIDING, SLIDING, FULL] * 2}, []),
    "qwen3_moe": ("qwen3_moe", {"num_hidden_layers": 5, "mlp_only_layers": [0, 2]}, []),
    "qwen3_next": ("qwen3_next", {}, []),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 1, 0], "layer_types": [FULL] * 3}, []),
    # The head returns what has the type of activations.
    "narrow": ("gemma2", {"hidden_size": 256, "tie_word_embeddings": False}, []),
    "adapters": ("gemma3", {"layer_types": [SLIDING, FULL, SLIDING]}, ["--lora-rank", "4"]),
    "quantized": (
        "gemma3",
        {"hidden_size": 64, "head_dim": 32, "intermediate_size": 64,
         "layer_types": [SLIDING, FULL, SLIDING]},
        ["--lora-rank", "4", "--frozen-format", "nf4"],
    ),
}  # fmt: skip
# The batches of pipelines: micro-batch, micro-steps and the last micro-batch. In ZeRO stages 2
# and 3 they have as many micro-steps.
ONE, TWO = [(5, 3, 2)], [(3, 3, 2), (2, 2, 2)]
MEET = [(3, 3, 2), (2, 3, 0)]


def pipeline(model, ends, types, lanes=ONE, zeros=None, schedule="1f1b", parts=None):
    """The options of groups that end before the units `ends`, chunk by chunk. Devices
    that share the units of a group have one of its types each."""
    groups, ranks = [], []
    starts = [0, *ends]
    count = len(types)
    for group, names in enumerate(types):
        units = [starts[place + side] for place in range(group, len(ends), count) for side in (0, 1)]
        zero = zeros[group] if zeros else 0
        names = names.split("+")
        own = [tuple(parts or [1] * len(names))] if len(names) > 1 else []
        groups.append((tuple(units), zero, *own))
        ranks += [Rank(*lane, type=name, group=group) for lane in lanes for name in names]
    stage = max(zeros or [0])
    if count == 1:
        schedule = ""
    return Plan(model, stage, tuple(ranks), TYPES, tuple(groups), schedule)


PLANS = {
    # Between a layer with a window and one without, either first.
    "gemma2-two": pipeline("gemma2", [2, 8], ["fast", "slow"], TWO, [1, 0]),
    "gemma2-three": pipeline("gemma2", [3, 5, 8], ["fast", "slow", "unit"], ONE, [0, 1, 2]),
    "gemma2-chunks": pipeline("gemma2", [2, 3, 5, 8], ["fast", "slow"], schedule="interleaved"),
    "gemma2-shared": pipeline("gemma2", [3, 8], ["fast+fast", "slow+slow"], parts=[3, 1]),
    "gemma3-three": pipeline("gemma3", [3, 4, 8], ["fast", "slow", "fast"], MEET, [3, 0, 2]),
    "gemma3-chunks": pipeline(
        "gemma3", [1, 2, 3, 4, 6, 8], ["fast", "slow", "fast"], schedule="interleaved"
    ),
    "gemma3-shared": pipeline("gemma3", [4, 5, 8], ["unit+unit", "slow", "fast+slow"], zeros=[1, 0, 1]),
    "qwen3_moe-two": pipeline("qwen3_moe", [3, 7], ["fast", "slow"], TWO, [0, 1]),
    "qwen3_moe-three": pipeline("qwen3_moe", [2, 4, 7], ["slow", "unit", "fast"], MEET, [2, 1, 3]),
    "qwen3_moe-chunks": pipeline("qwen3_moe", [2, 3, 4, 7], ["fast", "slow"], schedule="interleaved"),
    "qwen3_next-three": pipeline("qwen3_next", [2, 4, 6], ["fast", "unit", "slow"], MEET, [0, 1, 2]),
    "smollm3-shared": pipeline("smollm3", [3, 5], ["fast+slow", "slow"]),
    "narrow-shared": pipeline("narrow", [2, 4], ["fast+slow", "slow+fast"]),
    "adapters-three": pipeline("adapters", [2, 3, 5], ["fast", "slow", "fast"]),
    "adapters-shared": pipeline("adapters", [2, 5], ["fast+fast", "slow"]),
    "quantized-two": pipeline("quantized", [2, 5], ["fast", "slow"], TWO, [1, 0]),
}  # fmt: skip
RESUMED = ("gemma3-chunks", "qwen3_moe-two")
# The golden models, which have two layers, or three of which the middle one is
# dense.
GOLDEN_PLANS = {
    "gemma2": pipeline("golden-gemma2", [2, 4], ["fast", "slow"], [(1, 3, 1)]),
    "gemma3": pipeline("golden-gemma3", [1, 2, 4], ["slow", "fast", "slow"], [(1, 3, 1)]),
    "qwen3_moe": pipeline("golden-qwen3_moe", [2, 3, 5], ["fast", "slow", "fast"], [(1, 3, 1)]),
    "smollm3": pipeline(
        "golden-smollm3", [1, 2, 3, 4], ["fast", "slow"], [(1, 3, 1)], schedule="interleaved"
    ),
}  # fmt: skip
PROMPT = ["--prompt", "ROMEO", "--tokens", "8", "--temperature", "0"]


class Workshop(jobs.Workshop):
    def model(self, name):
        def make(target):
            if name.startswith("golden-"):
                config, options = os.path.join(GOLDENS, name.removeprefix("golden-")), []
                length = 24
            else:
                family, changes, options = MODELS[name]
                with open(os.path.join(GOLDENS, family, "config.json")) as file:
                    values = json.load(file) | {"num_key_value_heads": 2} | changes
                if "layer_types" in changes:
                    values["num_hidden_layers"] = len(changes["layer_types"])
                config, length = self.path(f"{name}.json"), jobs.SEQ_LEN
                with open(config, "w") as file:
                    json.dump(values, file)
            jobs.run(["poplar", "import", config, "--seq-len", str(length), *options, "-o", target])

        return self.once(self.path(f"{name}.mlir"), make)


class Tester:
    def __init__(self, arguments):
        self.workshop, self.report = Workshop(arguments.directory), jobs.Report()
        self.steps = arguments.steps
        options = ["--lr", 1e-3, "--clip", CLIP, "--schedule", "constant", "--warmup", 0]
        options += ["--eval-every", self.steps // 2, "--eval-batches", 2, "--val-fraction", 0.1]
        self.half = [*options, "--steps", self.steps // 2]
        self.options = [*options, "--steps", self.steps]

    def prepare(self, model):
        reference = self.workshop.train_alone(model, f"{model}-reference", SAMPLES, self.options)
        return reference, self.workshop.initial_weights(model), self.sample(reference)

    def sample(self, run):
        return jobs.run(["poplar", "sample", run.directory, *PROMPT])

    def compare(self, name, run, model):
        reference, initial, text = self.references[model]
        loss, update, failures = jobs.compare_runs(run, reference, initial, CLIP)
        failures += jobs.compare_validations(run, reference, 2)
        if (own := self.sample(run)) != text:
            failures.append(f"samples {own!r}, expected {text!r}")
        self.report.check(name, failures, f"losses {loss:.1e}, updates {update:.1e}")

    def check(self, name):
        plan, memory = PLANS[name], self.workshop.path(f"{name}.csv")
        assert plan.samples == SAMPLES, name
        try:
            job = self.workshop.build(plan, name)
            run = self.workshop.train(
                job, f"{name}-run", [*self.options, "--report-memory", memory]
            )
            self.compare(name, run, plan.model)
            allocated, said = jobs.allocated_peaks(memory), jobs.printed_peaks(job)
            failures = [] if allocated == said else [f"{allocated} bytes, not {said}"]
            self.report.check(f"{name}-memory", failures)
            if name not in RESUMED:
                return
            alone = self.workshop.alone(plan.model)
            batch = ["--global-batch", SAMPLES, "--batch", SAMPLES, "--threads", 1]
            more = {job: [], alone: batch}
            for first, second, kind in ((job, alone, "out"), (alone, job, "into")):
                out = f"{name}-{kind}"
                self.workshop.train(first, out, [*self.half, *more[first]])
                run = self.workshop.train(second, out, [*self.options, *more[second]], True)
                self.compare(out, run, plan.model)
        except jobs.JobError as error:
            self.report.check(name, [str(error)])

    def check_golden(self, family):
        """The first step's loss is that of PyTorch's batch; text is transformers'."""
        golden = os.path.join(GOLDENS, family)
        with open(os.path.join(golden, "expected.json")) as file:
            expected = json.load(file)["batches"]["3"]["loss"]
        try:
            job = self.workshop.build(GOLDEN_PLANS[family], f"golden-{family}")
            tokens = os.path.join(golden, "batch3.tokens")
            words = ["--init", golden, "--data-ids", tokens, "--steps", 1]
            run = self.workshop.train(job, f"golden-{family}-run", words)
            (loss,) = run.losses
            same = abs(loss - expected) <= jobs.LOSS_TOLERANCE * expected
            failures = [] if same else [f"loss {loss:.9g}, expected {expected:.9g}"]
            self.report.check(f"{family}-loss", failures, f"{loss:.9g}")
            scratch = self.workshop.path(f"golden-{family}-text")
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sample_cached.py")
            jobs.run([sys.executable, script, scratch, golden, os.path.join(job, "launch.sh"),
                      "sample", "--checkpoint", golden])  # fmt: skip
            self.report.check(f"{family}-text", [])
        except jobs.JobError as error:
            self.report.check(family, [str(error)])

    def run(self, names, goldens):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            if goldens:
                list(pool.map(self.check_golden, GOLDEN_PLANS))
            else:
                models = sorted({PLANS[name].model for name in names})
                self.references = dict(zip(models, pool.map(self.prepare, models)))
                list(pool.map(self.check, names))
        self.report.finish()


def main():
    def add(parser):
        parser.add_argument("--only", nargs="+", choices=PLANS, default=list(PLANS))
        parser.add_argument("--goldens", action="store_true")

    arguments = jobs.parse_arguments(__doc__, add, STEPS)
    os.environ["POPLAR_LOCAL"] = "1"
    Tester(arguments).run(arguments.only, arguments.goldens)


if __name__ == "__main__":
    main()
