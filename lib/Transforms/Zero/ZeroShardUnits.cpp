//===- ZeroShardUnits.cpp - A device's part of shared units ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Transforms/Plan/ModelSharding.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "llvm/ADT/StringMap.h"

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
    ModuleOp module = getOperation();
    zero::ProgramInfo info = zero::ProgramInfo::get(module);
    parts.clear();
    for (auto parameter : module.getOps<nn::ParameterOp>())
      if (nn::SliceAttr slice = parameter.getSliceAttr())
        parts[slice.getTensor()].push_back(parameter);
    ModelSharding sharding(module, info.parts, info.position);
    if ((info.sharesUnits() && failed(sharding.run())) ||
        failed(takeParts(sharding)))
      return signalPassFailure();
    eraseDivided();
  }

private:
  LogicalResult takeParts(const ModelSharding &sharding);
  LogicalResult takeParts(nn::GetParameterOp get,
                          const nn::ParameterShare &share);
  void eraseDivided();

  /// The parts of parameters that devices divide, in order.
  llvm::StringMap<SmallVector<nn::ParameterOp>> parts;
};

} // namespace

/// @model reads a divided parameter as the part that the device holds, or as
/// the parts.
LogicalResult ZeroShardUnitsPass::takeParts(const ModelSharding &sharding) {
  auto model = nn::findEntry<func::FuncOp>(getOperation(), nn::Entry::Model);
  if (parts.empty() || !model || model.isExternal())
    return success();
  for (auto get : model.getOps<nn::GetParameterOp>())
    if (parts.contains(get.getParameter()) &&
        failed(takeParts(get, sharding.getShare(get))))
      return failure();
  return success();
}

LogicalResult ZeroShardUnitsPass::takeParts(nn::GetParameterOp get,
                                            const nn::ParameterShare &share) {
  ArrayRef<nn::ParameterOp> all = parts[get.getParameter()];
  nn::SliceAttr first = nn::ParameterOp(all.front()).getSliceAttr();
  SmallVector<int64_t> ranges;
  for (auto [begin, end] : share.ranges)
    ranges.append({begin, end});
  if (share.kind != nn::ParameterShare::Slice)
    ranges = {0, first.getShape().front()};
  SmallVector<Attribute> held;
  for (nn::ParameterOp part : all) {
    nn::SliceAttr slice = part.getSliceAttr();
    if (slice.getRanges() == ArrayRef(ranges)) {
      get.setParameter(part.getSymName());
      return success();
    }
    if (slice.getRanges().front() >= ranges.front() &&
        slice.getRanges().back() <= ranges.back())
      held.push_back(FlatSymbolRefAttr::get(part.getSymNameAttr()));
  }
  auto whole =
      getOperation().lookupSymbol<nn::ParameterOp>(get.getParameterAttr());
  if (held.size() < 2)
    return get.emitOpError("reads rows or columns [")
           << ArrayRef(ranges) << "], but no parameters with such slices of "
           << get.getParameterAttr() << " are there";
  whole.setType(cast<RankedTensorType>(whole.getType())
                    .clone(get.getValue().getType().getShape()));
  whole.setSliceAttr(nn::SliceAttr::get(&getContext(), first.getTensor(),
                                        first.getShape(), first.getDim(),
                                        ranges));
  whole->setAttr(zero::kPartsAttr, ArrayAttr::get(&getContext(), held));
  return success();
}

/// What others than this program have parts of is nowhere whole.
void ZeroShardUnitsPass::eraseDivided() {
  for (auto parameter :
       llvm::make_early_inc_range(getOperation().getOps<nn::ParameterOp>()))
    if (!parameter.getSliceAttr() && parts.contains(parameter.getSymName()))
      parameter.erase();
}
