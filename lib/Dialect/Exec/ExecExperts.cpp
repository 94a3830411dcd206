//===- ExecExperts.cpp - Mixtures of experts ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/ExecExperts.h"
#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

#define GET_OP_CLASSES
#include "Poplar/Dialect/Exec/ExecExpertOps.cpp.inc"

/// Describes a weight [outputs, inputs], or [inputs, outputs] if not
/// `isTransposed`, or a stack of them.
static PoplarExperts describe(MemRefType inputs, MemRefType outputs,
                              MemRefType experts, OperandRange weights,
                              bool isTransposed) {
  ArrayRef<int64_t> weight =
      cast<MemRefType>(weights.front().getType()).getShape();
  bool isStack = weight.size() == 3;
  PoplarExperts desc = {};
  desc.seq_len = inputs.getDimSize(1);
  desc.num_experts = isStack ? weight.front() : int64_t(weights.size());
  desc.top_k = experts.getDimSize(1) / desc.seq_len;
  weight = weight.take_back(2);
  desc.inputs = weight[isTransposed ? 1 : 0];
  desc.outputs = weight[isTransposed ? 0 : 1];
  desc.type = getPoplarType(inputs.getElementType());
  desc.transposed = isTransposed;
  desc.own_inputs = inputs.getDimSize(2) != desc.inputs;
  desc.own_outputs = outputs.getDimSize(2) != desc.outputs;
  return desc;
}

PoplarExperts ExpertProductOp::getDescriptor() {
  PoplarExperts desc =
      describe(getX().getType(), getResult().getType(), getExperts().getType(),
               getWeights(), getTransB());
  auto weight = cast<MemRefType>(getWeights().front().getType());
  if (nn::isQuantized(weight))
    desc.quantized = getPoplarType(weight.getElementType());
  return desc;
}

PoplarExperts ExpertWeightGradOp::getDescriptor() {
  return describe(getX().getType(), getDy().getType(), getExperts().getType(),
                  getWeights(), /*isTransposed=*/true);
}
