//===- StagePlan.cpp - A plan of pipeline stages --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Plan/StagePlan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;

std::vector<RankShare> poplar::sharePipelines(int64_t samples,
                                              int64_t pipelines,
                                              int64_t microBatch,
                                              bool sameSteps) {
  std::vector<RankShare> shares;
  int64_t most = llvm::divideCeil(samples, pipelines);
  for (int64_t i = 0; i < pipelines; ++i) {
    int64_t own = samples * (i + 1) / pipelines - samples * i / pipelines;
    int64_t steps = std::max<int64_t>(
        1, llvm::divideCeil(sameSteps ? most : own, microBatch));
    int64_t size = std::min(microBatch, own);
    // The last step has what is left, which is not less than nothing.
    while ((steps - 1) * size > own)
      --size;
    shares.push_back({size, steps, own - (steps - 1) * size});
  }
  return shares;
}

/// One for all pipelines if they are equal.
static SmallVector<int64_t> getTensorDegrees(const StagePlan::Group &group) {
  SmallVector<int64_t> degrees;
  for (const std::vector<int> &members : group.ranks)
    degrees.push_back(int64_t(members.size()));
  if (llvm::all_equal(degrees))
    degrees.truncate(1);
  return degrees;
}

zero::PlanOp poplar::addStagePlan(ModuleOp module, const ClusterView &cluster,
                                  const StagePlan &plan) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  int64_t samples = 0, stage = 0;
  for (const RankShare &share : plan.shares)
    samples += (share.steps - 1) * share.microBatch + share.last;
  for (const StagePlan::Group &group : plan.groups)
    stage = std::max(stage, group.zeroStage);
  bool isPipeline = plan.groups.size() > 1;
  bool isStaged =
      isPipeline || getTensorDegrees(plan.groups.front()).front() > 1;
  auto op = zero::PlanOp::create(
      builder, loc, uint64_t(stage), uint64_t(samples), plan.policy,
      isPipeline ? builder.getStringAttr(toString(plan.schedule)) : nullptr);
  builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
  for (const StagePlan::Group &group : plan.groups)
    if (isStaged)
      zero::GroupOp::create(builder, loc, group.units,
                            uint64_t(group.zeroStage), getTensorDegrees(group),
                            group.parts.empty()
                                ? nullptr
                                : builder.getDenseI64ArrayAttr(group.parts));
  auto integer = [&](int64_t value) {
    return builder.getI64IntegerAttr(value);
  };
  for (auto [index, group] : llvm::enumerate(plan.groups))
    for (auto [pipeline, members] : llvm::enumerate(group.ranks))
      for (int number : members) {
        const ClusterRank &rank = cluster.ranks[number];
        const DeviceType &type = cluster.types[rank.type];
        const RankShare &share = plan.shares[pipeline];
        StringAttr recompute;
        if (!group.recompute.empty() &&
            group.recompute[pipeline] != type.recompute)
          recompute = builder.getStringAttr(group.recompute[pipeline]);
        zero::RankOp::create(
            builder, loc, SymbolRefAttr::get(module.getContext(), type.name),
            builder.getStringAttr(cluster.nodes[rank.node].name),
            integer(share.microBatch), integer(share.steps),
            integer(share.last), integer(type.threads.value_or(1)),
            builder.getF64FloatAttr(1), integer(index), nullptr, nullptr,
            recompute);
      }
  return op;
}
