//===- ExecRecurrent.cpp - Linear attention on buffers --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/ExecRecurrent.h"

using namespace mlir;
using namespace poplar::exec;

#define GET_OP_CLASSES
#include "Poplar/Dialect/Exec/ExecRecurrentOps.cpp.inc"

static MemRefType getMemRef(Value buffer) {
  return cast<MemRefType>(buffer.getType());
}

static int32_t getTokens(Value positions, Value cache) {
  if (cache)
    return POPLAR_NEW_TOKENS;
  return positions ? POPLAR_DOCUMENTS : POPLAR_ONE_DOCUMENT;
}

static PoplarCausalConv describeConv(Value x, Value weight, Value positions,
                                     Value cache) {
  PoplarCausalConv desc = {};
  desc.seq_len = getMemRef(x).getDimSize(1);
  desc.channels = getMemRef(x).getDimSize(2);
  desc.width = getMemRef(weight).getDimSize(2);
  desc.type = getPoplarType(getMemRef(x).getElementType());
  desc.tokens = getTokens(positions, cache);
  return desc;
}

PoplarCausalConv CausalConvOp::getDescriptor() {
  return describeConv(getX(), getWeight(), getPositions(), getCache());
}
PoplarCausalConv CausalConvGradOp::getDescriptor() {
  return describeConv(getDy(), getWeight(), getPositions(), {});
}
PoplarCausalConv CausalConvGradWeightOp::getDescriptor() {
  return describeConv(getX(), getAcc(), getPositions(), {});
}

template <typename Op>
static PoplarGatedDelta describeDelta(Op op, Value out, Value state) {
  MemRefType x = getMemRef(op.getX());
  int64_t values = getMemRef(out).getDimSize(2);
  PoplarGatedDelta desc = {};
  desc.seq_len = x.getDimSize(1);
  desc.key_heads = static_cast<int64_t>(op.getKeyHeads());
  desc.value_heads = static_cast<int64_t>(op.getValueHeads());
  desc.key_dim = (x.getDimSize(2) - values) / (2 * desc.key_heads);
  desc.value_dim = values / desc.value_heads;
  desc.type = getPoplarType(x.getElementType());
  desc.tokens = getTokens(op.getPositions(), state);
  return desc;
}

PoplarGatedDelta GatedDeltaOp::getDescriptor() {
  return describeDelta(*this, getResult(), getState());
}
PoplarGatedDelta GatedDeltaGradOp::getDescriptor() {
  return describeDelta(*this, getDy(), {});
}
