# ===- recent_goldens.py - Models of make_goldens.py, continued ------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The families that came last, and a class that transformers does not have."""

import torch
import transformers


class MiMoConfig(transformers.Qwen2Config):
    """As the code beside the checkpoints has it."""

    model_type = "mimo"
    num_nextn_predict_layers: int = 0


class MiMoForCausalLM(transformers.Qwen2ForCausalLM):
    """As far as training goes: layers that no forward pass has."""

    config_class = MiMoConfig

    def __init__(self, config):
        super().__init__(config)
        width = config.hidden_size
        self.model.mtp_layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({"input_proj": torch.nn.Linear(2 * width, width, bias=False)})
            for _ in range(config.num_nextn_predict_layers)
        )


transformers.AutoConfig.register("mimo", MiMoConfig)
transformers.AutoModelForCausalLM.register(MiMoConfig, MiMoForCausalLM)

CLASSES = {
    "hunyuan": transformers.HunYuanDenseV1ForCausalLM,
    "nemotron": transformers.NemotronForCausalLM,
    "cohere2": transformers.Cohere2ForCausalLM,
    "mimo": MiMoForCausalLM,
    "deepseek_v2": transformers.DeepseekV2ForCausalLM,
    "mistral4": transformers.Mistral4ForCausalLM,
    "deepseek_v3": transformers.DeepseekV3ForCausalLM,
    "glm4_moe": transformers.Glm4MoeForCausalLM,
    "glm4_moe_lite": transformers.Glm4MoeLiteForCausalLM,
    "minimax_m2": transformers.MiniMaxM2ForCausalLM,
    "afmoe": transformers.AfmoeForCausalLM,
    "dots1": transformers.Dots1ForCausalLM,
    "ernie4_5_moe": transformers.Ernie4_5_MoeForCausalLM,
}


def make_configs(small):
    """Tiny models, most sizes of which are in `small`."""
    latent = {
        key: value
        for key, value in small.items()
        if key not in ("num_attention_heads", "num_key_value_heads")
    } | {
        "num_hidden_layers": 3,
        "kv_lora_rank": 16,
        "moe_intermediate_size": 24,
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
    }
    return {
        # Norms of each head of q and k behind the rotation, whose base is stretched.
        "hunyuan": transformers.HunYuanDenseV1Config(
            **small,
            head_dim=16,
            pad_token_id=None,
            attention_bias=True,
            rope_parameters={
                "rope_type": "dynamic",
                "rope_theta": 100.0,
                "factor": 1.0,
                "alpha": 50.0,
            },
        ),
        # Norms with 1 + weight that subtract the mean, relu squared without a gate.
        "nemotron": transformers.NemotronConfig(**small),
        # Parallel residuals, norms that subtract the mean and have no bias, a window in one
        # layer, and no rotation in the other one.
        "cohere2": transformers.Cohere2Config(
            **small,
            pad_token_id=None,
            sliding_window=8,
            logit_scale=0.25,
            layer_types=["sliding_attention", "full_attention"],
        ),
        # Qwen2 beside layers that predict several tokens.
        "mimo": MiMoConfig(**small, num_nextn_predict_layers=1),
        # Latent attention with values narrower than keys; a layer without experts, then two
        # with three of eight beside two for all tokens.
        "deepseek_v2": transformers.DeepseekV2Config(
            **latent | {"hidden_size": 36},
            num_attention_heads=3,
            num_key_value_heads=3,
            q_lora_rank=None,
            qk_nope_head_dim=12,
            qk_rope_head_dim=8,
            v_head_dim=12,
            n_shared_experts=2,
            first_k_dense_replace=1,
            routed_scaling_factor=1.5,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "mscale": 0.7,
                "mscale_all_dim": 0.9,
            },
        ),
        # Latent queries, too; scores that add up to 1, and positions from which on queries
        # would be scaled.
        "mistral4": transformers.Mistral4Config(
            **latent | {"max_position_embeddings": 128},
            num_attention_heads=2,
            num_key_value_heads=2,
            q_lora_rank=20,
            qk_nope_head_dim=8,
            qk_rope_head_dim=8,
            v_head_dim=16,
            n_shared_experts=1,
            pad_token_id=None,
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
        # Sigmoids with a bias choose three of eight experts from two of four groups.
        "deepseek_v3": transformers.DeepseekV3Config(
            **latent,
            num_attention_heads=2,
            num_key_value_heads=2,
            q_lora_rank=20,
            qk_nope_head_dim=8,
            qk_rope_head_dim=8,
            v_head_dim=16,
            n_shared_experts=1,
            n_group=4,
            topk_group=2,
            first_k_dense_replace=1,
            pad_token_id=None,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
        ),
        # The same router without groups, norms of each head, half of its columns rotated.
        "glm4_moe": transformers.Glm4MoeConfig(
            **small | {"num_hidden_layers": 3},
            head_dim=16,
            moe_intermediate_size=24,
            n_routed_experts=8,
            num_experts_per_tok=3,
            n_shared_experts=2,
            first_k_dense_replace=1,
            routed_scaling_factor=1.5,
            attention_bias=True,
            use_qk_norm=True,
            pad_token_id=None,
        ),
        # Latent attention beside this router; layers by their names.
        "glm4_moe_lite": transformers.Glm4MoeLiteConfig(
            **latent,
            num_attention_heads=2,
            num_key_value_heads=2,
            q_lora_rank=20,
            qk_nope_head_dim=8,
            qk_rope_head_dim=8,
            v_head_dim=16,
            n_shared_experts=1,
            pad_token_id=None,
            mlp_layer_types=["dense", "sparse", "sparse"],
        ),
        # Norms of all heads of q and of k together, half of the columns rotated, experts
        # in all layers.
        "minimax_m2": transformers.MiniMaxM2Config(
            **small,
            head_dim=16,
            num_local_experts=8,
            num_experts_per_tok=3,
            pad_token_id=None,
            rotary_dim=8,
        ),
        # A gate behind attention, norms before and after, no positions in the last layer.
        "afmoe": transformers.AfmoeConfig(
            **small | {"num_hidden_layers": 3},
            head_dim=16,
            moe_intermediate_size=24,
            num_experts=8,
            num_experts_per_tok=3,
            num_shared_experts=2,
            num_dense_layers=1,
            route_scale=1.5,
            sliding_window=8,
            global_attn_every_n_layers=3,
            mup_enabled=True,
            pad_token_id=None,
        ),
        # Scores that do not add up to 1, a window in the last layer.
        "dots1": transformers.Dots1Config(
            **small | {"num_hidden_layers": 3},
            head_dim=16,
            moe_intermediate_size=24,
            n_routed_experts=8,
            num_experts_per_tok=3,
            n_shared_experts=2,
            first_k_dense_replace=1,
            routed_scaling_factor=0.75,
            attention_bias=True,
            sliding_window=8,
            max_window_layers=2,
            pad_token_id=None,
        ),
        # A bias beside a softmax, and experts in every other layer.
        "ernie4_5_moe": transformers.Ernie4_5_MoeConfig(
            **small | {"num_hidden_layers": 4},
            moe_intermediate_size=24,
            moe_num_experts=8,
            moe_k=3,
            moe_num_shared_experts=1,
            moe_layer_interval=2,
        ),
    }
