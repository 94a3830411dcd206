# ===- check_gpu_kernels.py - Is what gpu-kernels.py writes complete? --------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_gpu_kernels.py JSON [LAUNCH]

Checks the file that bench/gpu-kernels.py --json wrote for the model "tiny": every
launch has a known size and time, sums are those of the launches, and there are as
many launches as the model has layers and parameters. Without the launches of the
kernel or product LAUNCH, as if it were not counted, the check has to fail."""

import json
import sys

STEP = ["model", "chip", "microseconds", "floor_microseconds", "micro_step_microseconds",
        "optimizer_microseconds", "launches_in_graphs", "launches_outside_graphs",
        "host_calls", "synchronizations", "torch_launches", "torch_microseconds"]  # fmt: skip
KERNEL = ["grid", "block", "shared_bytes", "blocks_per_sm", "waves", "bytes_moved",
          "executed_instructions"]  # fmt: skip
# Launches of two layers of GPT-2: attention, products (two of the head forward and backward
# for each one forward), neighbouring parameters that decay alike, norms.
EXPECTED = {"attention": 6, "product": 2 * 4 * 3 + 3, "adamw": 19, "norm_grad_gamma": 5}


def check(step, left_out):
    for field in STEP:
        assert step[field] is not None, field
    launches = [row for row in step["launches"] if not left_out or left_out not in row["kernel"]]
    for row in launches:
        name = row["kernel"]
        assert row["count"] > 0 and row["bytes_needed"] > 0, f"{name} has no size"
        assert row["microseconds"] > row["floor_microseconds"] > 0, f"{name} has no time"
        if row["counted_in"] == "the library":
            assert row["flops"] > 0, f"{name} multiplies nothing"
            continue
        for field in KERNEL:
            assert row[field] is not None, f"{name} has no {field}"
        assert row["executed_instructions"] > 0 and row["grid"] > 0, f"{name} does nothing"
        assert row["bytes_moved"] > 0, f"{name} moves nothing"
        assert row["counted_in"] == "PTX" or row["registers"] > 0, f"{name} has no registers"
    for name, expected in EXPECTED.items():
        counted = sum(row["count"] for row in launches if name in row["kernel"])
        assert counted == expected, f"{counted} launches of {name}, expected {expected}"
    parts = {"micro-step": "launches_in_graphs", "optimizer": "launches_outside_graphs"}
    for part, field in parts.items():
        counted = sum(row["count"] for row in launches if row["part"] == part)
        assert counted == step[field], f"{counted} launches of the {part}, not {step[field]}"
    floor = sum(row["count"] * row["floor_microseconds"] for row in launches)
    assert abs(floor - step["floor_microseconds"]) < 1e-6 * floor, "the floor is another sum"
    return len(launches)


def main():
    with open(sys.argv[1]) as file:
        (step,) = json.load(file)["steps"]
    try:
        kinds = check(step, sys.argv[2] if len(sys.argv) > 2 else None)
    except AssertionError as error:
        sys.exit(f"error: {error}")
    print(f"{step['model']} on {step['chip']}: {kinds} kinds of launches are complete")


main()
