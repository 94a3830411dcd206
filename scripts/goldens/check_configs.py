#!/usr/bin/env python3
# ===- check_configs.py - Hold imported configurations against transformers ===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Changes every key that transformers knows of a family's configuration, one at
a time, and compares. For each changed config.json either `poplar import`
refuses it, or the logits of a model with the same weights are those of
transformers (max |x - y| <= 1e-5 max |y|, f32).

The keys are the fields of the configuration class, its aliases, the members of
the rotary parameters, and what configurations in use have beside them; the
values are chosen by type, and absent, and null.

Writes one verdict per change to --out, which a unit test replays:
  refused   `poplar import` fails
  same      imported; the model is that of the unchanged configuration
  changed   imported; the model differs
Where transformers itself cannot make a model, `reference` is "none".

Needs the packages of requirements.txt and a build of the project, as
check_transformers.py does.
"""

import argparse
import copy
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

import make_goldens

TOLERANCE = 1e-5
# In f32, linear attention is off from f64 where a norm divides a head by next to nothing,
# there and here: of qwen3_5 and qwen3_5_moe by up to 1.2e-4; of qwen3_next, where
# num_experts_per_tok = 4, at one token by 3e-5 there and 1.1e-4 here.
# Queries of deepseek_v2 that are sums of 1536 products, where q_lora_rank is absent, make
# large scores: at the same tokens, up to 1.5e-5 there and 5.9e-5 here, with medians of
# 1.2e-6 and 2.6e-6. Those of deepseek_v3, of 1536 latents, are off by 1.8e-5 there.
TOLERANCES = {"qwen3_5": 5e-5, "qwen3_5_moe": 3e-4, "qwen3_next": 1e-4, "deepseek_v2": 1e-4}
# With a vocabulary of 1, transformers is off from f64 by 1.4e-5, Poplar from transformers by
# 1.9e-5.
TOLERANCES |= {"deepseek_v3": 2e-5, "glm4_moe": 2e-5}
SEQ_LEN = 24
ABSENT = "(absent)"
FAMILIES = ["llama", "gpt2", "bert", "mistral", "qwen2", "qwen3", "olmo2", "granite"]
FAMILIES += ["smollm3", "phi3", "stablelm", "gemma", "gemma2", "gemma3"]
FAMILIES += ["gpt_neox", "mixtral", "qwen3_moe", "olmo3", "exaone4", "seed_oss"]
FAMILIES += ["arcee", "glm", "glm4", "phi", "starcoder2", "qwen3_5"]
FAMILIES += ["qwen2_moe", "qwen3_5_moe", "qwen3_next", "gpt_oss", "ministral3"]
FAMILIES += ["hunyuan", "nemotron", "cohere2", "mimo", "deepseek_v2", "mistral4"]
FAMILIES += ["deepseek_v3", "glm4_moe", "glm4_moe_lite", "minimax_m2", "afmoe", "dots1"]
FAMILIES += ["ernie4_5_moe"]

# In use, or in the way of a class' attributes, without being fields.
EXTRA = {
    "is_causal": [True, False, None],
    "is_decoder": [True, False],
    "some_new_scale": [3, None],
    "rope_theta": [500.0, 10000.0, None],
    "rope_scaling": [
        {},
        {"type": "linear", "factor": 2.0},
        {"rope_type": "linear", "factor": 4.0},
        {"type": "dynamic", "factor": 2.0},
        {"rope_type": "yarn", "factor": 2.0},
        {"rope_type": "default"},
        None,
    ],
    "partial_rotary_factor": [1.0, 0.5, None],
    "original_max_position_embeddings": [16],
    "layer_types": [
        ["full_attention", "full_attention"],
        ["sliding_attention", "full_attention"],
        ["full_attention"],
        [],
    ],
    "sliding_window": [4, 8, False, None],
    "head_dim": [16, 32, 15, None],
    "attention_bias": [True, False],
    "mlp_bias": [True, False],
    "torch_dtype": ["float32", "bfloat16"],
    "attn_implementation": ["eager", "sdpa"],
    "chunk_size_feed_forward": [0, 6],
    "position_embedding_type": ["absolute", "relative_key", "relative_key_query"],
    "quantization_config": [None, {"quant_method": "fp8"}],
    "swiglu_limit": [0.5, 7.0, 0.0, None],
    "swiglu_alpha": [1.702, 0.5, None],
    "num_labels": [3],
    "gradient_checkpointing": [True],
    "logit_scale": [0.5],
    "final_logit_softcapping": [5.0],
    "attn_logit_softcapping": [5.0],
    "num_local_experts": [4, 6],
    "num_experts": [4, 8],
    "rotary_pct": [0.5, 1.0],
    "rotary_emb_base": [500.0],
    "mlp_only_layers": [[], [0], [0, 2], [7]],
    "use_qk_norm": [True],
    "query_pre_attn_scalar": [9],
    "embedding_multiplier": [2.0],
    "residual_multiplier": [2.0],
    "attention_multiplier": [2.0],
    "embedding_size": [16],
    "per_layer_config": [{"0": {"intermediate_size": 32}}, None],
    "auto_map": [{"AutoModel": "x.Y"}],
    "pruned_heads": [{}, {"0": [1]}],
    "tie_encoder_decoder": [True, False],
    "cross_attention_hidden_size": [None, 16],
    "mask_token_id": [103, None],
    "full_attention_interval": [2, 4, 0],
    "attn_output_gate": [True, False],
    "mamba_ssm_dtype": ["float32", "bfloat16"],
    "mtp_num_hidden_layers": [1],
    "use_mrope": [False, True],
    "rope_interleaved": [False, True],
    "n_ctx": [32, 64],
    "hidden_dropout": [0.0, 0.1],
    "hidden_dropout_prob": [0, 0.0, 0.1],
    "attention_probs_dropout_prob": [0, 0.0, 0.1],
    "sliding_window_size": [4, 8, None],
    "name_or_path": ["x"],
    "max_length": [20],
    "temperature": [0.5],
    "tie_last_hidden_states": [True],
}
# For heads of 16 columns.
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 8,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 100.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
    "long_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5],
    "original_max_position_embeddings": 16,
}
# Where other values would be the same function by chance.
VALUES = {
    "rope_parameters": [
        None,
        {},
        {"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
        {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
        {"full_attention": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 10000.0},
        {"rope_type": "default"},
        {
            "rope_type": "llama3",
            "rope_theta": 100.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        {
            "rope_type": "llama3",
            "rope_theta": 100.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        {**YARN},
        {**YARN, "beta_fast": 4, "beta_slow": 0.5, "truncate": False},
        {**YARN, "mscale": 0.7, "mscale_all_dim": 0.4},
        {**YARN, "mscale": 0.7},
        {**YARN, "attention_factor": 0.5},
        {**LONGROPE},
        {**LONGROPE, "original_max_position_embeddings": 64},
        {**LONGROPE, "factor": 3.0},
        {**LONGROPE, "attention_factor": 0.5},
        {**LONGROPE, "short_factor": [1.0]},
        {**LONGROPE, "rope_type": "su"},
        {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0, "partial_rotary_factor": 0.5},
    ],
    "architectures": [None, [], ["T5ForConditionalGeneration"]],
    "model_type": ["llama", "gpt2", "bert", "mistral", "qwen2", "t5"],
    "hidden_act": ["relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "swish"]
    + ["gelu_fast", "quick_gelu", "mish"],
    "dtype": ["float32", "bfloat16"],
    "id2label": [{"0": "a", "1": "b", "2": "c"}],
    "label2id": [{"a": 0}],
    "problem_type": ["regression"],
    "eos_token_id": [1, [1, 2], None],
}
VALUES["activation_function"] = VALUES["hidden_act"]
MEMBERS = {
    "rope_type": ["default", "linear", "dynamic", "yarn", "longrope", "llama3"],
    "type": ["default", "linear", "yarn"],
    "rope_theta": [500.0, 10000, None],
    "factor": [8.0, 0.5, 0.0, None],
    "low_freq_factor": [2.0, 4.0],
    "high_freq_factor": [2.0, 1.0],
    "original_max_position_embeddings": [16, 32, 64],
    "partial_rotary_factor": [1.0, 0.5],
    "attention_factor": [1.0, 0.5],
    "beta_fast": [32],
    "beta_slow": [1],
    "short_factor": [[1.0] * 8],
    "long_factor": [[1.0] * 8],
    "mscale": [0.7],
    "truncate": [True],
    "mrope_section": [[2, 1, 1]],
    "mrope_interleaved": [True],
    "some_new_factor": [2.0],
}


def values_for(value):
    """Other values of the same type, and of a wrong one."""
    if isinstance(value, bool):
        return [True, False, 0]
    if isinstance(value, int):
        return [value, value + 1, value * 2, value // 2, 1, 0, -1, float(value)]
    if isinstance(value, float):
        return [value, value * 2 + 0.25, value / 2, 0.0, -1.0, str(value)]
    if isinstance(value, str):
        return [value, "x"]
    return [True, False, 1, 0.5, "x"]


def mutations(name, base):
    """(path, value) of every change."""
    config = (make_goldens.CONFIGS | make_goldens.VARIANTS)[name]
    keys = [field.name for field in dataclasses.fields(type(config))]
    keys += list(type(config).attribute_map)
    keys += [key for key in base if key not in keys]
    for key in EXTRA:
        if key not in keys:
            keys.append(key)
    # Tables of keys are made of one for all families and their own: what is only
    # in the former, one family each of kinds of models tells.
    if name in ("llama", "gpt2", "bert"):
        generation = transformers.GenerationConfig._get_default_generation_params()
        keys += [key for key in generation if key not in keys]
    for key in keys:
        current = base.get(key, getattr(config, key, None))
        values = VALUES.get(key, []) + EXTRA.get(key, [])
        if not values:
            values = values_for(current)
        for value in values + [None, ABSENT]:
            yield (key,), value
    outers = [("rope_parameters",)] if "rope_parameters" in base else []
    if name in ("gemma3", "olmo3"):
        outers += [("rope_parameters", kind) for kind in base["rope_parameters"]]
    for outer in outers:
        for key, values in MEMBERS.items():
            for value in values + [ABSENT]:
                yield (*outer, key), value


def change(base, path, value):
    """None if nothing is changed."""
    config = copy.deepcopy(base)
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    if value == ABSENT:
        if path[-1] not in inner:
            return None
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return config


def make_reference(name, config, directory):
    """Logits by transformers, or None where it has no such model."""
    kind = type((make_goldens.CONFIGS | make_goldens.VARIANTS)[name])
    try:
        source = os.path.join(directory, "source")
        os.makedirs(source)
        # As from_pretrained reads a file.
        with open(os.path.join(source, "config.json"), "w") as file:
            json.dump(config, file)
        parsed = kind.from_pretrained(source)
        parsed.dtype = torch.float32
        model = make_goldens.CLASSES[name](parsed)
        make_goldens.randomize(model, 0.2)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(2)
            ids = torch.randint(0, model.config.vocab_size, (2, SEQ_LEN), generator=generator)
            logits = model.eval()(input_ids=ids, return_dict=True).logits
        model.save_pretrained(os.path.join(directory, "theirs"))
    except Exception as error:  # whatever a class makes of a bad value
        return None, f"{type(error).__name__}: {error}".split("\n")[0][:200]
    make_goldens.write_tokens(os.path.join(directory, "tokens"), ids, ids)
    return logits.float(), None


def digest(path):
    """Of a model, without the text of its configuration."""
    with open(path) as file:
        text = file.read()
    text = re.sub(r'config(_facts)? = "(\\.|[^"\\])*"', "", text)
    return hashlib.sha256(text.encode()).hexdigest()


class Checker:
    def __init__(self, poplar, work):
        self.poplar = poplar
        self.work = work
        self.programs = {}
        self.base = None  # logits of the unchanged configuration
        self.failures = []

    def run(self, *command):
        return subprocess.run(command, capture_output=True, text=True)

    def build(self, model):
        key = digest(model)
        if key not in self.programs:
            program = os.path.join(self.work, f"program{len(self.programs)}")
            result = self.run(self.poplar, "build", model, "-o", program)
            if result.returncode:
                raise RuntimeError(result.stdout + result.stderr)
            self.programs[key] = program
        return self.programs[key]

    def logits(self, program, directory):
        out = os.path.join(directory, "out")
        result = self.run(
            self.poplar, "train", program, "--init",
            os.path.join(directory, "theirs", "model.safetensors"), "--data-ids",
            os.path.join(directory, "tokens"), "--batch", "2", "--global-batch", "2",
            "--dump-gradients", out + ".g", "--dump-logits", out,
        )  # fmt: skip
        if result.returncode:
            return None, result.stdout + result.stderr
        return load_file(out)["logits"], None

    def check(self, name, path, value, config, base_digest):
        with tempfile.TemporaryDirectory(dir=self.work) as directory:
            file = os.path.join(directory, "config.json")
            with open(file, "w") as stream:
                json.dump(config, stream)
            model = os.path.join(directory, "model.mlir")
            result = self.run(
                self.poplar, "import", file, "--seq-len", str(SEQ_LEN), "-o", model
            )
            if result.returncode < 0 or result.returncode > 1:
                self.failures.append(f"{name} {path} {value}: {result}")
            if result.returncode:
                return "refused", None
            verdict = "same" if digest(model) == base_digest else "changed"
            logits, problem = make_reference(name, config, directory)
            if logits is None:
                return verdict, "none"
            # The same program with the same weights has the same logits.
            if verdict == "same" and self.base is not None:
                if torch.equal(self.base, logits):
                    return verdict, None
            # With the configurations beside the weights out of the way: this
            # compares functions, not configurations.
            os.remove(os.path.join(directory, "theirs", "config.json"))
            ours, problem = self.logits(self.build(model), directory)
            if ours is None:
                self.failures.append(f"{name} {'.'.join(path)} = {value}: {problem}")
                return verdict, "differs"
            error = (ours - logits).abs().max().item()
            # Norms that subtract the mean leave nothing of a single column.
            if error:
                error /= logits.abs().max().item()
            if not error <= TOLERANCES.get(name, TOLERANCE):
                self.failures.append(
                    f"{name} {'.'.join(path)} = {value}: logits are off by {error:.1e}"
                )
                return verdict, "differs"
            if not path:
                self.base = logits
            return verdict, None


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.normpath(os.path.join(here, "..", ".."))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poplar", default=os.path.join(root, "build/release/bin/poplar"))
    parser.add_argument("--out", default=os.path.join(root, "test/Import/Inputs/configs"))
    parser.add_argument("--only", help="one family")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    os.makedirs(arguments.out, exist_ok=True)
    failures = []
    for name in [arguments.only] if arguments.only else FAMILIES:
        with tempfile.TemporaryDirectory() as work:
            checker = Checker(arguments.poplar, work)
            kind = (make_goldens.CONFIGS | make_goldens.VARIANTS)[name]
            kind.architectures = [make_goldens.CLASSES[name].__name__]
            base = json.loads(kind.to_json_string(use_diff=False))
            base_path = os.path.join(work, "config.json")
            with open(base_path, "w") as file:
                json.dump(base, file)
            model = os.path.join(work, "model.mlir")
            result = checker.run(
                arguments.poplar, "import", base_path, "--seq-len", str(SEQ_LEN), "-o", model
            )
            if result.returncode:
                sys.exit(f"error: {name}: {result.stderr}")
            base_digest = digest(model)
            rows, counts, seen = [], {}, set()
            changes = [((), None)] + list(mutations(name, base))
            for path, value in changes:
                config = change(base, path, value) if path else base
                key = json.dumps([path, value])
                if config is None or key in seen:
                    continue
                seen.add(key)
                verdict, reference = checker.check(name, path, value, config, base_digest)
                row = {"path": list(path), "value": value, "verdict": verdict}
                if reference:
                    row["reference"] = reference
                rows.append(row)
                label = verdict + (f" ({reference})" if reference else "")
                counts[label] = counts.get(label, 0) + 1
            with open(os.path.join(arguments.out, f"{name}.json"), "w") as file:
                file.write('{"base": ' + json.dumps(base, sort_keys=True) + ',\n "changes": [\n  ')
                file.write(",\n  ".join(json.dumps(row) for row in rows))
                file.write("\n]}\n")
            print(f"{name:<8} {len(rows)} changes: {counts}", flush=True)
            failures += checker.failures
    for failure in failures:
        print(f"error: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
