#!/usr/bin/env python3
# ===- own_op.py - A model with an op of another dialect -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: own_op.py MODEL.MLIR

Doubles the result of the first nn.gelu of a model, by linalg. No configuration says
so: the model's is removed."""

import re
import sys

OWN = """
    %own_zero = arith.constant 0 : index
    %own_batch = tensor.dim {value}, %own_zero : {type}
    %own_empty = tensor.empty(%own_batch) : {type}
    %own = linalg.generic {{indexing_maps = [affine_map<(b, t, d) -> (b, t, d)>,
        affine_map<(b, t, d) -> (b, t, d)>],
        iterator_types = ["parallel", "parallel", "parallel"]}}
        ins({value} : {type}) outs(%own_empty : {type}) {{
      ^bb0(%in: f32, %out: f32):
        %sum = arith.addf %in, %in : f32
        linalg.yield %sum : f32
    }} -> {type}"""


def main():
    with open(sys.argv[1]) as file:
        text = file.read()
    text = re.sub(r' config(_facts)? = "(?:\\.|[^"\\])*",', "", text)
    gelu = re.search(r"(%\w+) = nn\.gelu .* : (tensor<.*>)", text)
    end = text.index("return", gelu.end())
    rest = re.sub(gelu[1] + r"\b", "%own", text[gelu.end() : end])
    own = OWN.format(value=gelu[1], type=gelu[2])
    with open(sys.argv[1], "w") as file:
        file.write(text[: gelu.end()] + own + rest + text[end:])


if __name__ == "__main__":
    main()
