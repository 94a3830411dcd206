# ===- gpu_model.py - Estimated times of launches on a GPU ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A stated model of how long a kernel or a matrix product takes. Nothing here was
measured on this project's code; CONSTANTS and CHIPS say where each number is from.

A kernel takes the largest of these, and the gap between launches:

  memory    bytes needed / measured bandwidth
  cache     bytes moved / bandwidth of the L2 cache
  issue     instructions of all warps / what the schedulers issue, for full waves
  tensors   products of tensor core instructions / their rate
  latency   reads of a thread that follow each other x latency x waves; what is read
            again comes from the L2 cache

A product takes the least, over the library's tile sizes and splits of the sum, of the
time of its waves of tiles, and at least that of its bytes."""

import math
from collections import namedtuple

# Bytes are needed once: each element of an operand or a result. What a kernel asks
# for, with what it reads again, is moved.
Work = namedtuple("Work", "grid threads instructions rounds matrix bytes_needed bytes_moved flops")

# Cycles, seconds and shares that do not differ by chip.
CONSTANTS = {
    "issue": (0.6, "instructions a scheduler issues in a cycle; 0.5 to 0.7 in profiles of "
                   "attention and of row kernels that ptxas made: assumed"),
    "latency": (800, "cycles of a read that misses the L2 cache under load: 470 to 700 without "
                     "(Luo et al., Dissecting the NVIDIA Hopper Architecture, 2024), and queues"),
    "l2_latency": (300, "cycles of a read that hits it: 260 to 280 (the same), and queues"),
    "l2": (28, "bytes an SM reads from the L2 cache in a cycle: 5.5 to 5.7 TB/s by 114 SMs at "
               "1.755 GHz (Chips and Cheese, Nvidia's H100, 2023)"),
    "gap": (1.5e-6, "seconds between kernels of a graph (NVIDIA, Constant Time Launch for "
                    "Straight-Line CUDA Graphs, 2024: 1.3 to 1.6)"),
    "launch": (4e-6, "seconds of a launch outside graphs (the same: 2.5 to 5, with the call)"),
    "synchronize": (1e-5, "seconds in which the GPU waits when the host waits for it and goes "
                          "on: assumed"),
    "attention": (0.6, "share of the products' rate that a library's attention reaches, both "
                       "ways (FlashAttention-2 and -3, 2023 and 2024: 0.5 to 0.75)"),
    "unaligned": (0.19, "share of the products' rate with rows that are aligned to 2 bytes: "
                        "cuBLASLt 13 has kernels for them that are Turing's (names in the "
                        "library), at 130 to 190 of 798 TFLOP/s: assumed"),
    "unaligned4": (0.5, "the same with rows aligned to 4 or 8 bytes: assumed"),
    "bias_gradient": (0.63, "share with the gradient of a bias as epilogue on sm_90 and newer: "
                            "the library has it in kernels of sm_80 (names in the library)"),
}  # fmt: skip


def constant(name):
    return CONSTANTS[name][0]


class Chip:
    """`peak` and `bandwidth` are of the maker's data sheet, `product` and `copy` the
    shares of them that were measured, `mma` the share of `product` that mma.sync
    reaches, `clock` in Hz under load. The rest is in NVIDIA's CUDA C++ Programming
    Guide, "Technical Specifications per Compute Capability"."""

    def __init__(self, device, processors, clock, peak, product, bandwidth, copy, mma,
                 warps, blocks, shared, source):  # fmt: skip
        self.device, self.processors, self.clock = device, processors, clock
        self.peak = peak
        self.products, self.bandwidth = peak * product, bandwidth * copy
        self.mma = self.products * mma
        self.warps, self.blocks, self.shared = warps, blocks, shared
        self.source = source

    def blocks_per_processor(self, threads, registers, shared):
        """As the CUDA occupancy calculator: registers are given to a warp in units of
        256; from sm_80 on, a block has 1 KiB of shared memory of its own, which is
        counted on older chips, too."""
        warps = -(-threads // 32)
        most = min(self.blocks, self.warps // warps)
        if registers:
            most = min(most, 65536 // (-(-registers // 8) * 256) // warps)
        return max(1, min(most, self.shared // (shared + 1024)))


K = 1024
# Products are those of bench/measurements.json, copies of the source that is named.
CHIPS = {
    "sm_75": Chip("T4", 40, 1.2e9, 65e12, 0.64, 320e9, 0.75, 1, 32, 16, 64 * K,
                  "copy: Jia et al., Dissecting the NVidia Turing T4 GPU, 2019; clock at 70 W"),
    "sm_80": Chip("A100 80 GB", 108, 1.41e9, 312e12, 0.86, 2039e9, 0.88, 1, 64, 32, 164 * K,
                  "copy: BabelStream on A100, 1.79 TB/s"),
    "sm_86": Chip("RTX 3090", 82, 1.8e9, 71e12, 1.07, 936e9, 0.92, 1, 48, 16, 100 * K,
                  "copy: BabelStream on GA102; clock is the boost that measured products need"),
    "sm_89": Chip("RTX 4090", 128, 2.6e9, 165.2e12, 1.04, 1008e9, 0.92, 1, 48, 24, 100 * K,
                  "as sm_86"),
    "sm_90": Chip("H100 SXM", 132, 1.755e9, 989.4e12, 0.807, 3350e9, 0.87, 0.63, 64, 32, 228 * K,
                  "copy: BabelStream on H100, 2.9 TB/s; mma: Luo et al., 2024, 62 % of wgmma"),
    "sm_100": Chip("B200", 148, 1.85e9, 2250e12, 0.77, 8000e9, 0.9, 0.3, 64, 32, 228 * K,
                   "copy and mma are assumed: tcgen05 has twice the rate of wgmma, mma.sync not"),
    "sm_120": Chip("RTX 5090", 170, 2.5e9, 209.5e12, 1.04, 1792e9, 0.92, 1, 48, 24, 100 * K,
                   "as sm_89"),
}  # fmt: skip

# FLOPs of mma.m16n8k16.
MATRIX_FLOPS = 2 * 16 * 8 * 16

# Tiles of a library's product kernels, and the share of the rate that each reaches when
# all SMs have one: smaller tiles read more for each product.
TILES = [(128, 256, 1.0), (128, 192, 0.97), (128, 128, 0.9), (64, 256, 0.85), (64, 128, 0.7),
         (64, 64, 0.5), (32, 128, 0.35), (16, 128, 0.2)]  # fmt: skip
SPLITS = (1, 2, 3, 4, 6, 8, 16)
# Depth of the sum that filling and draining a tile's pipeline costs.
PIPELINE_DEPTH = 256


def kernel_seconds(chip, work, resident):
    """Without the gap. `resident` blocks run on each SM at a time."""
    slots = chip.processors * resident
    waves = max(1, math.ceil(work.grid / slots))
    warps = -(-work.threads // 32)
    # In the last wave, SMs with few blocks issue for these alone.
    used = min(1, work.grid / (waves * slots))
    schedulers = 4 * chip.processors * constant("issue") * min(1, resident * warps / 8)
    issue = work.grid * warps * work.instructions / schedulers / used / chip.clock
    tensors = work.grid * warps * work.matrix * MATRIX_FLOPS / chip.mma / used
    again = max(0, 1 - work.bytes_needed / max(1, work.bytes_moved))
    cycles = constant("latency") * (1 - again) + constant("l2_latency") * again
    latency = work.rounds * cycles * waves / chip.clock
    l2 = work.bytes_moved / (chip.processors * constant("l2") * chip.clock)
    return max(work.bytes_needed / chip.bandwidth, l2, issue, tensors, latency)


def product_bytes(m, n, k, widths, accumulates, epilogue_matrix):
    results = 1 + accumulates + epilogue_matrix
    return m * k * widths[0] + k * n * widths[1] + results * m * n * widths[2]


def product_seconds(chip, capability, m, n, k, size, aligned, bias_gradient):
    """Without the gap. `aligned` are the bytes to which all rows are."""
    share = 1.0
    if aligned < 16:
        share = constant("unaligned" if aligned < 4 else "unaligned4")
    elif bias_gradient and capability >= 90:
        share = constant("bias_gradient")
    rate = chip.products * share / chip.processors
    best = math.inf
    for tall, wide, reached in TILES + [(w, t, r) for t, w, r in TILES if t != w]:
        tiles = math.ceil(m / tall) * math.ceil(n / wide)
        for split in SPLITS:
            if split > 1 and k / split < PIPELINE_DEPTH:
                break
            waves = math.ceil(tiles * split / chip.processors)
            seconds = waves * (k / split + PIPELINE_DEPTH) * 2 * tall * wide / (rate * reached)
            if split > 1:
                # Partial sums in f32 are written and read, mostly in the cache.
                seconds += 4 * m * n * split / chip.bandwidth + 2e-6
            best = min(best, seconds)
    return max(best, size / chip.bandwidth)


def floor_seconds(chip, work, is_attention):
    """Work at measured rates, without gaps, latencies or waves."""
    rate = chip.products * (constant("attention") if is_attention else 1)
    return max(work.flops / rate, work.bytes_needed / chip.bandwidth)


# What Inductor makes of the same models (PyTorch 2.x, default mode, dropout off), by
# its rules of fusion: pointwise ops join the reduction before or after them; a
# reduction over rows and one over columns are kernels of their own; products,
# attention and AdamW (foreach) are the library's. For each layer: products forward and
# backward, attention kernels, then generated kernels with the tensors of [tokens,
# width] that each reads and writes, width being "hidden" or "inner".
TORCH = {
    "gpt2": {
        "products": 12,
        "attention": 4,
        "kernels": [
            ("add, layer_norm", 2, 4, "hidden"),
            ("gelu", 1, 2, "inner"),
            ("gelu backward, bias gradient", 1, 3, "inner"),
            ("layer_norm backward, add", 2, 4, "hidden"),
            ("weight and bias gradients of layer_norm", 2, 2, "hidden"),
            ("bias gradients", 3, 1, "hidden"),
            ("copies for attention's layout", 2, 6, "hidden"),
        ],
    },
    "llama": {
        "products": 21,
        "attention": 4,
        "kernels": [
            ("add, rms_norm", 2, 4, "hidden"),
            ("rotary embeddings and transposes", 2, 3, "hidden"),
            ("silu, mul", 1, 3, "inner"),
            ("silu, mul backward", 1, 5, "inner"),
            ("rms_norm backward, add", 2, 4, "hidden"),
            ("weight gradients of rms_norm", 2, 2, "hidden"),
            ("rotary embeddings backward", 2, 3, "hidden"),
        ],
    },
}
# Once in a micro-step: embedding forward and backward, loss forward and backward with
# two passes over the logits each, the last norm.
TORCH_ONCE = 8
# Launches of the optimizer: clip_grad_norm_ and fused AdamW on lists of tensors.
TORCH_OPTIMIZER = 12


def torch_step(chip, family, layers, tokens, widths, vocabulary, product_floor, parameters):
    """(launches, seconds) of a micro-step and the optimizer under torch.compile.
    `product_floor` are the seconds of products and attention at measured rates."""
    made = TORCH[family]
    seconds, launches = product_floor, layers * (made["products"] + made["attention"]) + 3
    for _, count, tensors, width in made["kernels"]:
        launches += layers * count
        seconds += layers * count * tensors * 2 * tokens * widths[width] / chip.bandwidth
    seconds += 4 * 2 * tokens * vocabulary / chip.bandwidth
    # Gradient, master and two moments in f32, weights in 16 bits.
    seconds += (4 * 4 + 3 * 4 + 2) * parameters / chip.bandwidth
    launches += TORCH_ONCE + TORCH_OPTIMIZER
    return launches, seconds + launches * constant("launch") / 2
