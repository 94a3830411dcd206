//===- NNModes.cpp - Number formats and evaluation of nn ops --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar::nn;

//===----------------------------------------------------------------------===//
// PrecisionOpInterface
//===----------------------------------------------------------------------===//

void GetParameterOp::convertPrecision(FloatType format) {
  auto type = cast<RankedTensorType>(getValue().getType());
  if (!isQuantized(type))
    getValue().setType(type.clone(format));
}

// It is there for its type.
void CastOp::convertPrecision(FloatType) {}

// A loss is f32.
void CrossEntropyOp::convertPrecision(FloatType) {}

//===----------------------------------------------------------------------===//
// RandomOpInterface
//===----------------------------------------------------------------------===//

bool DropoutOp::isRandom() { return true; }

void DropoutOp::removeRandomness() {
  getResult().replaceAllUsesWith(getX());
  erase();
}

bool NoiseOp::isRandom() { return true; }

void NoiseOp::removeRandomness() {
  getResult().replaceAllUsesWith(getX());
  erase();
}

bool AttentionOp::isRandom() { return static_cast<bool>(getKeys()); }

void AttentionOp::removeRandomness() {
  getKeysMutable().clear();
  setDropout(APFloat(0.0));
  setOpId(0);
}
