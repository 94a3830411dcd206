//===- HeteroAllocate.cpp - Give every rank its batch ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/PlanRemedies.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_HETEROALLOCATE
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class HeteroAllocatePass
    : public poplar::impl::HeteroAllocateBase<HeteroAllocatePass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  /// From the options; fails, with an error said, if one has no such value.
  LogicalResult readChoices();
  /// Of an option that is `auto` or `off`.
  LogicalResult readSwitch(StringRef name, StringRef value, StringRef off,
                           bool &isOn);
  void refuse(const PlanSearchResult &result, const BatchPolicy &algorithm);
  void setRecompute(const PlanCandidate &plan);
  /// Of the estimates among the profiles that a plan rests on, the largest
  /// relative uncertainty; nothing if all are measured.
  std::optional<double> getUncertainty(const PlanCandidate &plan) const;
  void addPlan(const PlanCandidate &plan);

  ClusterView cluster;
  ModelFacts model;
  PlanChoices choices;
};

} // namespace

LogicalResult HeteroAllocatePass::readSwitch(StringRef name, StringRef value,
                                             StringRef off, bool &isOn) {
  // Baselines are what they are: only the optimum is over all choices.
  isOn = value == "auto" && policy == "exact";
  if (value == "auto" || value == off)
    return success();
  return getOperation().emitError("option ")
         << name << " must be auto or " << off << ", not '" << value << "'";
}

LogicalResult HeteroAllocatePass::readChoices() {
  choices = PlanChoices();
  choices.globalBatch = globalBatch;
  int number;
  if (stage != "auto") {
    if (StringRef(stage).getAsInteger(10, number) || number < 0 || number > 3)
      return getOperation().emitError(
                 "option zero must be 0, 1, 2, 3 or auto, not '")
             << stage.getValue() << "'";
    choices.stages = {number};
  }
  if (state == "equal" || (state == "auto" && policy != "exact"))
    choices.shardings = {Sharding::Equal};
  else if (state == "memory")
    choices.shardings = {Sharding::Memory};
  else if (state != "auto")
    return getOperation().emitError(
               "option state must be equal, memory or auto, not '")
           << state.getValue() << "'";
  return failure(
      failed(readSwitch("leave-out", leaveOut, "none", choices.leaveOut)) ||
      failed(readSwitch("recompute", recompute, "as-set",
                        choices.chooseRecompute)));
}

/// Says of the last stage, which needs the least memory, what is in the way,
/// and what would help, in the message itself: `poplar plan` prints no notes.
void HeteroAllocatePass::refuse(const PlanSearchResult &result,
                                const BatchPolicy &algorithm) {
  const PlanOutcome *last = nullptr;
  for (const PlanOutcome &outcome : result.outcomes)
    if (!last || outcome.stage > last->stage)
      last = &outcome;
  InFlightDiagnostic diagnostic =
      getOperation().emitError("has no plan in ")
      << (choices.stages.size() > 1 ? "any stage; in " : "") << "stage "
      << last->stage << ": " << last->error;
  std::vector<std::string> remedies =
      findRemedies(cluster, model, algorithm, choices);
  StringRef separator = "; it would fit ";
  for (const std::string &remedy : remedies) {
    diagnostic << separator << remedy;
    separator = ", or ";
  }
  int noted = -1;
  for (const PlanOutcome &outcome : result.outcomes)
    if (outcome.stage != last->stage && outcome.stage != noted) {
      noted = outcome.stage;
      diagnostic.attachNote()
          << "in stage " << outcome.stage << ": " << outcome.error;
    }
}

/// What a type recomputes is said where all else is said of it. Profiles that
/// leave it to the type were made with what it was set to before.
void HeteroAllocatePass::setRecompute(const PlanCandidate &plan) {
  for (auto [index, type] :
       llvm::enumerate(getOperation().getOps<cluster::DeviceTypeOp>())) {
    if (type.getRecompute() == plan.recompute[index])
      continue;
    for (auto profile : getOperation().getOps<cluster::ProfileOp>())
      if (profile.getDeviceType() == type.getSymName() &&
          !profile.getRecompute())
        profile.setRecompute(type.getRecompute());
    type.setRecompute(plan.recompute[index]);
  }
}

std::optional<double>
HeteroAllocatePass::getUncertainty(const PlanCandidate &plan) const {
  ClusterView chosen = cluster;
  for (auto [type, recompute] : llvm::zip_equal(chosen.types, plan.recompute))
    type.recompute = recompute;
  std::optional<double> uncertainty;
  for (int rank : plan.ranks) {
    const DeviceProfile *profile = chosen.findProfile(
        chosen.ranks[rank].type, plan.stage, model.fingerprint);
    if (!profile || !profile->isEstimate)
      continue;
    uncertainty = uncertainty.value_or(0);
    for (double spread : profile->spread)
      uncertainty = std::max(*uncertainty, spread);
  }
  return uncertainty;
}

void HeteroAllocatePass::addPlan(const PlanCandidate &plan) {
  ModuleOp module = getOperation();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto op = zero::PlanOp::create(builder, module.getLoc(), uint64_t(plan.stage),
                                 uint64_t(globalBatch),
                                 builder.getStringAttr(plan.allocation.policy));
  op->setAttr("predicted_seconds",
              builder.getF64FloatAttr(plan.allocation.seconds));
  if (std::optional<double> uncertainty = getUncertainty(plan))
    op->setAttr("predicted_uncertainty", builder.getF64FloatAttr(*uncertainty));
  builder.setInsertionPointToStart(&op.getBody().emplaceBlock());

  auto integer = [&](int64_t value) {
    return builder.getI64IntegerAttr(value);
  };
  std::vector<int64_t> seen(cluster.types.size());
  for (auto [index, state] : llvm::zip_equal(plan.ranks, plan.state)) {
    const ClusterRank &rank = cluster.ranks[index];
    RankShare share = plan.allocation.shareOf(rank.type, seen[rank.type]++);
    const DeviceType &type = cluster.types[rank.type];
    // A rank without samples still takes part in the last step's collectives.
    int64_t steps = std::max<int64_t>(share.steps, 1);
    zero::RankOp::create(
        builder, module.getLoc(), SymbolRefAttr::get(&getContext(), type.name),
        builder.getStringAttr(cluster.nodes[rank.node].name),
        integer(share.microBatch), integer(steps), integer(share.last),
        integer(type.threads.value_or(1)), builder.getF64FloatAttr(state));
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
  if (failed(readChoices()))
    return signalPassFailure();
  std::string error;
  std::unique_ptr<BatchPolicy> algorithm = makePolicy(policy, error);
  if (!algorithm)
    return fail(error);
  cluster = cluster::buildClusterView(module);
  if (cluster.ranks.empty())
    return fail("holds no cluster: no cluster.node has devices");
  model = zero::getModelFacts(module);
  if (model.elements == 0)
    return fail("holds no model: there is no nn.parameter");

  PlanSearchResult result = searchPlans(cluster, model, *algorithm, choices);
  const PlanCandidate *best = result.best();
  if (!best) {
    refuse(result, *algorithm);
    return signalPassFailure();
  }
  setRecompute(*best);
  addPlan(*best);
}
