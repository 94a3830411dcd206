//===- DerivedProfiles.cpp - Profiles that nobody measured ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/DerivedProfiles.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace poplar;

std::string poplar::describeSource(const Recomputation &recompute) {
  return "derived: between the profiles of keep and " +
         std::string(toString(recompute.policy));
}

Operation *poplar::addProfile(Operation *last, const DeviceProfile &profile,
                              const ClusterView &cluster, StringRef source) {
  auto module = last->getParentOfType<ModuleOp>();
  auto type = SymbolTable(module).lookup<cluster::DeviceTypeOp>(
      cluster.types[profile.type].name);
  OpBuilder builder(module.getContext());
  builder.setInsertionPointAfter(last);
  auto getInteger = [&](std::optional<int64_t> value) {
    return value ? builder.getI64IntegerAttr(*value) : IntegerAttr();
  };
  auto memory = profile.memory;
  return cluster::ProfileOp::create(
      builder, type.getLoc(), FlatSymbolRefAttr::get(type.getSymNameAttr()),
      builder.getI64IntegerAttr(profile.stage),
      builder.getDenseI64ArrayAttr(profile.microBatches),
      builder.getDenseF64ArrayAttr(profile.seconds),
      profile.spread.empty() ? DenseF64ArrayAttr()
                             : builder.getDenseF64ArrayAttr(profile.spread),
      getInteger(profile.maxMicroBatch),
      memory ? builder.getI64IntegerAttr(memory->fixed) : IntegerAttr(),
      memory ? builder.getI64IntegerAttr(memory->perSample) : IntegerAttr(),
      profile.optimizerSeconds
          ? builder.getF64FloatAttr(*profile.optimizerSeconds)
          : FloatAttr(),
      cluster::getFormatAttr(module.getContext(), profile.precision),
      builder.getStringAttr(toString(profile.recompute)),
      profile.isEstimate ? builder.getUnitAttr() : UnitAttr(),
      profile.model.empty() ? StringAttr()
                            : builder.getStringAttr(profile.model),
      /*machine=*/StringAttr(), /*versions=*/DictionaryAttr(),
      builder.getStringAttr(source));
}
