#!/usr/bin/env python3
# ===- check_peft_configs.py - All of adapter_config.json against PEFT -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Gives one adapter of a tiny Llama to PEFT and to `poplar train --init-adapter`
with every member that PEFT's LoraConfig has, set to something, and with every
value that it lists for init_lora_weights.

  read      logits are PEFT's, max |x - y| <= 1e-4 max |y|
  refused   the error names the member

The members and values are those of the installed PEFT: one that this script has no
value for is a failure. Prints a table, with how far PEFT's logits are from those of the
adapter as plain LoRA, and succeeds if every row is as listed here. Needs the packages of
requirements.txt and a build.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import typing
import warnings

import peft
import torch

import check_peft
import checks
import make_goldens

READ, REFUSED = "read", "refused"
MODULES = ["q_proj", "v_proj"]
# A value of each member, and what is done with it.
MEMBERS = {
    "task_type": ("SEQ_CLS", REFUSED),
    "peft_type": ("LOHA", REFUSED),
    "auto_mapping": ({"base_model_class": "LlamaForCausalLM"}, READ),
    "peft_version": ("0.1", READ),
    "base_model_name_or_path": ("elsewhere", READ),
    "revision": ("main", READ),
    "inference_mode": (False, READ),
    "r": (8, REFUSED),
    "target_modules": (["q_proj"], REFUSED),
    "exclude_modules": (["v_proj"], REFUSED),
    "lora_alpha": (16, REFUSED),
    "lora_dropout": (0.5, READ),
    "fan_in_fan_out": (True, READ),
    "bias": ("all", REFUSED),
    "use_rslora": (True, REFUSED),
    "modules_to_save": (["lm_head"], REFUSED),
    "layers_to_transform": ([0], REFUSED),
    "layers_pattern": ("layers", REFUSED),
    "rank_pattern": ({"q_proj": 2}, REFUSED),
    "alpha_pattern": ({"q_proj": 2}, REFUSED),
    "megatron_config": ({"num_layers": 2}, REFUSED),
    "megatron_core": ("elsewhere", READ),
    "trainable_token_indices": ([1], REFUSED),
    "loftq_config": ({"loftq_bits": 4}, READ),
    "eva_config": ({"rho": 2.0}, READ),
    "corda_config": ({"sample_count": 2}, READ),
    "lora_ga_config": ({"direction": "ArB2r"}, READ),
    "use_dora": (True, REFUSED),
    "velora_config": ({"num_groups": 4}, REFUSED),
    "alora_invocation_tokens": ([3], REFUSED),
    "use_qalora": (True, REFUSED),
    "qalora_group_size": (8, READ),
    "monteclora_config": ({"num_samples": 2}, REFUSED),
    "layer_replication": ([[0, 1], [0, 2]], REFUSED),
    "runtime_config": ({"ephemeral_gpu_offload": True}, READ),
    "lora_bias": (True, REFUSED),
    "target_parameters": (["mlp.weight"], REFUSED),
    "use_bdlora": ({"nblocks": 2}, REFUSED),
    "arrow_config": ({"top_k": 1}, REFUSED),
    "kasa_config": ({"beta": 1e-4}, REFUSED),
    "ensure_weight_tying": (True, REFUSED),
}
PLAIN = {True, False, "gaussian", "eva", "orthogonal"}
# Values that PEFT takes and does not list in the type of the member.
UNLISTED = ["pissa_niter_4", "lora_ga", "OLoRA", "Gaussian"]


def list_inits():
    """All values of init_lora_weights, as PEFT's type of the member lists them."""
    hint = typing.get_type_hints(peft.LoraConfig)["init_lora_weights"]
    values = [True, False]
    for part in typing.get_args(hint):
        values += typing.get_args(part)
    return [value for value in values if "[" not in str(value)] + UNLISTED


def list_rows():
    """(member, value, what is done with it), and how many members are new."""
    members = [field.name for field in dataclasses.fields(peft.LoraConfig)]
    new = [name for name in members if name not in MEMBERS and name != "init_lora_weights"]
    for name in new:
        print(f"{name}: a member of LoraConfig that this script has no value for")
    rows = [(name, *MEMBERS[name]) for name in members if name in MEMBERS]
    for value in list_inits():
        lower = value.lower() if isinstance(value, str) else value
        rows.append(("init_lora_weights", value, READ if lower in PLAIN else REFUSED))
    return rows, len(new)


class Workshop:
    def __init__(self, poplar, directory):
        self.here = check_peft.Here(poplar, "llama", directory)
        self.plain = self.here.path("plain")
        self.ids, _ = make_goldens.make_batch("llama", check_peft.BATCH)
        torch.manual_seed(5)
        config = peft.LoraConfig(
            r=check_peft.RANK, lora_alpha=check_peft.ALPHA, target_modules=MODULES,
            init_lora_weights=False, task_type="CAUSAL_LM",
        )  # fmt: skip
        peft.get_peft_model(self.load(), config).save_pretrained(self.plain)
        model, self.program = self.here.path("model.mlir"), self.here.path("program")
        check_peft.run(
            poplar, "import", self.here.base, "--seq-len", str(make_goldens.SEQ_LEN),
            "--lora-rank", str(check_peft.RANK), "--lora-alpha", str(check_peft.ALPHA),
            "--lora-targets", ",".join(MODULES), "-o", model,
        )  # fmt: skip
        check_peft.run(poplar, "build", model, "-o", self.program)

    def load(self):
        return make_goldens.CLASSES["llama"].from_pretrained(self.here.base)

    def change(self, member, value):
        """The adapter with another value of a member."""
        changed = self.here.path("changed")
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(self.plain, changed)
        path = os.path.join(changed, "adapter_config.json")
        with open(path) as file:
            config = json.load(file)
        config[member] = value
        with open(path, "w") as file:
            json.dump(config, file)
        return changed

    def logits_there(self, adapter):
        """None if PEFT does not load it."""
        try:
            model = peft.PeftModel.from_pretrained(self.load(), adapter)
            with torch.no_grad():
                return model.eval()(input_ids=self.ids).logits
        except Exception:  # of any type
            return None

    def logits_here(self, adapter):
        """Logits, or the error."""
        out = self.here.path("logits.safetensors")
        batch = str(check_peft.BATCH)
        result = subprocess.run(
            [self.here.poplar, "train", self.program, "--init", self.here.base,
             "--init-adapter", adapter, "--data-ids", self.here.path("tokens"),
             "--batch", batch, "--global-batch", batch, "--dump-logits", out],
            capture_output=True, text=True,
        )  # fmt: skip
        if result.returncode:
            return result.stderr
        return check_peft.load_file(out)["logits"]


def check(workshop, member, value, expected, plain):
    adapter = workshop.change(member, value)
    ours, theirs = workshop.logits_here(adapter), workshop.logits_there(adapter)
    change = "not loaded"
    if theirs is not None:
        change = f"{check_peft.largest(theirs, plain):.1e}"
    if isinstance(ours, str):
        names = {"r": "rank", "target_modules": "target_modules"}
        passed = expected == REFUSED and names.get(member, member) in ours
        what = REFUSED
    else:
        error = float("nan") if theirs is None else check_peft.largest(ours, theirs)
        # Written so that a NaN fails.
        passed = expected == READ and error <= check_peft.TOLERANCE
        what = f"{READ}, {error:.1e}"
    shown = json.dumps(value)
    print(f"{member:<24} {shown:<42.42} {what:<14} {change:<11} {'ok' if passed else 'FAILED'}")
    if not passed and isinstance(ours, str):
        print(ours.strip())
    sys.stdout.flush()
    return passed


def main():
    arguments = checks.make_parser(__doc__).parse_args()
    checks.quiet_libraries()
    warnings.simplefilter("ignore")
    print(f"torch {torch.__version__}, peft {peft.__version__}, f32")
    print(f"{'member':<24} {'value':<42} {'here':<14} {'PEFT, change':<11}")
    rows, failures = list_rows()
    with tempfile.TemporaryDirectory() as directory:
        workshop = Workshop(arguments.poplar, directory)
        plain = workshop.logits_there(workshop.plain)
        for row in rows:
            failures += not check(workshop, *row, plain)
    print(f"{failures} rows not as listed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
