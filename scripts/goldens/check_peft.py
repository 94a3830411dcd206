#!/usr/bin/env python3
# ===- check_peft.py - Fine-tuning against transformers and PEFT -----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Fine-tunes tiny models of make_goldens.py for 50 steps, with PyTorch and here:
Llama and GPT-2 (whose head is tied) as a whole, and by LoRA adapters of PEFT, on
one device and as a job of two unlike device types in the stages 0 to 3; other
families by adapters, on one device and in stage 3.

  losses    |l - l*| <= 1e-4 |l*| in every step
  adapters  there -> here: a job starts with the adapter that PEFT wrote
            here -> there: PEFT opens RUN/latest beside the model, and
            transformers opens what poplar merge wrote; in both cases logits are
            those of the run, max |x - y| <= 1e-4 max |y|
  saved     adapters beside an embedding and a head that are trained as a whole
  QLoRA     the same of models whose frozen weights are quantised here: there,
            they have been rounded by test/Integration/Inputs/quantized.py, which
            check_bitsandbytes.py compares with bitsandbytes; of mixtures, those of
            experts, too

Prints a table and succeeds if every row is within its tolerance. With --save
DIR, writes the adapters and PyTorch's losses to DIR/peft-MODEL: the goldens of
test/Integration/Adapters/lora.test. Needs the packages of requirements.txt and a build.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file

import checks
import make_goldens

sys.path.append(
    os.path.join(os.path.dirname(__file__), "..", "..", "test", "Integration", "Inputs")
)
import quantized

TOLERANCE = 1e-4
STEPS, BATCH = 50, 3
TARGETS = {
    "llama": ["q_proj", "v_proj", "down_proj"],
    "gpt2": ["c_attn", "mlp.c_proj"],
    "qwen3": ["q_proj", "k_proj", "o_proj", "up_proj"],
    "phi3": ["qkv_proj", "gate_up_proj"],
    "gemma2": ["v_proj", "gate_proj", "down_proj"],
    "gemma3": ["q_proj", "down_proj"],
    "olmo2": ["q_proj", "k_proj", "v_proj"],
    "granite": ["o_proj", "down_proj"],
    "mixtral": ["q_proj", "v_proj"],
    "qwen3_moe": ["q_proj", "k_proj", "o_proj"],
    "qwen3_next": ["q_proj", "in_proj_qkvz", "out_proj"],
    "mistral4": ["q_b_proj", "o_proj"],
}
# These are trained in all ways; of the others adapters, on one device and sharded.
WHOLE = ("llama", "gpt2")
# On one device and in stage 3.
QUANTIZED = {
    "llama": ("nf4", "nf4_double", "int8"),
    "qwen3": ("nf4",),
    "mixtral": ("nf4", "int8"),
    "qwen3_moe": ("nf4", "nf4_double", "int8"),
    "qwen3_next": ("nf4",),
    "mistral4": ("nf4",),
}
MIXTURES = ("mixtral", "qwen3_moe", "qwen3_next", "mistral4")
RANK, ALPHA = 4, 8
OPTIMIZER = make_goldens.OPTIMIZER
# Adapters begin as no change at all, and learn faster.
RATES = {"full": 1e-3, "lora": 5e-3, "saved": 1e-3}
# Modules that are trained as a whole beside adapters, of models with a head of its own.
SAVED = {"llama": ["embed_tokens", "lm_head"]}


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def train_there(model, ids, targets, rate):
    """The losses of AdamW, as `poplar train` has it."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {
            "params": [p for p in parameters if (p.dim() == 2) == decays],
            "weight_decay": OPTIMIZER["weight_decay"] * decays,
        }
        for decays in (True, False)
    ]
    betas = (OPTIMIZER["beta1"], OPTIMIZER["beta2"])
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=betas, eps=OPTIMIZER["eps"])
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = make_goldens.mean_loss(model, ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, OPTIMIZER["clip"])
        optimizer.step()
        losses.append(loss.item())
    return losses


def add_adapter(name, model, saved=None):
    torch.manual_seed(5)
    config = peft.LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        lora_dropout=0.0,
        target_modules=TARGETS[name],
        bias="none",
        fan_in_fan_out=name == "gpt2",
        task_type="CAUSAL_LM",
        modules_to_save=saved,
    )
    return peft.get_peft_model(model, config)


def round_linear(model, form):
    """Weights of all linear layers but the head, as --frozen-format has them."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and not name.endswith("lm_head"):
            module.weight.data = round_matrix(module.weight.data, form)
    return model


def round_experts(model, form):
    """Weights of experts, each matrix by itself: gate_proj and up_proj, which are one
    tensor there, are two."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 3 and ".experts." in name:
            parts = 2 if name.endswith("gate_up_proj") else 1
            matrices = parameter.data.reshape(
                len(parameter) * parts, -1, parameter.shape[-1]
            )
            rounded = torch.stack([round_matrix(matrix, form) for matrix in matrices])
            parameter.data = rounded.reshape(parameter.shape)
    return model


def round_matrix(matrix, form):
    shape = tuple(matrix.shape)
    rounded = quantized.round_matrix(form, shape, matrix.flatten().tolist())
    return torch.tensor(rounded).reshape(shape)


class Here:
    """Programs of a model, and what they train."""

    def __init__(self, poplar, name, directory):
        self.poplar, self.name, self.directory = poplar, name, directory
        self.base = self.path("base")
        make_goldens.make_model(name).save_pretrained(self.base)
        ids, targets = make_goldens.make_batch(name, BATCH)
        make_goldens.write_tokens(self.path("tokens"), ids, targets)
        types = {
            kind: {"target": f"host:{kind}-f32", "memory": "1GiB", "threads": 1}
            for kind in ("avx2", "sse41")
        }
        self.write_cluster(self.path("cluster.json"), types, {"avx2": 1, "sse41": 2})

    def write_cluster(self, path, types, slowness):
        """A device of each type, with profiles that say how slow they are."""
        cluster = {
            "device_types": types,
            "nodes": [{"name": "localhost", "devices": list(types)}],
            "links": [{"inside": ["localhost"], "latency": 1e-6, "bandwidth": 1e10}],
            "profiles": [
                {
                    "device_type": kind,
                    "stage": stage,
                    "micro_batches": [1, 2, 3],
                    "seconds": [0.01 * each, 0.02 * each, 0.03 * each],
                }
                for kind, each in slowness.items()
                for stage in range(4)
            ],
        }
        with open(path, "w") as file:
            json.dump(cluster, file)

    def path(self, *parts):
        return os.path.join(self.directory, self.name, *parts)

    def build(self, kind, form=None, saved=None):
        """The programs: of one device, and of the stages of ZeRO."""
        options = ["--seq-len", str(make_goldens.SEQ_LEN)]
        if saved:
            kind = "saved"
            options += ["--lora-modules-to-save", ",".join(saved)]
        if form:
            kind = f"lora-{form}"
            options += ["--frozen-format", form]
            options += ["--quantize-experts"] if self.name in MIXTURES else []
        if kind != "full":
            options += ["--lora-rank", str(RANK), "--lora-alpha", str(ALPHA)]
            options += ["--lora-targets", ",".join(TARGETS[self.name])]
        model = self.path(f"{kind}.mlir")
        run(self.poplar, "import", self.base, *options, "-o", model)
        programs = {"one device": self.path(f"{kind}-alone")}
        run(self.poplar, "build", model, "-o", programs["one device"])
        for stage in range(4) if self.name in WHOLE and not form else [3]:
            plan, job = self.path(f"{kind}-{stage}.mlir"), self.path(f"{kind}-{stage}")
            run(
                self.poplar, "plan", "--model", model, "--cluster",
                self.path("cluster.json"), "--global-batch", str(BATCH), "--zero",
                str(stage), "--policy", "exact", "-o", plan,
            )  # fmt: skip
            run(self.poplar, "build", plan, "-o", job)
            programs[f"ZeRO {stage}"] = job
        return programs

    def train(self, program, out, rate, *options):
        batch = []
        if not os.path.exists(os.path.join(program, "launch.sh")):
            batch = ["--global-batch", str(BATCH), "--batch", str(BATCH)]
        run(
            self.poplar, "train", program, "--data-ids", self.path("tokens"),
            "--steps", str(STEPS), "--out", out, "--lr", str(rate), "--schedule",
            "constant", "--warmup", "0", "--beta1", str(OPTIMIZER["beta1"]),
            "--beta2", str(OPTIMIZER["beta2"]), "--eps", str(OPTIMIZER["eps"]),
            "--weight-decay", str(OPTIMIZER["weight_decay"]), "--clip",
            str(OPTIMIZER["clip"]), "--init", self.base, *batch, *options,
        )  # fmt: skip
        with open(os.path.join(out, "metrics.csv")) as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]

    def logits(self, program, adapter=None):
        out = self.path("logits.safetensors")
        start = ["--init-adapter", adapter] if adapter else []
        run(
            self.poplar, "train", program, "--init", self.base, *start, "--data-ids",
            self.path("tokens"), "--batch", str(BATCH), "--global-batch", str(BATCH),
            "--dump-logits", out,
        )  # fmt: skip
        return load_file(out)["logits"]


class Table:
    def __init__(self):
        self.failures = 0

    def add(self, name, what, error):
        # Written so that a NaN fails.
        passed = error <= TOLERANCE
        self.failures += not passed
        print(f"{name:<8} {what:<34} {error:>9.1e}  {'ok' if passed else 'FAILED'}")
        sys.stdout.flush()


def worst(ours, theirs):
    if len(ours) != len(theirs):
        return float("nan")
    return max(abs(x - y) / abs(y) for x, y in zip(ours, theirs))


def largest(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def check(name, arguments, directory, table):
    here = Here(arguments.poplar, name, directory)
    if name in WHOLE and "full" in arguments.rows:
        check_full(name, here, table)
    if "lora" in arguments.rows:
        expected = check_lora(name, here, table)
        if arguments.save and name in WHOLE:
            write_goldens(os.path.join(arguments.save, f"peft-{name}"), here, expected)
    if name in SAVED and "saved" in arguments.rows:
        expected = check_lora(name, here, table, SAVED[name])
        if arguments.save:
            path = os.path.join(arguments.save, f"peft-{name}-saved")
            write_goldens(path, here, expected, SAVED[name])
    if "qlora" in arguments.rows:
        for form in QUANTIZED.get(name, ()):
            check_quantized(name, here, form, table)


def check_full(name, here, table):
    ids, targets = make_goldens.make_batch(name, BATCH)
    model = make_goldens.CLASSES[name].from_pretrained(here.base)
    expected = train_there(model, ids, targets, RATES["full"])
    for where, program in here.build("full").items():
        losses = here.train(program, here.path(f"full {where}"), RATES["full"])
        table.add(name, f"full, {where}: losses", worst(losses, expected))


def check_lora(name, here, table, saved=None):
    """Returns the losses there."""
    ids, targets = make_goldens.make_batch(name, BATCH)
    load = make_goldens.CLASSES[name].from_pretrained
    kind, rate = ("saved", RATES["saved"]) if saved else ("lora", RATES["lora"])
    title = "LoRA, modules to save" if saved else "LoRA"
    model = add_adapter(name, load(here.base), saved)
    begin = here.path("saved-adapter" if saved else "adapter")
    model.save_pretrained(begin)
    start = ["--init-adapter", begin]
    expected = train_there(model, ids, targets, rate)
    trained = here.path("saved-trained" if saved else "trained")
    model.save_pretrained(trained)
    programs = here.build("lora", saved=saved)
    for where, program in programs.items():
        out = here.path(f"{kind} {where}")
        losses = here.train(program, out, rate, *start)
        table.add(name, f"{title}, {where}: losses", worst(losses, expected))
        latest = os.path.join(out, "latest")
        theirs = peft.PeftModel.from_pretrained(load(here.base), latest)
        with torch.no_grad():
            logits = theirs.eval()(input_ids=ids).logits
        ours = here.logits(programs["one device"], out)
        table.add(name, f"{title}, {where}: here -> there", largest(ours, logits))
    with torch.no_grad():
        logits = model.eval()(input_ids=ids).logits
    ours = here.logits(programs["one device"], trained)
    table.add(name, f"{title}: there -> here", largest(ours, logits))
    merged = here.path(f"{kind}-merged")
    run(here.poplar, "merge", here.path(f"{kind} ZeRO 3"), "-o", merged)
    with torch.no_grad():
        logits = load(merged).eval()(input_ids=ids).logits
    ours = here.logits(programs["one device"], here.path(f"{kind} ZeRO 3"))
    table.add(name, f"{title}: poplar merge", largest(ours, logits))
    return expected


def check_quantized(name, here, form, table):
    ids, targets = make_goldens.make_batch(name, BATCH)

    def load():
        model = make_goldens.CLASSES[name].from_pretrained(here.base)
        return round_experts(round_linear(model, form), form)

    model = add_adapter(name, load())
    model.save_pretrained(here.path(f"adapter-{form}"))
    start = ["--init-adapter", here.path(f"adapter-{form}")]
    expected = train_there(model, ids, targets, RATES["lora"])
    programs = here.build("lora", form)
    for where, program in programs.items():
        out = here.path(f"{form} {where}")
        losses = here.train(program, out, RATES["lora"], *start)
        table.add(name, f"{form}, {where}: losses", worst(losses, expected))
        theirs = peft.PeftModel.from_pretrained(load(), os.path.join(out, "latest"))
        with torch.no_grad():
            logits = theirs.eval()(input_ids=ids).logits
        ours = here.logits(programs["one device"], out)
        table.add(name, f"{form}, {where}: here -> there", largest(ours, logits))
    run(here.poplar, "merge", out, "-o", here.path(f"merged-{form}"))
    merged = make_goldens.CLASSES[name].from_pretrained(here.path(f"merged-{form}"))
    with torch.no_grad():
        logits = merged.eval()(input_ids=ids).logits
    table.add(name, f"{form}: poplar merge", largest(ours, logits))


def write_goldens(directory, here, losses, saved=None):
    kind = "saved" if saved else "lora"
    for which in ("adapter", "trained"):
        os.makedirs(os.path.join(directory, which), exist_ok=True)
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            with open(here.path(f"saved-{which}" if saved else which, file), "rb") as source:
                content = source.read()
            if file.endswith(".json"):
                config = json.loads(content)
                config["base_model_name_or_path"] = None
                # In the order of a set.
                config["target_modules"].sort()
                if saved:
                    config["modules_to_save"].sort()
                content = (json.dumps(config, indent=2) + "\n").encode()
            with open(os.path.join(directory, which, file), "wb") as target:
                target.write(content)
    expected = {
        "rank": RANK,
        "alpha": ALPHA,
        "targets": TARGETS[here.name],
        "optimizer": OPTIMIZER | {"lr": RATES[kind]},
        "versions": {
            "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__,
            "peft": peft.__version__,
        },
        "losses": losses,
    }
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump(expected, file, indent=2)
        file.write("\n")


def main():
    parser = checks.make_parser(__doc__)
    parser.add_argument(
        "--models", nargs="+", choices=TARGETS, help="check these only"
    )
    rows = ["full", "lora", "saved", "qlora"]
    parser.add_argument(
        "--rows", nargs="+", choices=rows, default=rows, help="check these only"
    )
    parser.add_argument(
        "--save", metavar="DIR", help="write goldens there, of the rows lora and saved"
    )
    arguments = parser.parse_args()
    checks.quiet_libraries()
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"peft {peft.__version__}, f32"
    )
    table = Table()
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.models or TARGETS:
            check(name, arguments, directory, table)
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
