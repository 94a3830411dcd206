#!/usr/bin/env python3
# ===- make_goldens.py - Expected values from PyTorch ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes test/Integration/goldens: tiny models, batches and what PyTorch makes
of them. Needs exactly the versions in requirements.txt; everything is drawn
from fixed seeds, in f32, without dropout.

For every model:
  config.json, model.safetensors      a Hugging Face checkpoint directory
  batch{1,3}.tokens                   raw i32, per sample ids [T], targets [T];
                                      a target of -1 is not counted
  batch{1,3}.gradients.safetensors    of the mean loss over counted targets
  steps10.safetensors                 the parameters after 10 steps of AdamW on
                                      batch 3
  expected.json                       seq_len, losses, counts, global norms
The variants of Llama have only batch 3 and no steps. Names are those of
checkpoints.

packed-* are of the checkpoints of the same names without that: batch3.tokens
has positions [T] as a third row, with several documents in a sample; attention
has a block-diagonal mask. They must be what the documents give one by one.

balanced-* are of such checkpoints, too, with the loss that balances experts. A target
of -2 is padding behind a sample.
"""

import argparse
import json
import os

import torch
import transformers
from safetensors.torch import save_file

import recent_goldens

SEQ_LEN = 24
STEPS = 10
OPTIMIZER = {
    "lr": 1e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "clip": 1.0,
}

BERT_MASK_ID = 103

CONFIGS = {
    # Grouped-query attention, an untied head.
    "llama": transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
    ),
    # Packed QKV, learned positions of which not all are used, a tied head.
    "gpt2": transformers.GPT2Config(
        vocab_size=256,
        n_positions=32,
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_inner=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    ),
    # Not causal, masked targets, a tied head with a transform.
    "bert": transformers.BertConfig(
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        mask_token_id=BERT_MASK_ID,
    ),
}
CLASSES = {
    "llama": transformers.LlamaForCausalLM,
    "gpt2": transformers.GPT2LMHeadModel,
    "bert": transformers.BertForMaskedLM,
}
# Variants: smaller, and only the gradients of batch 3.
SMALL = {
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
NEOX = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
VARIANTS = {
    # A window shorter than the sequence.
    "mistral": transformers.MistralConfig(
        **SMALL, head_dim=16, sliding_window=8, tie_word_embeddings=True
    ),
    # Biases of q, k and v, a tied head.
    "qwen2": transformers.Qwen2Config(
        **SMALL, use_sliding_window=False, tie_word_embeddings=True
    ),
    # All three bands of Llama 3's scaled frequencies.
    "llama3": transformers.LlamaConfig(
        **SMALL,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 100.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    # Norms of each head of q and k, an untied head.
    "qwen3": transformers.Qwen3Config(**SMALL, head_dim=16),
    # Norms after attention and feed-forward layers, and of all of q and of k.
    "olmo2": transformers.Olmo2Config(**SMALL, pad_token_id=None),
    # Four multipliers.
    "granite": transformers.GraniteConfig(
        **SMALL,
        tie_word_embeddings=True,
        embedding_multiplier=3.0,
        residual_multiplier=0.25,
        attention_multiplier=0.125,
        logits_scaling=2.0,
    ),
    # A layer without rotary embeddings.
    "smollm3": transformers.SmolLM3Config(
        **SMALL, no_rope_layer_interval=2, pad_token_id=None
    ),
    # Weights of q, k and v in one, partial rotary embeddings, LongRoPE.
    "phi3": transformers.Phi3Config(
        **SMALL,
        pad_token_id=None,
        original_max_position_embeddings=32,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.75,
            "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5],
            "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 5.0],
        },
    ),
    # Norms that subtract the mean, partial rotary embeddings.
    "stablelm": transformers.StableLmConfig(**SMALL, use_qkv_bias=True),
    # Embeddings times the root of their width, norms with 1 + weight, heads of
    # 256, GELU by tanh.
    "gemma": transformers.GemmaConfig(**SMALL, head_dim=256),
    # Norms before and after, every other layer with a window, soft caps low
    # enough to be felt. Other ways of attention do not cap.
    "gemma2": transformers.Gemma2Config(
        **SMALL,
        head_dim=16,
        query_pre_attn_scalar=8,
        sliding_window=8,
        final_logit_softcapping=2.0,
        attn_logit_softcapping=1.0,
        attn_implementation="eager",
    ),
    # Norms of q and k, other rotary embeddings in layers with a window.
    "gemma3": transformers.Gemma3TextConfig(
        **SMALL,
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
    ),
    # Parallel residuals, q, k and v of each head in one, partial rotary
    # embeddings, biases.
    "gpt_neox": transformers.GPTNeoXConfig(**NEOX),
    # Residuals one after the other, a tied head, no biases of attention.
    "gpt_neox_serial": transformers.GPTNeoXConfig(
        **NEOX,
        use_parallel_residual=False,
        attention_bias=False,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 500.0,
            "partial_rotary_factor": 0.5,
        },
    ),
    # Two of four experts, whose scores add up to 1.
    "mixtral": transformers.MixtralConfig(**SMALL, num_local_experts=4),
    # Three of eight experts, whose scores do not, and a layer without them.
    "qwen3_moe": transformers.Qwen3MoeConfig(
        **SMALL | {"num_hidden_layers": 3},
        head_dim=16,
        moe_intermediate_size=24,
        num_experts=8,
        num_experts_per_tok=3,
        mlp_only_layers=[1],
    ),
    # Three of eight experts beside one for all tokens, in all layers but one.
    "qwen2_moe": transformers.Qwen2MoeConfig(
        **SMALL | {"num_hidden_layers": 3},
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
        num_experts=8,
        num_experts_per_tok=3,
        mlp_only_layers=[1],
    ),
    # Sinks, a window in one layer, and three of eight experts with biases, whose
    # gates and what these multiply are clamped. The rotary embeddings are YaRN's,
    # whose bands are not rounded to columns.
    "gpt_oss": transformers.GptOssConfig(
        **SMALL | {"intermediate_size": 32},
        head_dim=16,
        num_local_experts=8,
        num_experts_per_tok=3,
        sliding_window=8,
        swiglu_limit=0.5,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1000.0,
            "factor": 4.0,
            "beta_fast": 8.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 16,
        },
    ),
    # Three layers of linear attention, whose keys and values differ in width and
    # in heads, and one of attention with a gate.
    "qwen3_5": transformers.Qwen3_5TextConfig(
        **SMALL | {"num_hidden_layers": 4},
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=12,
    ),
    # The same with three of eight experts, whose scores add up to 1, beside one for
    # all tokens.
    "qwen3_5_moe": transformers.Qwen3_5MoeTextConfig(
        **{key: SMALL[key] for key in SMALL if key != "intermediate_size"}
        | {"num_hidden_layers": 4},
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=12,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
        num_experts=8,
        num_experts_per_tok=3,
    ),
    # The same with weights of linear attention in one, and a layer without experts.
    "qwen3_next": transformers.Qwen3NextConfig(
        **SMALL | {"num_hidden_layers": 4},
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=12,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
        num_experts=8,
        num_experts_per_tok=3,
        mlp_only_layers=[1],
    ),
    # Windows in most layers, whose rotary embeddings are not scaled.
    "olmo3": transformers.Olmo3Config(
        **SMALL,
        pad_token_id=None,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        rope_scaling={
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    # Norms after layers and of each head; no rotation without a window.
    "exaone4": transformers.Exaone4Config(
        **SMALL, sliding_window=8, sliding_window_pattern=2
    ),
    # A bias of attention's output, too.
    "seed_oss": transformers.SeedOssConfig(
        **SMALL,
        head_dim=16,
        pad_token_id=None,
        attention_out_bias=True,
        attention_dropout=0.0,
        residual_dropout=0.0,
    ),
    # YaRN whose factor is 1, and queries that would be scaled from position 32 on.
    "ministral3": transformers.Ministral3Config(
        **SMALL | {"max_position_embeddings": 128},
        head_dim=16,
        pad_token_id=None,
        sliding_window=None,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "max_position_embeddings": 128,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        },
    ),
    # Feed-forward layers without a gate, relu squared.
    "arcee": transformers.ArceeConfig(**SMALL),
    # Half of each head rotated, columns beside each other; gate and up in one.
    "glm": transformers.GlmConfig(**SMALL, head_dim=16, pad_token_id=None),
    # The same, with norms before and after.
    "glm4": transformers.Glm4Config(**SMALL, head_dim=16, pad_token_id=None),
    # Parallel residuals, biases everywhere, no gate.
    "phi": transformers.PhiConfig(**SMALL),
    # Norms with biases, a window, a tied head.
    "starcoder2": transformers.Starcoder2Config(**SMALL, sliding_window=8),
    # Scaled rotary embeddings.
    "yarn": transformers.LlamaConfig(
        **SMALL,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    "dynamic": transformers.LlamaConfig(
        **SMALL | {"max_position_embeddings": 16},
        rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0},
    ),
}
VARIANTS |= recent_goldens.make_configs(SMALL)
CLASSES |= recent_goldens.CLASSES
# Models of text that are part of larger ones, as their checkpoints have them.
VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
VARIANTS |= {
    "gemma3_multimodal": transformers.Gemma3Config(
        text_config=VARIANTS["gemma3"].to_dict(),
        vision_config=VISION | {"model_type": "siglip_vision_model"},
        mm_tokens_per_image=4,
    ),
    # An untied head.
    "mistral3": transformers.Mistral3Config(
        text_config=VARIANTS["mistral"].to_dict() | {"tie_word_embeddings": False},
        vision_config=VISION | {"model_type": "pixtral", "head_dim": 8},
        tie_word_embeddings=False,
    ),
}
CLASSES |= {
    "gemma3_multimodal": transformers.Gemma3ForConditionalGeneration,
    "mistral3": transformers.Mistral3ForConditionalGeneration,
    "gpt_neox": transformers.GPTNeoXForCausalLM,
    "gpt_neox_serial": transformers.GPTNeoXForCausalLM,
    "olmo3": transformers.Olmo3ForCausalLM,
    "exaone4": transformers.Exaone4ForCausalLM,
    "seed_oss": transformers.SeedOssForCausalLM,
    "ministral3": transformers.Ministral3ForCausalLM,
    "arcee": transformers.ArceeForCausalLM,
    "glm": transformers.GlmForCausalLM,
    "glm4": transformers.Glm4ForCausalLM,
    "phi": transformers.PhiForCausalLM,
    "starcoder2": transformers.Starcoder2ForCausalLM,
    "mixtral": transformers.MixtralForCausalLM,
    "qwen3_moe": transformers.Qwen3MoeForCausalLM,
    "qwen2_moe": transformers.Qwen2MoeForCausalLM,
    "gpt_oss": transformers.GptOssForCausalLM,
    "qwen3_5": transformers.Qwen3_5ForCausalLM,
    "qwen3_5_moe": transformers.Qwen3_5MoeForCausalLM,
    "qwen3_next": transformers.Qwen3NextForCausalLM,
    "phi3": transformers.Phi3ForCausalLM,
    "stablelm": transformers.StableLmForCausalLM,
    "gemma": transformers.GemmaForCausalLM,
    "gemma2": transformers.Gemma2ForCausalLM,
    "gemma3": transformers.Gemma3ForCausalLM,
    "yarn": transformers.LlamaForCausalLM,
    "dynamic": transformers.LlamaForCausalLM,
    "qwen3": transformers.Qwen3ForCausalLM,
    "olmo2": transformers.Olmo2ForCausalLM,
    "granite": transformers.GraniteForCausalLM,
    "smollm3": transformers.SmolLM3ForCausalLM,
    "mistral": transformers.MistralForCausalLM,
    "qwen2": transformers.Qwen2ForCausalLM,
    "llama3": transformers.LlamaForCausalLM,
}


# Models with variants that are trained, too.
TRAINED = {*CONFIGS, "mixtral", "qwen2_moe", "gpt_oss"}
# Of models whose experts transformers stacks: the module, and the names of the
# weights, in checkpoints.
EXPERTS = dict.fromkeys(
    ("mixtral", "minimax_m2"), ("block_sparse_moe", "w1", "w3", "w2")
) | dict.fromkeys(
    ("qwen2_moe", "qwen3_moe", "qwen3_5_moe_text", "qwen3_next", "deepseek_v2", "mistral4")
    + ("deepseek_v3", "glm4_moe", "glm4_moe_lite", "afmoe", "dots1", "ernie4_5_moe"),
    ("mlp", "gate_proj", "up_proj", "down_proj"),
)


def name_as_checkpoints(model, tensors):
    """Tensors of the model's parameters under the names of checkpoints; of a model
    that reads pictures, those of its model of text under their names there."""
    if hasattr(model.config, "text_config"):
        part = ".language_model."
        return {
            name.replace(part, "."): t
            for name, t in tensors.items()
            if part in name or name.startswith("lm_head")
        }
    if model.config.model_type == "gpt_neox":
        return {name.replace("lm_head.", "embed_out."): t for name, t in tensors.items()}
    if model.config.model_type not in EXPERTS:
        return tensors
    module, gate, up, down = EXPERTS[model.config.model_type]
    result = {}
    for name, tensor in tensors.items():
        name = name.replace(".mlp.", f".{module}.")
        experts, _, leaf = name.rpartition(".")
        if leaf not in ("gate_up_proj", "down_proj"):
            result[name] = tensor
            continue
        for number, weight in enumerate(tensor):
            parts = {down: weight}
            if leaf == "gate_up_proj":
                parts = dict(zip((gate, up), weight.chunk(2)))
            for key, part in parts.items():
                result[f"{experts}.{number}.{key}.weight"] = part.contiguous()
    return result


def randomize(model, scale):
    """Matrices of this standard deviation. Biases and gains away from 0 and 1, so
    that none of them can be ignored."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("A_log"):
                # Slow enough that states last, whatever the constructor drew.
                parameter.copy_(noise - 1)
            elif name.endswith((".sinks", ".router.bias")):
                parameter.copy_(noise)
            elif parameter.dim() >= 2:
                parameter.copy_(scale * noise)
            else:
                parameter.add_(0.1 * noise)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))


def make_model(name):
    model = CLASSES[name]((CONFIGS | VARIANTS)[name])
    randomize(model, 0.08)
    return model.train()


def make_batch(name, batch):
    generator = torch.Generator().manual_seed(100 + batch)
    ids = torch.randint(0, 256, (batch, SEQ_LEN + 1), generator=generator)
    if name != "bert":
        targets = ids[:, 1:].clone()
        # Some targets are not counted, as at the end of a document.
        targets[-1, -5:] = -1
        return ids[:, :-1].contiguous(), targets
    ids = ids[:, :-1].contiguous()
    targets = torch.full_like(ids, -1)
    for row in range(batch):
        # An unequal number of masked positions in every sample.
        count = 2 + 3 * row
        where = torch.randperm(SEQ_LEN, generator=generator)[:count]
        targets[row, where] = ids[row, where]
        ids[row, where] = BERT_MASK_ID
    return ids, targets


def mean_loss(model, ids, targets):
    logits = model(input_ids=ids).logits.float()
    total = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    )
    return total / (targets >= 0).sum()


def tensors_of(model, select):
    # Tied parameters appear once, under the name the checkpoint stores.
    tensors = {
        name: select(parameter).detach().clone().contiguous()
        for name, parameter in model.named_parameters()
        if select(parameter) is not None
    }
    return name_as_checkpoints(model, tensors)


def write_tokens(path, ids, targets):
    both = torch.stack([ids, targets], dim=1).to(torch.int32).contiguous()
    with open(path, "wb") as file:
        file.write(both.numpy().astype("<i4").tobytes())


def train(model, ids, targets):
    # Biases of stacked experts are matrices.
    def is_decayed(name, parameter):
        return parameter.dim() >= 2 and not name.endswith("bias")

    named = list(model.named_parameters())
    decayed = [p for name, p in named if is_decayed(name, p)]
    others = [p for name, p in named if not is_decayed(name, p)]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": OPTIMIZER["weight_decay"]},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=OPTIMIZER["lr"],
        betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]),
        eps=OPTIMIZER["eps"],
    )
    for _ in range(STEPS):
        optimizer.zero_grad()
        mean_loss(model, ids, targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["clip"])
        optimizer.step()


def make(name, directory):
    os.makedirs(directory, exist_ok=True)
    model = make_model(name)
    model.save_pretrained(directory)
    extra = os.path.join(directory, "generation_config.json")
    if os.path.exists(extra):
        os.remove(extra)
    measure(name, model, directory)


def make_mxfp4(name, directory):
    """gpt_oss with random experts in MXFP4, as transformers decodes them."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    os.makedirs(directory, exist_ok=True)
    model = make_model("gpt_oss")
    generator = torch.Generator().manual_seed(2)
    tensors = {}
    for key, parameter in model.named_parameters():
        if not key.endswith(("gate_up_proj", "down_proj")):
            tensors[key] = parameter.detach()
            continue
        count, inputs, outputs = parameter.shape
        shape = (count, outputs, inputs // 32)

        def draw(low, high, *more):
            numbers = torch.randint(low, high, shape + more, generator=generator)
            return numbers.to(torch.uint8)

        blocks, scales = draw(0, 256, 16), draw(119, 124)
        tensors[key + "_blocks"], tensors[key + "_scales"] = blocks, scales
        values = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        with torch.no_grad():
            parameter.copy_(values)
    save_file(tensors, os.path.join(directory, "model.safetensors"))
    config = model.config.to_dict() | {
        "architectures": ["GptOssForCausalLM"],
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        },
    }
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    measure(name, model, directory)


def measure(name, model, directory):
    """What PyTorch makes of a model."""
    expected = {
        "seq_len": SEQ_LEN,
        "steps": STEPS,
        "optimizer": OPTIMIZER,
        "versions": {
            "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__,
        },
        "batches": {},
    }
    variant = name not in CONFIGS
    for batch in (3,) if variant else (1, 3):
        ids, targets = make_batch(name, batch)
        write_tokens(os.path.join(directory, f"batch{batch}.tokens"), ids, targets)
        model.zero_grad()
        loss = mean_loss(model, ids, targets)
        loss.backward()
        gradients = tensors_of(model, lambda parameter: parameter.grad)
        save_file(
            gradients, os.path.join(directory, f"batch{batch}.gradients.safetensors")
        )
        norm = torch.stack([g.double().norm() for g in gradients.values()]).norm()
        expected["batches"][str(batch)] = {
            "loss": loss.item(),
            "targets": int((targets >= 0).sum()),
            "gradient_norm": norm.item(),
        }

    if name in TRAINED:
        train(model, *make_batch(name, 3))
        save_file(
            tensors_of(model, lambda parameter: parameter),
            os.path.join(directory, "steps10.safetensors"),
        )
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump(expected, file, indent=2)
        file.write("\n")
    print(f"{name}: {expected['batches']}")


# Of the three samples: documents of more than a token; what is left are
# documents of one token each, which does not count.
PACKED = {"packed-gpt2": "gpt2", "packed-mistral": "mistral"}
DOCUMENTS = [[9, 7, 2], [24], [5, 12, 7]]


def make_packed_batch():
    """Ids, targets and positions."""
    generator = torch.Generator().manual_seed(200)
    batch = torch.zeros(3, len(DOCUMENTS), SEQ_LEN, dtype=torch.long)
    batch[1] = -1
    for sample, lengths in enumerate(DOCUMENTS):
        begin = 0
        for length in lengths:
            # The last token of a document is a target alone.
            tokens = torch.randint(1, 256, (length + 1,), generator=generator)
            where = slice(begin, begin + length)
            batch[0, sample, where] = tokens[:-1]
            batch[1, sample, where] = tokens[1:]
            batch[2, sample, where] = torch.arange(length)
            begin += length
    return batch


def block_mask(positions, window):
    """0 where query i sees key j of its document, else the least number."""
    place = torch.arange(SEQ_LEN)
    distance = place[:, None] - place[None, :]
    seen = (distance >= 0) & (distance <= positions[:, :, None])
    if window:
        seen &= distance < window
    mask = torch.full(seen.shape, torch.finfo(torch.float32).min)
    return mask.masked_fill(seen, 0.0)[:, None]


def sum_of_losses(logits, targets):
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    )


def make_packed(name, directory):
    os.makedirs(directory, exist_ok=True)
    model = make_model(PACKED[name])
    ids, targets, positions = batch = make_packed_batch()
    rows = batch.transpose(0, 1).to(torch.int32).contiguous()
    with open(os.path.join(directory, "batch3.tokens"), "wb") as file:
        file.write(rows.numpy().astype("<i4").tobytes())
    count = int((targets >= 0).sum())
    window = getattr(model.config, "sliding_window", None)

    def measure(total):
        model.zero_grad()
        (total / count).backward()
        return (total / count).item(), tensors_of(model, lambda p: p.grad)

    mask = block_mask(positions, window)
    loss, gradients = measure(
        sum_of_losses(
            model(input_ids=ids, attention_mask=mask, position_ids=positions).logits,
            targets,
        )
    )
    total = 0
    for sample, lengths in enumerate(DOCUMENTS):
        begin = 0
        for length in lengths:
            where = slice(begin, begin + length)
            total = total + sum_of_losses(
                model(input_ids=ids[sample : sample + 1, where]).logits,
                targets[sample : sample + 1, where],
            )
            begin += length
    alone, single = measure(total)
    assert abs(loss - alone) <= 1e-6 * alone, (loss, alone)
    for key, gradient in gradients.items():
        assert torch.allclose(gradient, single[key], rtol=1e-4, atol=1e-6), key
    save_measured(name, directory, loss, count, gradients)


def save_measured(name, directory, loss, count, gradients):
    """What is known of a batch of three samples."""
    save_file(gradients, os.path.join(directory, "batch3.gradients.safetensors"))
    norm = torch.stack([g.double().norm() for g in gradients.values()]).norm()
    with open(os.path.join(directory, "expected.json"), "w") as file:
        expected = {
            "seq_len": SEQ_LEN,
            "versions": {
                "torch": torch.__version__.split("+")[0],
                "transformers": transformers.__version__,
            },
            "batches": {
                "3": {"loss": loss, "targets": count, "gradient_norm": norm.item()}
            },
        }
        json.dump(expected, file, indent=2)
        file.write("\n")
    print(f"{name}: {expected['batches']}")


# The target of a place behind a sample's tokens.
PADDING = -2
BALANCED = {"balanced-mixtral": "mixtral", "balanced-qwen2_moe": "qwen2_moe"}
COEFFICIENT = 0.2


def make_balanced_batch():
    """Samples of 24, 17 and 11 tokens; some targets do not count."""
    ids, targets = make_batch("mixtral", 3)
    targets[0, :4] = -1
    for row, length in enumerate((SEQ_LEN, 17, 11)):
        ids[row, length:] = 0
        targets[row, length - 1 : length] = -1
        targets[row, length:] = PADDING
    return ids, targets


def balanced_loss(model, ids, targets):
    """Of each sample what the model itself says, as often as it has targets."""
    counts, loss = (targets >= 0).sum(dim=1), 0
    for row, count in enumerate(counts):
        own = targets[row : row + 1]
        labels = torch.where(own >= 0, own, -100)
        out = model(
            input_ids=ids[row : row + 1],
            attention_mask=(own != PADDING).long(),
            labels=labels,
            shift_labels=labels,
            output_router_logits=True,
        )
        loss = loss + out.loss * count / counts.sum()
    return loss


def make_balanced(name, directory):
    os.makedirs(directory, exist_ok=True)
    model = make_model(BALANCED[name])
    model.router_aux_loss_coef = COEFFICIENT
    ids, targets = make_balanced_batch()
    write_tokens(os.path.join(directory, "batch3.tokens"), ids, targets)
    loss = balanced_loss(model, ids, targets)
    loss.backward()
    gradients = tensors_of(model, lambda parameter: parameter.grad)
    count = int((targets >= 0).sum())
    save_measured(name, directory, loss.item(), count, gradients)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    default = os.path.join(here, "..", "..", "test", "Integration", "goldens")
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default=os.path.normpath(default))
    parser.add_argument("--only", nargs="*", help="models (default: all)")
    arguments = parser.parse_args()
    # One thread: the order of additions, and so the last bits, are fixed.
    torch.set_num_threads(1)
    makers = {name: make for name in CONFIGS | VARIANTS}
    makers |= dict.fromkeys(PACKED, make_packed) | dict.fromkeys(BALANCED, make_balanced)
    makers["gpt_oss_mxfp4"] = make_mxfp4
    for name in arguments.only or makers:
        makers[name](name, os.path.join(arguments.out, name))


if __name__ == "__main__":
    main()
