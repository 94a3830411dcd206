//===- ZeroPlan.cpp - Plans, groups and buckets as ops --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/Zero.h"
#include "ZeroVerifiers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

SmallVector<RankOp, 0> PlanOp::getRanks() {
  return llvm::to_vector<0>(getBody().getOps<RankOp>());
}

SmallVector<GroupOp, 0> PlanOp::getGroups() {
  return llvm::to_vector<0>(getBody().getOps<GroupOp>());
}

bool GroupOp::owns(int64_t unit) {
  for (int64_t chunk = 0; chunk < getNumChunks(); ++chunk)
    if (getFirst(chunk) <= unit && unit < getEnd(chunk))
      return true;
  return false;
}

int64_t GroupOp::getLargestTensorDegree() {
  return *llvm::max_element(getTensor());
}

SmallVector<int64_t> GroupOp::getPartsOfRanks() {
  if (getParts())
    return SmallVector<int64_t>(*getParts());
  return SmallVector<int64_t>(getLargestTensorDegree(), 1);
}

bool BucketOp::isUsedBy(int64_t group, int64_t position) {
  std::optional<ArrayRef<int64_t>> groups = getGroups(),
                                   positions = getPositions();
  if (!groups)
    return true;
  for (size_t i = 0; i < groups->size(); ++i)
    if ((*groups)[i] == group && (!positions || (*positions)[i] == position))
      return true;
  return false;
}

Type BucketOp::getStorageType(Type working) {
  return getQuantized()
             ? IntegerType::get(getContext(), 8, IntegerType::Unsigned)
             : working;
}
