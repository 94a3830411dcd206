# ===- random_job.py - A job drawn by a seed ---------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What random_jobs.py draws: a small model of some family, how it is imported, a
plan, data and the options of a run. Every axis has random numbers of its own, so
that one of them can be set to its plainest value without a change of the others."""

import array
import json
import os
import random
from dataclasses import dataclass

import jobs
from jobs import DeviceType, Plan, Rank

GOLDENS = os.path.join(jobs.SOURCES, "test", "Integration", "goldens")
# Others have the ops of these.
FAMILIES = ("arcee", "bert", "cohere2", "deepseek_v2", "deepseek_v3", "dynamic",
            "ernie4_5_moe", "exaone4", "gemma", "gemma2", "gemma3", "glm", "glm4", "glm4_moe",
            "gpt2", "gpt_neox", "gpt_neox_serial", "gpt_oss", "granite", "hunyuan", "llama",
            "llama3", "minimax_m2", "mistral", "mistral4", "mixtral", "nemotron", "olmo2", "olmo3", "phi", "phi3", "qwen2", "qwen2_moe",
            "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "seed_oss",
            "smollm3", "stablelm", "starcoder2", "yarn")  # fmt: skip
LATENT = ("deepseek_v2", "deepseek_v3", "mistral4")
EXPERTS = ("ernie4_5_moe", "glm4_moe", "gpt_oss", "minimax_m2", "mixtral",
           "qwen2_moe", "qwen3_5_moe", "qwen3_moe", "qwen3_next",
           *LATENT)  # fmt: skip
LINEAR = ("qwen3_5", "qwen3_5_moe", "qwen3_next")
# Whose norms are of the queries of all heads.
NORMED = ("minimax_m2", "olmo2", "olmo3")
# Whose queries have a head for each head of keys.
UNGROUPED = ("bert", "gpt2", "gpt_neox", "gpt_neox_serial", *LATENT)
# Families whose heads need not have the columns of the hidden size together.
FREE_HEADS = ("dynamic", "gemma", "gemma2", "gemma3", "glm", "glm4", "gpt_oss", "llama",
              "llama3", "mistral", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next",
              "seed_oss")  # fmt: skip
# What every axis is when it is left out, in words.
AXES = {
    "sizes": "those of the golden configuration",
    "length": "16 tokens",
    "dropout": "none",
    "adapters": "all parameters are trained",
    "frozen": "adapters beside weights in the device's format",
    "states": "in f32",
    "packing": "a document in each sample",
    "weights": "all targets count",
    "text": "samples of ids and targets, not a stream of tokens",
    "plan": "two ranks in stage 0",
    "steps": "all ranks have the same micro-batches",
    "types": "one device type",
    "precision": "f32",
    "recompute": "keep",
    "wires": "exact",
    "buckets": "one for each unit",
    "init": "random weights of the program",
    "optimizer": "a constant rate, no decay, no clipping",
    "resume": "no interruption",
}


class Draws:
    """Random numbers by axis."""

    def __init__(self, seed, without):
        self.seed, self.without = seed, set(without)

    def get(self, axis):
        """None of an axis that is left out."""
        assert axis in AXES, axis
        return None if axis in self.without else random.Random(f"{self.seed} {axis}")


def write_ids(path, values, kind="i"):
    data = array.array(kind, values)
    with open(path, "wb") as file:
        data.tofile(file)
    return path


# Models.


def draw_config(family, numbers):
    """The configuration of a golden model, in other sizes."""
    with open(os.path.join(GOLDENS, family, "config.json")) as file:
        config = json.load(file)
    if not numbers:
        return config
    heads = numbers.choice((1, 2, 3, 4, 5, 6))
    groups = [n for n in range(1, heads + 1) if heads % n == 0]
    kv_heads = heads if family in UNGROUPED else numbers.choice(groups)
    # Columns of 64, which blocks of quantised values do not cross, are the rarest.
    columns = numbers.choice((8, 16, 20, 24, 64))
    if family in ("gpt_neox", "stablelm", "phi", "phi3", "glm", "glm4"):
        columns = 16
    hidden = heads * columns
    if family in FREE_HEADS and numbers.random() < 0.5:
        hidden = heads * numbers.choice((6, 9, 12, 16))
    inner = 128 if columns == 64 else numbers.choice((20, 33, 48, 70))
    layers = numbers.choice((1, 2, 2, 3, 4))
    vocabulary = numbers.choice((61, 97, 128, 200, 256, 301))
    if family == "gpt2":
        sizes = {"n_head": heads, "n_embd": hidden, "n_inner": inner, "n_layer": layers}
    else:
        sizes = {"num_attention_heads": heads, "hidden_size": hidden}
        sizes |= {"intermediate_size": inner, "num_hidden_layers": layers}
    if family not in UNGROUPED:
        sizes["num_key_value_heads"] = kv_heads
    if family in FREE_HEADS:
        sizes["head_dim"] = columns
    if family == "phi3":
        factors = [1.0 + i / 4 for i in range(columns * 3 // 8)]
        sizes["rope_parameters"] = config["rope_parameters"] | {
            "long_factor": factors, "short_factor": factors
        }  # fmt: skip
    if family == "bert":
        vocabulary = max(vocabulary, 128)
    if family in EXPERTS and "mlp_only_layers" in config:
        sizes["mlp_only_layers"] = [n for n in range(layers) if numbers.random() < 0.4]
    if "shared_expert_intermediate_size" in config:
        sizes["shared_expert_intermediate_size"] = numbers.choice((8, 21, 40))
    if family in LATENT:
        plain, rotated = numbers.choice((4, 8, 12)), numbers.choice((4, 8))
        sizes |= {"num_key_value_heads": heads, "qk_nope_head_dim": plain}
        sizes |= {"qk_rope_head_dim": rotated, "kv_lora_rank": numbers.choice((6, 16))}
        sizes["v_head_dim"] = numbers.choice((4, plain, plain + rotated))
        sizes["q_lora_rank"] = numbers.choice((None, 5, 12))
        sizes["first_k_dense_replace"] = numbers.choice((0, 0, 1))
        rope = dict(config["rope_parameters"])
        rope.pop("partial_rotary_factor", None)
        sizes["rope_parameters"] = rope
    if family in LINEAR:
        keys = numbers.choice((1, 2, 3))
        sizes["linear_num_key_heads"] = keys
        sizes["linear_num_value_heads"] = keys * numbers.choice((1, 2))
        sizes["linear_key_head_dim"] = numbers.choice((5, 8, 16, 40))
        sizes["linear_value_head_dim"] = numbers.choice((4, 12, 16, 33))
        sizes["linear_conv_kernel_dim"] = numbers.choice((1, 2, 4))
        # An even number of columns of any head.
        sizes["rope_parameters"] = config["rope_parameters"] | {
            "partial_rotary_factor": 0.5
        }
    if family in ("qwen2", "qwen3") and numbers.random() < 0.5:
        config |= {"use_sliding_window": True, "sliding_window": 8}
        kinds = ("full_attention", "sliding_attention")
        sizes["layer_types"] = [numbers.choice(kinds) for _ in range(layers)]
    if config.get("sliding_window"):
        sizes["sliding_window"] = numbers.choice((1, 3, 8, 64))
    if "layer_types" in config and "layer_types" not in sizes:
        kinds = sorted(set(config["layer_types"]))
        sizes["layer_types"] = [numbers.choice(kinds) for _ in range(layers)]
    if "no_rope_layers" in config:
        sizes["no_rope_layers"] = [numbers.randrange(2) for _ in range(layers)]
    if "use_parallel_residual" in config:
        sizes["use_parallel_residual"] = numbers.random() < 0.5
    sizes["tie_word_embeddings"] = family == "bert" or numbers.random() < 0.5
    return config | sizes | {"vocab_size": vocabulary}


@dataclass
class Model:
    family: str
    config: dict
    seq_len: int
    options: list
    adapters: bool = False
    frozen: str = "same"
    has_blocks: bool = False
    packing: bool = False

    @property
    def vocabulary(self):
        return self.config["vocab_size"]

    @property
    def blocks(self):
        return self.config.get("num_hidden_layers") or self.config["n_layer"]

    @property
    def kv_heads(self):
        for key in ("num_key_value_heads", "num_attention_heads", "n_head"):
            if key in self.config:
                return self.config[key]

    @property
    def masked(self):
        return self.family == "bert"


def draw_model(draws):
    family = random.Random(f"{draws.seed} family").choice(FAMILIES)
    config = draw_config(family, draws.get("sizes"))
    numbers = draws.get("length")
    length = numbers.choice((1, 2, 3, 7, 16, 17, 24, 32)) if numbers else 16
    if family == "bert":
        config["mask_token_id"] = 103
    model = Model(family, config, length, ["--seq-len", length])
    numbers = draws.get("dropout")
    dropout = numbers.choice((0, 0, 0.1, 0.5)) if numbers else 0
    model.options += ["--dropout", dropout]
    numbers = draws.get("adapters")
    if numbers and numbers.random() < 0.4:
        model.adapters = True
        model.options += ["--lora-rank", numbers.choice((1, 3, 8))]
        model.options += ["--lora-alpha", numbers.choice((1, 16))]
        model.options += ["--lora-dropout", numbers.choice((0, 0.1))]
        numbers = draws.get("frozen")
        if numbers:
            model.frozen = numbers.choice(("same", "same", "nf4", "nf4_double", "int8"))
        model.options += ["--frozen-format", model.frozen]
    numbers = draws.get("states")
    width = config.get("hidden_size") or config["n_embd"]
    # Smaller parameters keep moments in f32, and one has to have them in blocks.
    elements = width * config["vocab_size"]
    large = elements >= 4096
    if numbers and large and not model.adapters and numbers.random() < 0.2:
        model.has_blocks = True
        bits = numbers.choice((8, 4)) if elements % 256 == 0 else 8
        model.options += ["--optimizer-states", f"int{bits}"]
    numbers = draws.get("packing")
    if numbers and not model.masked and length > 1 and numbers.random() < 0.3:
        model.packing = True
        model.options.append("--packing")
    return model


# Plans.


def draw_types(draws):
    """Of one to three device types, of which one rank or another is."""
    numbers = draws.get("types")
    targets = [jobs.best_f32_target()]
    if numbers:
        targets += numbers.choice(([], ["host:sse41-f32"], ["host:avx2-f32", "host:sse41-f32"]))
    precision, recompute = draws.get("precision"), draws.get("recompute")
    unlike = precision is not None and precision.random() < 0.25
    types = []
    for number, target in enumerate(targets):
        form = "f32"
        if unlike:
            form = precision.choice(("f32", "f16", "bf16"))
        if form == "f16":
            target = "host:f16-storage"
        if form == "bf16" and jobs.cpu_has("avx512bw"):
            target = "host"
        else:
            form = "f32" if form == "bf16" else form
        kind = "keep"
        if recompute:
            kind = recompute.choice(("keep", "keep", "recompute-attention", "recompute-unit"))
        types.append(DeviceType(f"type{number}", target, form, recompute=kind))
    return tuple(types)


def draw_lanes(numbers, steps_numbers, count, meeting):
    """(micro_batch, steps, last) of ranks or pipelines, some of which may have no
    samples, or the most of them in the last micro-step. Where they meet in every
    micro-step, all have as many."""
    if steps_numbers is None:
        return [(2, 2, 2)] * count
    numbers = steps_numbers
    while True:
        together = numbers.choice((1, 2, 3))
        lanes = []
        for _ in range(count):
            size = numbers.choice((0, 1, 1, 2, 3))
            steps = together if meeting else numbers.choice((1, 1, 2, 3))
            lanes.append((size, steps, numbers.randrange(size + 2)))
        samples = sum((steps - 1) * size + last for size, steps, last in lanes)
        if samples >= max(steps for _, steps, _ in lanes):
            return lanes


def cut(numbers, units, parts):
    """Where consecutive parts of units end."""
    return sorted(numbers.sample(range(1, units), parts - 1)) + [units]


def write_turns(numbers, lanes, stages):
    """Of each stage and pipeline, an order of turns of its own: some forward
    passes, then one backward and one forward in turn, then the rest."""
    extra = numbers.choice((0, 1))
    turns = {}
    for stage in range(stages):
        for lane, (_, steps, _) in enumerate(lanes):
            ahead = min(steps, stages - stage + extra)
            order = list(range(1, ahead + 1))
            for done in range(1, steps + 1):
                order.append(-done)
                if ahead + done <= steps:
                    order.append(ahead + done)
            turns[stage, lane] = tuple((turn, 0) for turn in order)
    return turns


def draw_wires(draws, stage):
    """What collectives carry between which nodes."""
    numbers = draws.get("wires")
    if not numbers or numbers.random() < 0.85:
        return "", ("localhost",)
    words = ["gradient_wire", numbers.choice(("bf16", "i8"))]
    if stage > 0 and numbers.random() < 0.5:
        words += ["parameter_wire", numbers.choice(("bf16", "i8"))]
    return " ".join(words), ("a", "b")


def draw_plan(draws, model, axis="plan"):
    numbers, types = draws.get(axis), draw_types(draws)
    pick = (draws.get("types") or random.Random(0)).choice
    if numbers is None:
        lanes = draw_lanes(None, draws.get("steps"), 2, False)
        return Plan("model", 0, tuple(Rank(*lane, type="type0") for lane in lanes), types)
    kind = numbers.choice(("zero", "zero", "stages", "shared", "both"))
    if kind == "zero":
        stage, count = numbers.randrange(4), numbers.choice((1, 2, 3, 4))
        lanes = draw_lanes(numbers, draws.get("steps"), count, stage >= 2)
        shares = [numbers.choice((0.0, 1.0, 1.0, 2.0, 3.0)) for _ in lanes]
        shares[numbers.randrange(count)] = 1.0
        wires, nodes = draw_wires(draws, stage)
        ranks = tuple(
            Rank(*lane, share, pick(types).name, node=nodes[place % len(nodes)])
            for place, (lane, share) in enumerate(zip(lanes, shares))
        )
        return Plan("model", stage, ranks, types, wires=wires)
    units = model.blocks + 2
    stages = 1 if kind == "shared" else numbers.choice((2, 2, 3))
    chunks = 1
    schedule = numbers.choice(("1f1b", "gpipe", "interleaved", "custom"))
    if stages == 1:
        schedule = ""
    elif schedule == "interleaved":
        stages, chunks = 2, 2
        if units < 4:
            schedule, chunks = "1f1b", 1
    pipelines = 1 if stages == 3 else numbers.choice((1, 1, 2))
    ends = cut(numbers, units, stages * chunks)
    starts = [0, *ends]
    zeros = [numbers.choice((0, 0, 1, 2, 3)) for _ in range(stages)]
    lanes = draw_lanes(numbers, draws.get("steps"), pipelines, max(zeros) >= 2)
    if schedule == "custom":
        turns = write_turns(numbers, lanes, stages)
    wires, nodes = draw_wires(draws, max(zeros))
    groups, ranks = [], []
    for group in range(stages):
        degree = 1
        if kind in ("shared", "both"):
            degree = numbers.choice((2, 2, 3) if stages == 1 else (1, 2, 2, 3))
            # Few of the plans are to be refused for what they share.
            if numbers.random() < 0.9 and model.kv_heads < degree:
                degree = max(1, 2 * (stages == 1))
        own = [starts[group + chunk * stages + side] for chunk in range(chunks) for side in (0, 1)]
        parts = [numbers.choice((1, 1, 2, 3)) for _ in range(degree)]
        groups.append((tuple(own), zeros[group], *([tuple(parts)] if degree > 1 else [])))
        for lane in range(pipelines):
            first = pick(types)
            alike = [t for t in types if t.precision == first.precision]
            alike = [t for t in alike if t.recompute == first.recompute]
            for position in range(degree):
                type = first if position == 0 else pick(alike)
                own_turns = turns[group, lane] if schedule == "custom" else ()
                state = numbers.choice((1.0, 2.0))
                ranks.append(Rank(*lanes[lane], state, type.name, group, own_turns,
                                  nodes[lane % len(nodes)]))  # fmt: skip
    bandwidth = numbers.choice(("1.0e+06", "1.0e+09"))
    return Plan("model", max(zeros), tuple(ranks), types, tuple(groups), schedule,
                wires, bandwidth)  # fmt: skip


# Data and options.


@dataclass
class Job:
    seed: int
    model: Model
    plan: Plan
    min_bytes: int
    # Of poplar train, but for data and steps.
    options: list
    steps: int
    init: bool
    # Whether data are tokens in a row, and not samples with targets.
    text: bool
    # In the middle, one device goes on, or the plan, or a plan of stage 3.
    resume: str
    draws: Draws

    @property
    def other_plan(self):
        """Of the same samples, for a run that goes on under it."""
        large = self.plan.samples // 2
        ranks = [Rank(size, 1, size, share, self.plan.types[0].name)
                 for size, share in ((large, 3.0), (self.plan.samples - large, 1.0))]  # fmt: skip
        return Plan("model", 3, tuple(ranks), self.plan.types)

    def largest_degree(self):
        """Of devices that share units."""
        return max([len(group[2]) for group in self.plan.groups if group[2:]], default=1)

    def precisions(self):
        used = {rank.type for rank in self.plan.ranks}
        if self.resume == "across":
            used.add(self.plan.types[0].name)
        return {t.precision for t in self.plan.types if t.name in used}

    def describe(self):
        plan = self.plan
        model = self.model
        config = {k: v for k, v in model.config.items()
                  if k in ("hidden_size", "n_embd", "num_attention_heads", "n_head", "head_dim",
                           "num_key_value_heads", "vocab_size", "sliding_window",
                           "tie_word_embeddings", "layer_types")}  # fmt: skip
        words = [model.family, str(config), " ".join(map(str, model.options))]
        words += [" ".join(map(str, self.options)), f"min-bytes {self.min_bytes}"]
        words += [f"init {self.init}, text {self.text}, resume {self.resume or 'no'}"]
        return "\n    ".join(words + plan.text().splitlines())


def draw_options(draws, resumed):
    options = ["--eps", "1e-4", "--seed", draws.seed % 7 + 1]
    numbers = draws.get("optimizer")
    if not numbers:
        return options + ["--lr", 5e-3, "--schedule", "constant", "--warmup", 0, "--clip", 0,
                          "--weight-decay", 0]  # fmt: skip
    # The last one ends with the run: in one that goes on, rates were others.
    kinds = ("constant", "linear", "cosine", "wsd")
    schedule = numbers.choice(kinds[:3] if resumed else kinds)
    options += ["--lr", numbers.choice((1e-3, 1e-2)), "--schedule", schedule]
    options += ["--warmup", numbers.choice((0, 2)), "--weight-decay", numbers.choice((0, 0.1, 1))]
    options += ["--clip", numbers.choice((0, 0.05, 1)), "--beta2", numbers.choice((0.5, 0.95))]
    return options + ["--decay-steps", numbers.choice((2, 6))]


def draw_job(seed, without=()):
    draws = Draws(seed, without)
    model = draw_model(draws)
    plan = draw_plan(draws, model)
    buckets, init = draws.get("buckets"), draws.get("init")
    min_bytes = buckets.choice((0, 0, 4096, 1 << 30)) if buckets else 0
    text, resume = draws.get("text"), draws.get("resume")
    resumed = resume.choice(("", "", "out", "into", "across")) if resume else ""
    return Job(
        seed, model, plan, min_bytes, draw_options(draws, resumed), 4,
        model.adapters or bool(init and init.random() < 0.3),
        bool(text and not model.packing and text.random() < 0.4),
        resumed, draws,
    )  # fmt: skip


def write_data(path, job):
    """Options of poplar train for data of a job."""
    numbers = random.Random(f"{job.seed} data")
    model = job.model
    draw = lambda: numbers.randrange(3, model.vocabulary)
    if job.text:
        write_ids(path, [draw() for _ in range(30 * model.seq_len + 5)], "H")
        return ["--data", path, "--data-format", "u16"]
    weights = job.draws.get("weights")
    data = []
    for _ in range(7):
        counted = weights.choice((0, 0.2, 0.9, 1, 1)) if weights else 1
        ids, targets, positions = [], [], []
        while len(ids) < model.seq_len:
            length = model.seq_len - len(ids)
            if model.packing:
                length = numbers.randrange(1, length + 1)
            document = [draw() for _ in range(length + 1)]
            ids += document[:-1]
            targets += [t if numbers.random() < counted else -1 for t in document[1:]]
            positions += range(length)
        data += ids + targets + (positions if model.packing else [])
    write_ids(path, data)
    return ["--data-ids", path]
