# ===- check_cuda_torch.py - Training steps by PyTorch on a GPU -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints `tokens/s NUMBER`, the median over the timed steps of a model's
training by PyTorch: torch.compile, flash attention (scaled_dot_product_attention
chooses it), fused AdamW, weights in f32 under autocast as Poplar keeps f32
masters; or `none REASON` where PyTorch, transformers or a GPU is missing."""

import argparse
import statistics
import sys
import time

WARMUP_STEPS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq-len", type=int, required=True)
    parser.add_argument("--precision", choices=["f32", "bf16", "f16"], required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda", help="cpu: to try this script")
    arguments = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"none {error}")
        return 0
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("none this PyTorch sees no GPU")
        return 0
    device = torch.device(arguments.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        **transformers.PretrainedConfig._dict_from_json_file(arguments.config)
    )
    for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa"
    )
    model.config.use_cache = False
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, weight_decay=0.1, fused=True
    )
    compiled = torch.compile(model) if device.type == "cuda" else model
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(arguments.precision)
    # GradScaler is what f16 costs there, too.
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    shape, seconds = (arguments.batch, arguments.seq_len), []
    for _ in range(WARMUP_STEPS + arguments.steps):
        ids = torch.randint(0, 256, shape, device=device)
        targets = torch.randint(0, 256, shape, device=device)
        synchronize()
        begin = time.perf_counter()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            logits = compiled(input_ids=ids).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten()
        )
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        synchronize()
        seconds.append(time.perf_counter() - begin)
    tokens = arguments.batch * arguments.seq_len
    print(f"tokens/s {tokens / statistics.median(seconds[WARMUP_STEPS:]):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
