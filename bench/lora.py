#!/usr/bin/env python3
# ===- lora.py - Adapters on unlike devices, against the parts and PEFT ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""LoRA on a Qwen3 by two unlike host types, a core and a network namespace each,
joined by a link of --rate. In turns, this measures the throughput of

  parts    each type by itself, both at the same time, so that each has the other
           as a neighbor that computes
  both     one job of both, by the planner's batches
  peft     transformers and PEFT on one core, while the other computes; and with
           all cores of the machine, while nothing else does

All start from the same weights and the same adapter, which PEFT made, and train on
the same samples in the same order by the same AdamW. How PEFT is fastest is found
first: for each number of threads, a step in micro-batches of 1, 2, 4 ... samples,
eager and, at the best of them, by torch.compile. Only the best one is measured.

Prints throughput against the sum of the parts, the fastest type and PEFT, and how
far losses are from each other. Needs a build, two cores, root, iproute2, a quiet
machine, and PyTorch, transformers and PEFT (--python); without the latter, PEFT is
left out, and without namespaces the exit status is 3.

  bench/lora.py --python venv/bin/python"""

import argparse
import csv
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

from commands import ROOT, run
from workshop import WARMUP_STEPS, Workshop, add_options

# The same for all: AdamW without decay, whose groups would differ.
RATE, BETAS, EPS, CLIP = 1e-3, (0.9, 0.999), 1e-8, 1.0

# What PEFT runs. `words` is a JSON object; prints one with seconds and losses.
PEFT = """
import json, sys, time
words = json.loads(sys.argv[1])
import numpy, torch, transformers, peft
torch.set_num_threads(words["threads"])
torch.manual_seed(5)
load = transformers.AutoModelForCausalLM.from_pretrained
model = load(words["base"], dtype=torch.float32)
if words.get("make"):
    config = peft.LoraConfig(r=words["rank"], lora_alpha=2 * words["rank"],
                             target_modules="all-linear", task_type="CAUSAL_LM")
    peft.get_peft_model(model, config).save_pretrained(words["make"])
    sys.exit()
model = peft.PeftModel.from_pretrained(model, words["adapter"], is_trainable=True).train()
forward = torch.compile(model) if words["compile"] else model
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=words["lr"], betas=words["betas"],
                              eps=words["eps"], weight_decay=0, fused=True)
samples = torch.from_numpy(numpy.fromfile(words["samples"], numpy.int32).astype(numpy.int64))
samples = samples.view(-1, 2, words["length"])
seconds, losses = [], []
start = time.perf_counter()
step = 0
while len(seconds) < words["steps"] or time.perf_counter() - start < words["seconds"]:
    begin = time.perf_counter()
    optimizer.zero_grad()
    first = step * words["batch"] % len(samples)
    ids, targets = samples[first:first + words["batch"]].unbind(1)
    total = 0
    for part, wanted in zip(ids.split(words["micro"]), targets.split(words["micro"])):
        logits = forward(input_ids=part, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), reduction="sum") / ids.numel()
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(parameters, words["clip"])
    optimizer.step()
    seconds.append(time.perf_counter() - begin)
    losses.append(total)
    step += 1
print(json.dumps({"seconds": seconds, "losses": losses}))
"""


class Adapters(Workshop):
    def __init__(self, arguments):
        super().__init__(arguments)
        known = self.get_types()
        if len(known) < 2:
            sys.exit("error: the machine has one host type only")
        self.types = known[:2]
        self.make_model()
        megabytes = float(arguments.rate.removesuffix("mbit")) / 8
        self.cluster = self.write_cluster(
            "both", self.types, [{"between": "nodes", "latency": 1e-4, "bandwidth": megabytes * 1e6}]
        )
        self.profile(self.types, self.cluster, stage="0")
        self.make_samples()
        if arguments.python and not os.path.exists(self.path("adapter")):
            self.run_peft(make=self.path("adapter"), threads=1)

    def make_model(self):
        if os.path.exists(self.path("model.mlir")):
            return
        with open(ROOT + "/examples/models/tiny-qwen3.json") as file:
            config = json.load(file)
        width = self.arguments.width
        config.update(
            hidden_size=width, intermediate_size=3 * width, head_dim=64, vocab_size=4096,
            num_attention_heads=width // 64, num_key_value_heads=max(1, width // 128),
            num_hidden_layers=self.arguments.layers or 6,
            max_position_embeddings=self.arguments.seq_len,
        )  # fmt: skip
        with open(self.path("config.json"), "w") as file:
            json.dump(config, file)
        # The weights of the base do not matter, but all have the same.
        self.poplar("import", self.path("config.json"), "-o", self.path("base.mlir"))
        self.poplar("build", self.path("base.mlir"), "-o", self.path("base"))
        self.poplar("train", self.path("base"), *self.get_data(), "--steps", 1, "--global-batch", 1,
                    "--out", self.path("base-run"))  # fmt: skip
        self.poplar("import", self.path("config.json"), "--lora-rank", self.arguments.rank,
                    "--lora-alpha", 2 * self.arguments.rank, "-o", self.path("model.mlir"))  # fmt: skip

    @staticmethod
    def get_data():
        return ["--data", ROOT + "/examples/data/corpus.txt", "--data-format", "bytes"]

    def make_samples(self):
        """Stretches of the corpus at random, as ids and targets."""
        random.seed(1)
        with open(ROOT + "/examples/data/corpus.txt", "rb") as file:
            text = file.read()
        with open(self.path("samples.ids"), "wb") as file:
            for _ in range(self.arguments.batch * self.arguments.samples):
                at = random.randrange(len(text) - self.tokens - 1)
                for begin in (at, at + 1):
                    for byte in text[begin : begin + self.tokens]:
                        file.write(byte.to_bytes(4, "little"))

    def write_cluster(self, name, types, links):
        cluster = {
            "device_types": self.describe_types(types),
            "nodes": [{"name": f"node{i}", "devices": [t]} for i, t in enumerate(types)],
            "links": links,
        }
        path = self.path(f"cluster-{name}.json")
        with open(path, "w") as file:
            json.dump(cluster, file)
        return path

    def prepare(self, name, cluster, types, batch):
        if name in self.state:
            return
        path = self.path(name + ".mlir")
        self.poplar("plan", "--model", self.path("model.mlir"), "--cluster", cluster,
                    "--profiles", self.profiles_of(types), "--global-batch", batch,
                    "--zero", 0, "--leave-out", "none", "-o", path)  # fmt: skip
        self.poplar("build", path, "-o", self.path(name))
        simulated = json.loads(self.poplar("simulate", path, "--json", "-"))
        self.state[name] = {"simulated": simulated["simulated_seconds"], "rates": []}
        self.save()

    def prepare_all(self):
        self.prepare("both", self.cluster, self.types, self.arguments.batch)
        for name in self.types:
            cluster = self.write_cluster(name, [name], [])
            self.prepare(name, cluster, [name], self.arguments.batch)

    def get_train(self, steps, out):
        start = ["--init-adapter", self.path("adapter")] if self.arguments.python else []
        steps = str(steps + WARMUP_STEPS)
        return ["train", "--data-ids", self.path("samples.ids"), "--steps", steps,
                "--eval-every", "0", "--log-every", steps, "--peak-gflops", "100",
                "--out", out, "--init", self.path("base-run"), *start,
                "--lr", str(RATE), "--schedule", "constant", "--warmup", "0",
                "--beta1", str(BETAS[0]), "--beta2", str(BETAS[1]), "--eps", str(EPS),
                "--weight-decay", "0", "--clip", str(CLIP)]  # fmt: skip

    def count_steps(self, name):
        return max(10, int(self.arguments.turn / self.state[name]["simulated"]))

    def record(self, name, out):
        samples = self.arguments.batch * self.tokens
        rates = [samples / seconds for seconds in self.read_steps(out, self.arguments.batch)]
        self.state[name]["rates"].append(statistics.median(rates))
        self.save()

    def measure_parts(self):
        running = []
        for name in self.types:
            out = self.path(f"run-{name}")
            shutil.rmtree(out, ignore_errors=True)
            words = self.get_train(self.count_steps(name), out)
            running.append((name, out, subprocess.Popen([self.path(name, name, "train"), *words],
                                                        stdout=subprocess.DEVNULL)))  # fmt: skip
        for name, out, process in running:
            if process.wait():
                sys.exit(f"error: {process.args} failed")
            self.record(name, out)

    def measure_both(self):
        out = self.path("run-both")
        shutil.rmtree(out, ignore_errors=True)
        words = self.get_train(self.count_steps("both"), out)
        self.start("both", ["--rate", self.arguments.rate], *words)
        self.record("both", out)

    def run_peft(self, **words):
        words = {
            "base": self.path("base-run", "latest"), "adapter": self.path("adapter"),
            "samples": self.path("samples.ids"), "length": self.tokens,
            "batch": self.arguments.batch, "rank": self.arguments.rank, "lr": RATE,
            "betas": BETAS, "eps": EPS, "clip": CLIP, **words,
        }  # fmt: skip
        result = run(self.arguments.python, "-c", PEFT, json.dumps(words),
                     OMP_NUM_THREADS=str(words["threads"]))  # fmt: skip
        return json.loads(result.stdout.splitlines()[-1]) if result.stdout else None

    def run_beside(self, **words):
        """PEFT on one core, while the other computes."""
        out = self.path("run-neighbor")
        shutil.rmtree(out, ignore_errors=True)
        neighbor = subprocess.Popen(
            [self.path(self.types[1], self.types[1], "train"), *self.get_train(10**6, out)],
            stdout=subprocess.DEVNULL,
        )
        try:
            return self.run_peft(**words)
        finally:
            neighbor.terminate()
            neighbor.wait()

    def sweep_peft(self):
        """The fastest way of PEFT, for one core and for all of them."""
        ways = self.state.setdefault("ways", {})
        for cores in {1, os.cpu_count()}:
            tried = ways.setdefault(str(cores), {})

            def measure(micro, compiles):
                key = f"{micro}{' compiled' if compiles else ''}"
                if key not in tried:
                    start = self.run_beside if cores == 1 else self.run_peft
                    result = start(threads=cores, micro=micro, compile=compiles,
                                   steps=4, seconds=0)  # fmt: skip
                    tried[key] = min(result["seconds"][1:])
                    print(f"PEFT, {cores} threads, micro-batches of {key}: "
                          f"{tried[key]:.3f} s a step", flush=True)  # fmt: skip
                    self.save()
                return tried[key]

            micro = 1
            best = (measure(1, False), 1)
            while (micro := 2 * micro) <= self.arguments.batch:
                best = min(best, (measure(micro, False), micro))
            measure(best[1], True)

    def get_best_way(self, cores):
        tried = self.state["ways"][str(cores)]
        return min(tried, key=tried.get)

    def measure_peft(self):
        if not self.arguments.python:
            return
        for cores in {1, os.cpu_count()}:
            micro, *compiles = self.get_best_way(cores).split()
            start = self.run_beside if cores == 1 else self.run_peft
            result = start(threads=cores, micro=int(micro), compile=bool(compiles),
                           steps=10 + WARMUP_STEPS, seconds=self.arguments.turn)  # fmt: skip
            seconds = statistics.median(result["seconds"][WARMUP_STEPS:])
            name = f"peft-{cores}"
            self.state.setdefault(name, {"rates": []})["rates"].append(
                self.arguments.batch * self.tokens / seconds
            )
            self.state[name]["losses"] = result["losses"]
        self.save()

    def compare_losses(self):
        """The largest differences between the losses of both and of others."""
        def read(run_name):
            with open(self.path(run_name, "metrics.csv"), newline="") as file:
                return [float(row["loss"]) for row in csv.DictReader(file)]

        both = read("run-both")
        others = {self.types[0] + " alone": read(f"run-{self.types[0]}")}
        if "peft-1" in self.state:
            others["PEFT"] = self.state["peft-1"]["losses"]
        for name, losses in others.items():
            pairs = list(zip(both, losses))
            worst = max(abs(a - b) / b for a, b in pairs)
            print(f"losses of both and of {name} differ by {worst:.1e} at most in {len(pairs)} steps")

    def print_ratio(self, what, upper, *lower):
        """The median over the turns, and their range."""
        turns = [
            rate / sum(rates)
            for rate, *rates in zip(*(self.state[name]["rates"] for name in (upper, *lower)))
        ]
        print(f"| {what} | {statistics.median(turns):.3f} | {min(turns):.3f} to {max(turns):.3f} |")

    def print_table(self):
        fast, slow = self.types
        count = len(self.state["both"]["rates"])
        print(f"| | ratio | range of {count} turns |\n| --- | --- | --- |")
        self.print_ratio(f"{fast} / {slow}", fast, slow)
        self.print_ratio("both / sum of the parts", "both", fast, slow)
        self.print_ratio(f"both / {fast}", "both", fast)
        for cores in sorted({1, os.cpu_count()}):
            name = f"peft-{cores}"
            if name not in self.state:
                continue
            way = f"PEFT, {cores} threads, micro-batches of {self.get_best_way(cores)}"
            self.print_ratio(f"{fast} / {way}", fast, name)
            self.print_ratio(f"both / {way}", "both", name)
        self.compare_losses()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "bench-lora")
    parser.set_defaults(turn=20)
    parser.add_argument("--rate", default="1000mbit", help="of the link")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--samples", type=int, default=50, help="steps until samples repeat")
    parser.add_argument("--python", help="an interpreter that has torch, transformers and peft")
    workshop = Adapters(parser.parse_args())
    workshop.prepare_all()
    if workshop.arguments.python:
        workshop.sweep_peft()
    for number in range(1, workshop.arguments.rounds + 1):
        if len(workshop.state["both"]["rates"]) < number:
            print(f"turn {number}", flush=True)
            workshop.measure_parts()
            workshop.measure_both()
            workshop.measure_peft()
    workshop.print_table()


if __name__ == "__main__":
    main()
