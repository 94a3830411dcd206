# ===- gpu_peaks.py - The highest FLOP/s and GB/s of a GPU ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The highest dense FLOP/s of a GPU, from what its driver says of it:

  multiprocessors x clock x FLOPs of a multiprocessor in a cycle

A driver's name for a GPU ("NVIDIA H100 80GB HBM3") is no key: makers and boards
vary. The name decides one thing, whether tensor cores are halved when they sum
in f32, as on GeForce cards. Tensor cores of some boards do not reach the clock
that the driver reports: for these, CLOCKS has the one of the maker's data sheet.

Run as a program, it compares with published figures."""

# FLOPs per multiprocessor and cycle by compute capability: tensor cores with
# 16-bit operands and sums in f32, and vector units in f32.
TENSOR = {70: 1024, 75: 1024, 80: 2048, 86: 1024, 87: 1024, 89: 1024,
          90: 4096, 100: 8192, 103: 8192, 120: 1024, 121: 1024}  # fmt: skip
VECTOR = {70: 128, 75: 128, 80: 128}
VECTOR_LATER = 256

# (capability, multiprocessors, MHz by the driver): MHz of the data sheet's
# figure for tensor cores.
CLOCKS = {
    (90, 132, 1980): 1830,  # H100 SXM, H200, GH200: 989 TFLOP/s
    (90, 132, 1785): 1545,  # H100 NVL: 835
    (90, 114, 1755): 1620,  # H100 PCIe: 756
    (100, 148, 1965): 1856,  # B200: 2,250
}


def peak_flops(capability, multiprocessors, clock_khz, name, precision):
    """FLOP/s in "bf16", "f16", "tf32" or "f32"; None if the GPU's generation
    is not known, or has no such format."""
    mhz = clock_khz / 1000
    if precision == "f32":
        return multiprocessors * mhz * 1e6 * VECTOR.get(capability, VECTOR_LATER)
    per_cycle = TENSOR.get(capability)
    if per_cycle is None or (precision in ("bf16", "tf32") and capability < 80):
        return None
    mhz = CLOCKS.get((capability, multiprocessors, round(mhz)), mhz)
    if "geforce" in name.lower() or "titan rtx" in name.lower():
        per_cycle //= 2
    if precision == "tf32":
        # Half of the rate of 16-bit operands on every generation.
        per_cycle //= 2
    return multiprocessors * mhz * 1e6 * per_cycle


def peak_bandwidth(memory_khz, memory_bits):
    """Bytes per second between a GPU and its memory: two transfers a cycle."""
    return 2 * memory_khz * 1e3 * memory_bits / 8


# Name by the driver, kHz and bits of its memory by the driver, GB/s by the data
# sheet.
PUBLISHED_MEMORY = [
    ("Tesla V100-SXM2-16GB", 877000, 4096, 900),
    ("Tesla T4", 5001000, 256, 320),
    ("NVIDIA A100-SXM4-80GB", 1593000, 5120, 2039),
    ("NVIDIA L4", 6251000, 192, 300),
    ("NVIDIA GeForce RTX 3090", 9751000, 384, 936),
    ("NVIDIA GeForce RTX 4090", 10501000, 384, 1008),
    ("NVIDIA H100 80GB HBM3", 2619000, 5120, 3350),
    ("NVIDIA H100 PCIe", 1593000, 5120, 2000),
]

# Name by the driver, capability, multiprocessors, kHz by the driver, format,
# TFLOP/s by the data sheet (dense, sums in f32).
PUBLISHED = [
    ("Tesla V100-SXM2-16GB", 70, 80, 1530000, "f16", 125),
    ("Tesla V100-PCIE-16GB", 70, 80, 1380000, "f16", 112),
    ("Tesla T4", 75, 40, 1590000, "f16", 65),
    ("NVIDIA A100-SXM4-80GB", 80, 108, 1410000, "bf16", 312),
    ("NVIDIA A100-SXM4-80GB", 80, 108, 1410000, "tf32", 156),
    ("NVIDIA A100-SXM4-80GB", 80, 108, 1410000, "f32", 19.5),
    ("NVIDIA A30", 80, 56, 1440000, "bf16", 165),
    ("NVIDIA A10", 86, 72, 1695000, "bf16", 125),
    ("NVIDIA RTX A6000", 86, 84, 1800000, "bf16", 154.8),
    ("NVIDIA GeForce RTX 3090", 86, 82, 1695000, "bf16", 71),
    ("NVIDIA L4", 89, 58, 2040000, "bf16", 121),
    ("NVIDIA L40S", 89, 142, 2520000, "bf16", 362),
    ("NVIDIA GeForce RTX 4090", 89, 128, 2520000, "bf16", 165.2),
    ("NVIDIA GeForce RTX 4090", 89, 128, 2520000, "f32", 82.6),
    ("NVIDIA H100 80GB HBM3", 90, 132, 1980000, "bf16", 989.4),
    ("NVIDIA H100 80GB HBM3", 90, 132, 1980000, "tf32", 494.7),
    ("NVIDIA H100 80GB HBM3", 90, 132, 1980000, "f32", 66.9),
    ("NVIDIA H100 NVL", 90, 132, 1785000, "bf16", 835),
    ("NVIDIA H100 PCIe", 90, 114, 1755000, "bf16", 756),
    ("NVIDIA H200", 90, 132, 1980000, "bf16", 989.4),
    ("NVIDIA GH200 480GB", 90, 132, 1980000, "bf16", 989.4),
    ("NVIDIA B200", 100, 148, 1965000, "bf16", 2250),
    ("NVIDIA GeForce RTX 5090", 120, 170, 2407000, "bf16", 209.5),
]


def compare():
    worst = 0.0
    for name, capability, processors, khz, precision, published in PUBLISHED:
        ours = peak_flops(capability, processors, khz, name, precision) / 1e12
        error = abs(ours / published - 1)
        worst = max(worst, error)
        print(f"{name:<26} {precision:<5} {ours:7.1f} TFLOP/s, published {published:g}")
        assert error < 0.03, "not what is published"
    for name, khz, bits, published in PUBLISHED_MEMORY:
        ours = peak_bandwidth(khz, bits) / 1e9
        print(f"{name:<26} {ours:7.0f} GB/s, published {published:g}")
        assert abs(ours / published - 1) < 0.03, "not what is published"
    assert peak_flops(75, 40, 1590000, "Tesla T4", "bf16") is None
    assert peak_flops(999, 40, 1590000, "NVIDIA Z1", "bf16") is None
    print(f"all within {100 * worst:.1f} % of {len(PUBLISHED)} published figures")


if __name__ == "__main__":
    compare()
