//===- EstimateProfiles.cpp - Curves of devices that are not at hand -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Simulation/Passes.h"
#include "ProgramCosts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

namespace poplar {
#define GEN_PASS_DEF_ESTIMATEPROFILES
#include "Poplar/Simulation/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// A curve ends here, where launches no longer matter, or where memory does.
static constexpr int64_t largestMicroBatch = 1024;

namespace {

class EstimateProfilesPass
    : public poplar::impl::EstimateProfilesBase<EstimateProfilesPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult estimate(const ClusterView &cluster, int type);
  FailureOr<const ProgramCosts *> getCosts(const DeviceType &type);

  std::string fingerprint;
  /// Device types whose programs are alike share their costs.
  std::map<std::vector<std::string>, ProgramCosts> known;
};

} // namespace

FailureOr<const ProgramCosts *>
EstimateProfilesPass::getCosts(const DeviceType &type) {
  ProgramChoice choice(type);
  std::vector<std::string> key = choice.getKey();
  auto entry = known.find(key);
  if (entry == known.end()) {
    FailureOr<ProgramCosts> costs = getProgramCosts(getOperation(), choice);
    if (failed(costs))
      return failure();
    entry = known.emplace(key, std::move(*costs)).first;
  }
  return &entry->second;
}

LogicalResult EstimateProfilesPass::estimate(const ClusterView &cluster,
                                             int index) {
  const DeviceType &type = cluster.types[index];
  SmallVector<int64_t> stages;
  for (int stage = 0; stage < 4; ++stage)
    if (!cluster.findProfile(index, stage, fingerprint))
      stages.push_back(stage);
  std::optional<Roofline> roofline = Roofline::get(type);
  if (stages.empty() || !roofline)
    return success();
  FailureOr<const ProgramCosts *> found = getCosts(type);
  if (failed(found))
    return failure();
  const ProgramCosts &costs = **found;

  int64_t fitting = type.memory / std::max<int64_t>(costs.bytesPerSample, 1),
          largest = std::min(fitting, largestMicroBatch);
  SmallVector<int64_t> batches;
  for (int64_t batch = 1; batch < largest; batch *= 2)
    batches.push_back(batch);
  if (largest > 0)
    batches.push_back(largest);
  SmallVector<double> seconds;
  for (int64_t batch : batches)
    seconds.push_back(roofline->getSeconds(costs.ops, batch));

  ModuleOp module = getOperation();
  auto op = SymbolTable(module).lookup<cluster::DeviceTypeOp>(type.name);
  Operation *last = nullptr;
  for (Operation &other : *module.getBody())
    if (isa_and_present<cluster::ClusterDialect>(other.getDialect()))
      last = &other;
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(last);
  SmallVector<double> spread(batches.size(),
                             roofline->getConstants().uncertainty);
  std::string source =
      llvm::formatv("estimate: roofline of {0:e3} FLOP/s of {1} and {2:e3} B/s",
                    type.flops.at(type.getWorkingFormat()),
                    type.getWorkingFormat(), *type.bandwidth);
  for (int64_t stage : stages)
    cluster::ProfileOp::create(
        builder, op.getLoc(), FlatSymbolRefAttr::get(op.getSymNameAttr()),
        builder.getI64IntegerAttr(stage), builder.getDenseI64ArrayAttr(batches),
        builder.getDenseF64ArrayAttr(seconds),
        builder.getDenseF64ArrayAttr(spread),
        // Of one point, only where there is no second.
        fitting < 2 ? builder.getI64IntegerAttr(fitting) : IntegerAttr(),
        builder.getI64IntegerAttr(costs.fixedBytes),
        builder.getI64IntegerAttr(costs.bytesPerSample),
        builder.getF64FloatAttr(roofline->getOptimizerSeconds(costs.trained)),
        op.getPrecisionAttr(), op.getRecomputeAttr(), builder.getUnitAttr(),
        fingerprint.empty() ? StringAttr() : builder.getStringAttr(fingerprint),
        /*machine=*/StringAttr(), /*versions=*/DictionaryAttr(),
        builder.getStringAttr(source));
  return success();
}

void EstimateProfilesPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto model = module.lookupSymbol<func::FuncOp>("model");
  if (!model || model.isExternal()) {
    module.emitError("has no function @model whose steps to estimate");
    return signalPassFailure();
  }
  if (module.getOps<zero::BucketOp>().empty()) {
    module.emitError("has no zero.bucket: run --zero-form-buckets first");
    return signalPassFailure();
  }
  known.clear();
  fingerprint = nn::getFingerprint(module);
  ClusterView cluster = cluster::buildClusterView(module);
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type)
    if (counts[type] && failed(estimate(cluster, static_cast<int>(type))))
      return signalPassFailure();
}
