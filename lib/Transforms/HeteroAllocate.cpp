//===- HeteroAllocate.cpp - Give every rank its batch ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/BatchPolicy.h"
#include "Poplar/Planner/ZeroProblem.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_HETEROALLOCATE
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// A stage with its best allocation.
struct Choice {
  int stage;
  std::vector<double> state;
  Allocation allocation;
};

class HeteroAllocatePass
    : public poplar::impl::HeteroAllocateBase<HeteroAllocatePass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  std::optional<Choice> solve(const BatchPolicy &algorithm, int stage,
                              std::string &error);
  void addPlan(const Choice &choice);

  ClusterView cluster;
  ModelFacts model;
};

} // namespace

std::optional<Choice> HeteroAllocatePass::solve(const BatchPolicy &algorithm,
                                                int stage, std::string &error) {
  Choice choice;
  choice.stage = stage;
  choice.state.assign(cluster.ranks.size(), 1.0);
  if (state == "memory") {
    auto shares = shareStateByMemory(cluster, model, stage, error);
    if (!shares)
      return std::nullopt;
    choice.state = std::move(*shares);
  }
  std::optional<BatchProblem> problem = makeBatchProblem(
      cluster, model, stage, globalBatch, choice.state, error);
  if (!problem)
    return std::nullopt;
  std::optional<Allocation> allocation = algorithm.solve(*problem, error);
  if (!allocation)
    return std::nullopt;
  choice.allocation = std::move(*allocation);
  return choice;
}

void HeteroAllocatePass::addPlan(const Choice &choice) {
  ModuleOp module = getOperation();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto plan = zero::PlanOp::create(
      builder, module.getLoc(), uint64_t(choice.stage), uint64_t(globalBatch),
      builder.getStringAttr(choice.allocation.policy));
  plan->setAttr("predicted_seconds",
                builder.getF64FloatAttr(choice.allocation.seconds));
  builder.setInsertionPointToStart(&plan.getBody().emplaceBlock());

  std::vector<int64_t> seen(cluster.types.size());
  for (auto [index, rank] : llvm::enumerate(cluster.ranks)) {
    const Allocation::TypeShares &shares = choice.allocation.types[rank.type];
    int64_t device = seen[rank.type]++;
    int64_t kept = cluster.countRanks()[rank.type] - shares.dropped;
    if (device >= kept)
      continue;
    RankShare share = choice.allocation.shareOf(rank.type, device);
    // A rank without samples still takes part in the last step's collectives.
    auto integer = [&](int64_t value) {
      return builder.getI64IntegerAttr(value);
    };
    zero::RankOp::create(
        builder, module.getLoc(),
        SymbolRefAttr::get(&getContext(), cluster.types[rank.type].name),
        builder.getStringAttr(cluster.nodes[rank.node].name),
        integer(share.microBatch), integer(std::max<int64_t>(share.steps, 1)),
        integer(share.last), integer(cluster.types[rank.type].threads.value_or(1)),
        builder.getF64FloatAttr(choice.state[index]));
  }
}

void HeteroAllocatePass::runOnOperation() {
  ModuleOp module = getOperation();
  auto fail = [&](const Twine &message) {
    module.emitError(message);
    signalPassFailure();
  };
  if (!module.getOps<zero::PlanOp>().empty())
    return fail("has a zero.plan already");
  if (globalBatch < 1)
    return fail("needs the option global-batch, a number of samples");
  if (state != "equal" && state != "memory")
    return fail("option state must be equal or memory, not '" + state + "'");
  cluster = cluster::buildClusterView(module);
  if (cluster.ranks.empty())
    return fail("holds no cluster: no cluster.node has devices");
  std::string error;
  std::unique_ptr<BatchPolicy> algorithm = makePolicy(policy, error);
  if (!algorithm)
    return fail(error);

  model = ModelFacts();
  for (auto parameter : module.getOps<nn::ParameterOp>())
    model.elements +=
        cast<RankedTensorType>(parameter.getType()).getNumElements();
  if (model.elements == 0)
    return fail("holds no model: there is no nn.parameter");
  model.fingerprint = nn::getFingerprint(module);
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    ++model.buckets;
    model.largestBucket =
        std::max(model.largestBucket,
                 zero::BucketLayout::get(bucket, symbols)->elements);
  }

  std::optional<Choice> best;
  int fixedStage = 0;
  if (stage == "auto") {
    std::string errors;
    for (int candidate = 0; candidate < 4; ++candidate) {
      std::optional<Choice> choice = solve(*algorithm, candidate, error);
      if (!choice)
        errors += "\n  stage " + std::to_string(candidate) + ": " + error;
      else if (!best || choice->allocation.seconds < best->allocation.seconds)
        best = std::move(choice);
    }
    if (!best)
      return fail("no stage has a plan:" + errors);
  } else if (StringRef(stage).getAsInteger(10, fixedStage) || fixedStage < 0 ||
             fixedStage > 3) {
    return fail("option zero must be 0, 1, 2, 3 or auto, not '" + stage + "'");
  } else if (!(best = solve(*algorithm, fixedStage, error))) {
    return fail("no plan in stage " + stage + ": " + error);
  }
  addPlan(*best);
}
