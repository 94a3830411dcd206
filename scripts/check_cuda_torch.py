# ===- check_cuda_torch.py - Training steps by PyTorch on a GPU -------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures training by PyTorch as an expert would set it up, in several ways,
and prints a line for each: `tokens/s NUMBER WAY`. The best one is PyTorch's.

- the models are written here, plainly: GPT-2 and Llama, no transformers
- attention is scaled_dot_product_attention with is_causal=True: flash attention
- the loss is compiled with the model; the vocabulary is padded to a multiple of 128
- fused AdamW; gradients of --accumulate micro-batches are added up, as Poplar does
- weights: f32 under autocast, and 16-bit ones with f32 masters; TF32 is used
  for f32 products if --precision is tf32
- torch.compile by default, and with max-autotune

Prints `none REASON` where PyTorch or a GPU is missing. --device cpu tries the
script itself."""

import argparse
import json
import math
import statistics
import sys
import time

WARMUP_STEPS = 3
VOCABULARY_MULTIPLE = 128


def make_models(torch):
    """{model_type: class of a module: forward(ids, targets) -> loss}."""
    nn, functional = torch.nn, torch.nn.functional

    def attend(q, k, v):
        """[batch, tokens, heads, width] each; fewer heads of k and v are shared."""
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        grouped = {"enable_gqa": True} if k.shape[1] != q.shape[1] else {}
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, **grouped)
        return out.transpose(1, 2).flatten(2)

    def get_loss(logits, targets):
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def pad(size):
        return -(-size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE

    class GPT2Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            width, epsilon = c["n_embd"], c.get("layer_norm_epsilon", 1e-5)
            self.heads = c["n_head"]
            inner = c.get("n_inner") or 4 * width
            self.norm1, self.norm2 = (nn.LayerNorm(width, eps=epsilon) for _ in range(2))
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).unbind(2)
            x = x + self.out(attend(q, k, v))
            hidden = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
            return x + self.down(hidden)

    class GPT2(nn.Module):
        def __init__(self, c, seq_len):
            super().__init__()
            width = c["n_embd"]
            self.tokens = nn.Embedding(pad(c["vocab_size"]), width)
            self.positions = nn.Embedding(seq_len, width)
            self.blocks = nn.ModuleList(GPT2Block(c) for _ in range(c["n_layer"]))
            self.norm = nn.LayerNorm(width, eps=c.get("layer_norm_epsilon", 1e-5))

        def forward(self, ids, targets):
            places = torch.arange(ids.shape[1], device=ids.device)
            x = self.tokens(ids) + self.positions(places)
            for block in self.blocks:
                x = block(x)
            return get_loss(functional.linear(self.norm(x), self.tokens.weight), targets)

    class LlamaBlock(nn.Module):
        def __init__(self, c):
            super().__init__()
            width, self.heads = c["hidden_size"], c["num_attention_heads"]
            self.shared = c.get("num_key_value_heads", self.heads)
            self.head = c.get("head_dim") or width // self.heads
            epsilon, inner = c.get("rms_norm_eps", 1e-6), c["intermediate_size"]
            self.norm1, self.norm2 = (nn.RMSNorm(width, eps=epsilon) for _ in range(2))
            rows = (self.heads + 2 * self.shared) * self.head
            self.qkv = nn.Linear(width, rows, bias=False)
            self.out = nn.Linear(self.heads * self.head, width, bias=False)
            self.gate_up = nn.Linear(width, 2 * inner, bias=False)
            self.down = nn.Linear(inner, width, bias=False)

        def rotate(self, x, cosine, sine):
            first, second = x.chunk(2, -1)
            turned = torch.cat((-second, first), -1)
            return (x * cosine + turned * sine).to(x.dtype)

        def forward(self, x, cosine, sine):
            heads = self.qkv(self.norm1(x)).unflatten(2, (-1, self.head))
            q, k, v = heads.split((self.heads, self.shared, self.shared), 2)
            q, k = (self.rotate(t, cosine, sine) for t in (q, k))
            x = x + self.out(attend(q, k, v))
            gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)

    class Llama(nn.Module):
        def __init__(self, c, seq_len):
            super().__init__()
            width = c["hidden_size"]
            self.tokens = nn.Embedding(pad(c["vocab_size"]), width)
            self.blocks = nn.ModuleList(LlamaBlock(c) for _ in range(c["num_hidden_layers"]))
            self.norm = nn.RMSNorm(width, eps=c.get("rms_norm_eps", 1e-6))
            self.head = nn.Linear(width, pad(c["vocab_size"]), bias=False)
            if c.get("tie_word_embeddings"):
                self.head.weight = self.tokens.weight
            half, base = self.blocks[0].head // 2, c.get("rope_theta", 10000.0)
            angles = torch.arange(seq_len)[:, None] * base ** (-torch.arange(half) / half)
            angles = torch.cat((angles, angles), -1)[:, None]
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)

        def forward(self, ids, targets):
            x = self.tokens(ids)
            for block in self.blocks:
                x = block(x, self.cosine, self.sine)
            return get_loss(self.head(self.norm(x)), targets)

    return {"gpt2": GPT2, "llama": Llama}


class Trainer:
    """One way to train: how weights are kept, and how it is compiled."""

    def __init__(self, torch, arguments, masters, mode):
        self.torch, self.arguments = torch, arguments
        self.device = torch.device(arguments.device)
        half = {"bf16": torch.bfloat16, "f16": torch.float16}.get(arguments.precision)
        with open(arguments.config) as file:
            config = json.load(file)
        torch.manual_seed(0)
        model = make_models(torch)[config["model_type"]](config, arguments.seq_len)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
        model = model.to(self.device).train()
        self.weights = list(model.parameters())
        self.kept, self.dtype = self.weights, half
        if masters:
            self.kept = [torch.nn.Parameter(w.detach().clone()) for w in self.weights]
            for weight in self.weights:
                weight.data = weight.data.to(half)
            self.dtype = None
        self.optimizer = torch.optim.AdamW(
            self.kept, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
        )
        # What f16 costs, there as here.
        scales = half == torch.float16 and not masters
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scales)
        self.model = model if mode == "eager" else torch.compile(
            model, mode=None if mode == "default" else mode
        )
        self.ids, self.targets = self.read_data()

    def read_data(self):
        """Ids and targets of a step: the bytes of --data in their order, from the
        beginning again where it ends."""
        torch, arguments = self.torch, self.arguments
        with open(arguments.data, "rb") as file:
            text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        shape = (arguments.accumulate, arguments.batch, arguments.seq_len)
        places = torch.arange(math.prod(shape)).reshape(shape)
        return (text[(places + shift) % len(text)].to(self.device) for shift in (0, 1))

    def step(self):
        """One optimizer step; returns the mean loss."""
        torch, losses = self.torch, []
        for ids, targets in zip(self.ids, self.targets):
            with torch.autocast(
                self.device.type, dtype=self.dtype, enabled=self.dtype is not None
            ):
                loss = self.model(ids, targets) / len(self.ids)
            self.scaler.scale(loss).backward()
            losses.append(loss.detach().clone())
        if self.kept is not self.weights:
            for kept, weight in zip(self.kept, self.weights):
                kept.grad = weight.grad.float()
                weight.grad = None
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.kept, 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if self.kept is not self.weights:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.kept)
        return torch.stack(losses).sum()

    def measure(self, steps):
        """Tokens per second, the median over the steps after the warm-up."""
        synchronize = self.torch.cuda.synchronize if self.device.type == "cuda" else lambda: None
        seconds = []
        for _ in range(WARMUP_STEPS + steps):
            synchronize()
            begin = time.perf_counter()
            loss = self.step()
            synchronize()
            seconds.append(time.perf_counter() - begin)
        if not math.isfinite(loss.item()):
            raise ValueError(f"the loss is {loss.item()}")
        return self.ids.numel() / statistics.median(seconds[WARMUP_STEPS:])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, help="config.json of a GPT-2 or Llama")
    parser.add_argument("--batch", type=int, required=True, help="samples of a micro-batch")
    parser.add_argument("--seq-len", type=int, required=True)
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16", "f16"], required=True)
    parser.add_argument("--steps", type=int, default=10, help="timed steps (default: 10)")
    parser.add_argument("--modes", default="default,max-autotune",
                        help="of torch.compile, or eager")  # fmt: skip
    parser.add_argument("--data", required=True, help="text, whose bytes are the ids")
    parser.add_argument("--deadline", type=float, default=600,
                        help="begin no way that would end after so many seconds, as "
                        "long as the longest one before takes")  # fmt: skip
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    begin = time.monotonic()
    try:
        import torch
    except ImportError as error:
        print(f"none {error}")
        return 0
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("none this PyTorch sees no GPU")
        return 0
    torch.set_float32_matmul_precision("high" if arguments.precision == "tf32" else "highest")
    ways = [(False, mode) for mode in arguments.modes.split(",")]
    if arguments.precision == "bf16":
        ways.insert(1, (True, ways[0][1]))
    measured, longest = 0, 0.0
    for masters, mode in ways:
        start = time.monotonic()
        if measured and start - begin + longest > arguments.deadline:
            print("# no time for more ways")
            break
        kept = "16-bit weights, f32 masters" if masters else "autocast"
        if arguments.precision in ("f32", "tf32"):
            kept = arguments.precision
        try:
            rate = Trainer(torch, arguments, masters, mode).measure(arguments.steps)
        except (RuntimeError, ValueError) as error:
            print(f"# {kept}, {mode}: {str(error).splitlines()[0]}", flush=True)
            continue
        measured += 1
        longest = max(longest, time.monotonic() - start)
        print(f"tokens/s {rate:.1f} {kept}, {mode}", flush=True)
        torch.compiler.reset()
        if arguments.device == "cuda":
            torch.cuda.empty_cache()
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
