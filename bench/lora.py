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
  peft     transformers and PEFT on one core, while the other computes

and prints both against the sum of the parts, against the fastest type, and against
PEFT, and how far the losses of both are from those of one device. PEFT takes
--peft-batch samples a step. Needs a build, two cores, root, iproute2 and a quiet
machine; without namespaces the exit status is 3. Without PyTorch, transformers and
PEFT (--python) that line is left out.

  bench/lora.py --python venv/bin/python"""

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys

from commands import ROOT, run
from workshop import Workshop, add_options

PEFT = """
import json, sys, time
import torch, transformers, peft
base, batch, length, rank, seconds = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
torch.set_num_threads(1)
model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
model = peft.get_peft_model(model, config).train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
ids = torch.randint(0, model.config.vocab_size, (batch, length))
rates = []
start = time.perf_counter()
while len(rates) < 5 or time.perf_counter() - start < seconds:
    begin = time.perf_counter()
    optimizer.zero_grad()
    model(input_ids=ids, labels=ids).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    rates.append(batch * length / (time.perf_counter() - begin))
print(json.dumps(rates[2:]))
"""


class Adapters(Workshop):
    def __init__(self, arguments):
        super().__init__(arguments)
        known = self.get_types()
        if len(known) < 2:
            sys.exit("error: the machine has one host type only")
        self.types = [known[0], known[-1]]
        self.make_model()
        megabytes = float(arguments.rate.removesuffix("mbit")) / 8
        self.cluster = self.write_cluster(
            "both", self.types, [{"between": "nodes", "latency": 1e-4, "bandwidth": megabytes * 1e6}]
        )
        self.profile(self.types, self.cluster, stage="0")

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
        return [*self.get_words(steps, out), *self.get_data()[2:], "--init",
                self.path("base-run"), "--lr", "1e-3"]  # fmt: skip

    def count_steps(self, name):
        return max(3, int(self.arguments.turn / self.state[name]["simulated"]))

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

    def measure_peft(self):
        """While the other core computes."""
        if not self.arguments.python:
            return
        out = self.path("run-neighbor")
        shutil.rmtree(out, ignore_errors=True)
        steps = 4 * self.count_steps(self.types[1])
        neighbor = subprocess.Popen(
            [self.path(self.types[1], self.types[1], "train"), *self.get_train(steps, out)],
            stdout=subprocess.DEVNULL,
        )
        try:
            result = run(
                self.arguments.python, "-c", PEFT, self.path("base-run", "latest"),
                str(self.arguments.peft_batch), str(self.tokens), str(self.arguments.rank),
                str(self.arguments.turn),
            )  # fmt: skip
        finally:
            neighbor.terminate()
            neighbor.wait()
        rates = json.loads(result.stdout.splitlines()[-1])
        self.state.setdefault("peft", {"rates": []})["rates"].append(statistics.median(rates))
        self.save()

    def compare_losses(self):
        """The largest difference between the losses of both and of one device."""
        def read(run_name):
            with open(self.path(run_name, "metrics.csv"), newline="") as file:
                return [float(row["loss"]) for row in csv.DictReader(file)]

        pairs = list(zip(read("run-both"), read(f"run-{self.types[0]}")))
        return len(pairs), max(abs(a - b) / b for a, b in pairs)

    def print_table(self):
        best = {name: statistics.median(self.state[name]["rates"])
                for name in ["both", *self.types, "peft"] if name in self.state}  # fmt: skip
        parts = [
            (both / (one + other))
            for both, one, other in zip(*(self.state[n]["rates"] for n in ["both", *self.types]))
        ]
        fast = best[self.types[0]]
        print("| | to the fastest type |\n| --- | --- |")
        for name, rate in best.items():
            print(f"| {name} | {rate / fast:.2f}x |")
        print(f"both / sum of the parts: {statistics.median(parts):.3f} "
              f"({min(parts):.3f} to {max(parts):.3f} in {len(parts)} turns)")  # fmt: skip
        if "peft" in best:
            print(f"both / PEFT on one core: {best['both'] / best['peft']:.2f}, "
                  f"{self.types[0]} / PEFT: {fast / best['peft']:.2f}")  # fmt: skip
        steps, error = self.compare_losses()
        print(f"losses of both and of {self.types[0]} alone differ by {error:.1e} at most in {steps} steps")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "bench-lora")
    parser.add_argument("--rate", default="1000mbit", help="of the link")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--peft-batch", type=int, default=8)
    parser.add_argument("--python", help="an interpreter that has torch, transformers and peft")
    workshop = Adapters(parser.parse_args())
    workshop.prepare_all()
    for number in range(1, workshop.arguments.rounds + 1):
        if len(workshop.state["both"]["rates"]) < number:
            print(f"turn {number}", flush=True)
            workshop.measure_parts()
            workshop.measure_both()
            workshop.measure_peft()
    workshop.print_table()


if __name__ == "__main__":
    main()
