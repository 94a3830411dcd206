//===- ZeroShardUnits.cpp - A device's part of shared units
//-------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Plan/ModelSharding.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROSHARDUNITS
#include "Poplar/Transforms/Zero/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class ZeroShardUnitsPass
    : public poplar::impl::ZeroShardUnitsBase<ZeroShardUnitsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    zero::ProgramInfo info = zero::ProgramInfo::get(getOperation());
    if (info.sharesUnits() &&
        failed(ModelSharding(getOperation(), info.parts, info.position).run()))
      return signalPassFailure();
    eraseDivided(getOperation());
  }

private:
  /// What others than this program have parts of is nowhere whole.
  static void eraseDivided(ModuleOp module) {
    llvm::StringSet<> divided;
    for (auto parameter : module.getOps<nn::ParameterOp>())
      if (nn::SliceAttr slice = parameter.getSliceAttr())
        divided.insert(slice.getTensor());
    for (auto parameter :
         llvm::make_early_inc_range(module.getOps<nn::ParameterOp>()))
      if (!parameter.getSliceAttr() && divided.contains(parameter.getSymName()))
        parameter.erase();
  }
};

} // namespace
