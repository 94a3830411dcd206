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
  /// From the option `zero`; nothing, with an error said, if it is no stage.
  std::optional<SmallVector<int>> getStages();
  void readModel();
  /// Leaves only the devices of type `name` in the cluster.
  void keepType(StringRef name);
  std::optional<Choice> solve(const BatchPolicy &algorithm, int stage,
                              std::string &error);
  std::optional<Choice> solveBest(const BatchPolicy &algorithm,
                                  ArrayRef<int> stages);
  /// Of the estimates among the profiles that a plan rests on, the largest
  /// relative uncertainty; nothing if all are measured.
  std::optional<double> getUncertainty(int stage) const;
  void addPlan(const Choice &choice);

  ClusterView cluster;
  ModelFacts model;
};

} // namespace

std::optional<SmallVector<int>> HeteroAllocatePass::getStages() {
  if (stage == "auto")
    return SmallVector<int>{0, 1, 2, 3};
  int number;
  if (!StringRef(stage).getAsInteger(10, number) && number >= 0 && number <= 3)
    return SmallVector<int>{number};
  getOperation().emitError("option zero must be 0, 1, 2, 3 or auto, not '")
      << stage.getValue() << "'";
  return std::nullopt;
}

void HeteroAllocatePass::readModel() {
  ModuleOp module = getOperation();
  model = ModelFacts();
  for (auto parameter : module.getOps<nn::ParameterOp>())
    model.elements +=
        cast<RankedTensorType>(parameter.getType()).getNumElements();
  model.fingerprint = nn::getFingerprint(module);
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    ++model.buckets;
    model.largestBucket =
        std::max(model.largestBucket,
                 zero::BucketLayout::get(bucket, symbols)->elements);
  }
}

void HeteroAllocatePass::keepType(StringRef name) {
  std::optional<int> type = cluster.findType(name.str());
  auto isOther = [&](const ClusterRank &rank) { return rank.type != type; };
  // Where nothing is left, the policy says so.
  if (!llvm::all_of(cluster.ranks, isOther))
    llvm::erase_if(cluster.ranks, isOther);
}

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
  std::optional<BatchProblem> problem =
      makeBatchProblem(cluster, model, stage, globalBatch, choice.state, error);
  if (!problem)
    return std::nullopt;
  std::optional<Allocation> allocation = algorithm.solve(*problem, error);
  if (!allocation)
    return std::nullopt;
  choice.allocation = std::move(*allocation);
  return choice;
}

/// The fastest of the stages that have a plan, the lowest of equals.
std::optional<Choice>
HeteroAllocatePass::solveBest(const BatchPolicy &algorithm,
                              ArrayRef<int> stages) {
  std::optional<Choice> best;
  SmallVector<std::string> errors;
  for (int candidate : stages) {
    std::optional<Choice> choice =
        solve(algorithm, candidate, errors.emplace_back());
    if (choice &&
        (!best || choice->allocation.seconds < best->allocation.seconds))
      best = std::move(choice);
  }
  if (best)
    return best;
  // Of the last stage, which needs the least memory, in the message itself:
  // `poplar plan` prints no notes.
  InFlightDiagnostic diagnostic = getOperation().emitError("has no plan in ")
                                  << (stages.size() > 1 ? "any stage; in " : "")
                                  << "stage " << stages.back() << ": "
                                  << errors.back();
  for (auto [candidate, error] : llvm::zip(stages.drop_back(), errors))
    diagnostic.attachNote() << "in stage " << candidate << ": " << error;
  return std::nullopt;
}

std::optional<double> HeteroAllocatePass::getUncertainty(int stage) const {
  std::optional<double> uncertainty;
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type) {
    const DeviceProfile *profile =
        counts[type] ? cluster.findProfile(static_cast<int>(type), stage,
                                           model.fingerprint)
                     : nullptr;
    if (!profile || !profile->isEstimate)
      continue;
    uncertainty = uncertainty.value_or(0);
    for (double spread : profile->spread)
      uncertainty = std::max(*uncertainty, spread);
  }
  return uncertainty;
}

void HeteroAllocatePass::addPlan(const Choice &choice) {
  ModuleOp module = getOperation();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto plan = zero::PlanOp::create(
      builder, module.getLoc(), uint64_t(choice.stage), uint64_t(globalBatch),
      builder.getStringAttr(choice.allocation.policy));
  plan->setAttr("predicted_seconds",
                builder.getF64FloatAttr(choice.allocation.seconds));
  if (std::optional<double> uncertainty = getUncertainty(choice.stage))
    plan->setAttr("predicted_uncertainty",
                  builder.getF64FloatAttr(*uncertainty));
  builder.setInsertionPointToStart(&plan.getBody().emplaceBlock());

  auto integer = [&](int64_t value) {
    return builder.getI64IntegerAttr(value);
  };
  std::vector<int64_t> seen(cluster.types.size());
  for (auto [index, rank] : llvm::enumerate(cluster.ranks)) {
    RankShare share = choice.allocation.shareOf(rank.type, seen[rank.type]++);
    const DeviceType &type = cluster.types[rank.type];
    // A rank without samples still takes part in the last step's collectives.
    int64_t steps = std::max<int64_t>(share.steps, 1);
    zero::RankOp::create(builder, module.getLoc(),
                         SymbolRefAttr::get(&getContext(), type.name),
                         builder.getStringAttr(cluster.nodes[rank.node].name),
                         integer(share.microBatch), integer(steps),
                         integer(share.last), integer(type.threads.value_or(1)),
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
  std::optional<SmallVector<int>> stages = getStages();
  if (!stages)
    return signalPassFailure();
  std::string error;
  std::unique_ptr<BatchPolicy> algorithm = makePolicy(policy, error);
  if (!algorithm)
    return fail(error);
  cluster = cluster::buildClusterView(module);
  // The times and the memory of a job of these devices, not of all of them.
  StringRef type = policy;
  if (type.consume_front("homogeneous:"))
    keepType(type);
  if (cluster.ranks.empty())
    return fail("holds no cluster: no cluster.node has devices");
  readModel();
  if (model.elements == 0)
    return fail("holds no model: there is no nn.parameter");

  std::optional<Choice> choice = solveBest(*algorithm, *stages);
  if (!choice)
    return signalPassFailure();
  addPlan(*choice);
}
