//===- EstimateProfiles.cpp - Curves of devices that are not at hand -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Planner/Pipeline/UnitTimes.h"
#include "Poplar/Simulation/DerivedProfiles.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "ProgramCosts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

namespace poplar {
#define GEN_PASS_DEF_ESTIMATEPROFILES
#include "Poplar/Simulation/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// A curve ends here, where launches no longer matter, or where memory does.
static constexpr int64_t largestMicroBatch = 1024;

namespace {

struct NamedProfile {
  DeviceProfile profile;
  std::string source;
};

/// What the ranks of a plan take of a type.
struct PlannedType {
  std::set<Recomputation> recompute;
  int64_t microBatch = 0;
};

class EstimateProfilesPass
    : public poplar::impl::EstimateProfilesBase<EstimateProfilesPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  void readPlan();
  const DeviceProfile *findMeasured(int type, int stage) const;
  std::vector<Recomputation> listPolicies(int type);
  LogicalResult estimate(int type);
  LogicalResult estimate(int type, int stage, Recomputation recompute);
  FailureOr<std::optional<NamedProfile>>
  estimateWhole(int type, int stage, RecomputePolicy recompute);
  FailureOr<std::optional<NamedProfile>> estimatePart(int type, int stage,
                                                      Recomputation recompute);
  LogicalResult checkLayers(func::FuncOp model);
  FailureOr<const ProgramCosts *> getCosts(DeviceType type,
                                           RecomputePolicy recompute);

  std::string fingerprint;
  ClusterView cluster;
  /// By name of the type; none where the module has no plan.
  std::optional<std::map<std::string, PlannedType>> planned;
  /// Device types whose programs are alike share their costs.
  std::map<std::vector<std::string>, ProgramCosts> known;
  Operation *last = nullptr;
};

} // namespace

void EstimateProfilesPass::readPlan() {
  planned.reset();
  auto plans = getOperation().getOps<zero::PlanOp>();
  if (plans.empty())
    return;
  planned.emplace();
  for (zero::RankOp rank : zero::PlanOp(*plans.begin()).getRanks()) {
    std::optional<int> type = cluster.findType(rank.getDeviceType().str());
    if (!type)
      continue;
    PlannedType &own = (*planned)[cluster.types[*type].name];
    own.recompute.insert(
        rank.getRecompute().value_or(cluster.types[*type].recompute));
    own.microBatch = std::max(own.microBatch, int64_t(rank.getLargestStep()));
  }
}

/// What was measured on a type, of what it is set to recompute or else of any
/// policy: in this stage or, as no collective is measured, in another. Null if
/// nothing was.
const DeviceProfile *EstimateProfilesPass::findMeasured(int type,
                                                        int stage) const {
  std::vector<RecomputePolicy> policies = {
      cluster.types[type].recompute.policy};
  for (RecomputePolicy policy : listWords<RecomputePolicy>())
    policies.push_back(policy);
  for (int other : {stage, 0, 1, 2, 3})
    for (RecomputePolicy policy : policies) {
      const DeviceProfile *profile =
          cluster.findProfile(type, other, fingerprint, policy);
      if (profile && !profile->isEstimate && !profile->microBatches.empty())
        return profile;
    }
  return nullptr;
}

/// What a type recomputes in the plan; before there is one, what planners may
/// choose. Beside what was measured, an estimate is no choice.
std::vector<Recomputation> EstimateProfilesPass::listPolicies(int index) {
  const DeviceType &type = cluster.types[index];
  if (planned) {
    const std::set<Recomputation> &own = (*planned)[type.name].recompute;
    return {own.begin(), own.end()};
  }
  if (type.isRecomputeFixed || findMeasured(index, 0))
    return {type.recompute};
  auto all = listWords<RecomputePolicy>();
  return {all.begin(), all.end()};
}

FailureOr<const ProgramCosts *>
EstimateProfilesPass::getCosts(DeviceType type, RecomputePolicy recompute) {
  type.recompute = recompute;
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

/// Those that were measured, or powers of two as far as they fit.
static std::vector<int64_t> listBatches(int64_t largest,
                                        const DeviceProfile *measured) {
  if (measured)
    return measured->microBatches;
  std::vector<int64_t> batches;
  for (int64_t batch = 1; batch < largest; batch *= 2)
    batches.push_back(batch);
  if (largest > 0)
    batches.push_back(largest);
  return batches;
}

/// None where nothing is known of the type.
FailureOr<std::optional<NamedProfile>>
EstimateProfilesPass::estimateWhole(int index, int stage,
                                    RecomputePolicy recompute) {
  const DeviceType &type = cluster.types[index];
  const DeviceProfile *measured = findMeasured(index, stage);
  std::optional<Roofline> roofline = Roofline::get(type);
  // The times asked for are multiples of those that were measured.
  if (!roofline && measured && (planned || type.isRecomputeFixed))
    roofline = getProportions(type);
  if (!roofline)
    return std::optional<NamedProfile>();
  FailureOr<const ProgramCosts *> found = getCosts(type, recompute);
  if (failed(found))
    return failure();
  const ProgramCosts &costs = **found;
  std::map<int64_t, double> scale;
  if (measured) {
    FailureOr<const ProgramCosts *> base =
        getCosts(type, measured->recompute.policy);
    if (failed(base))
      return failure();
    for (auto [batch, seconds] :
         llvm::zip_equal(measured->microBatches, measured->seconds))
      scale[batch] = seconds / roofline->getSeconds((*base)->ops, batch);
  }

  int64_t fitting = type.memory / std::max<int64_t>(costs.bytesPerSample, 1);
  // A plan is simulated as it is, whether it fits or not.
  if (planned)
    fitting = std::max(fitting, (*planned)[type.name].microBatch);
  DeviceProfile profile{index, stage};
  profile.microBatches =
      listBatches(std::min(fitting, largestMicroBatch), measured);
  if (measured)
    fitting = profile.microBatches.back();
  for (int64_t batch : profile.microBatches)
    profile.seconds.push_back((measured ? scale[batch] : 1) *
                              roofline->getSeconds(costs.ops, batch));
  profile.spread.assign(profile.microBatches.size(),
                        roofline->getConstants().uncertainty);
  // The end of the curve, where it has a single point.
  if (profile.microBatches.size() < 2)
    profile.maxMicroBatch = fitting;
  profile.memory = {costs.fixedBytes, costs.bytesPerSample};
  profile.optimizerSeconds = measured && measured->optimizerSeconds
                                 ? *measured->optimizerSeconds
                                 : roofline->getOptimizerSeconds(costs.trained);
  profile.precision = type.precision;
  profile.recompute = recompute;
  profile.isEstimate = true;
  profile.model = fingerprint;
  std::string source =
      measured
          ? "estimate: measured times of " + toString(measured->recompute) +
                " and what a roofline adds for " + toString(recompute)
          : llvm::formatv("estimate: roofline of {0:e3} FLOP/s of {1} and "
                          "{2:e3} B/s",
                          type.flops.at(type.getWorkingFormat()),
                          toString(type.getWorkingFormat()), *type.bandwidth)
                .str();
  return std::optional<NamedProfile>({std::move(profile), std::move(source)});
}

/// From the profiles of the whole model, which are estimated where there are
/// none.
FailureOr<std::optional<NamedProfile>>
EstimateProfilesPass::estimatePart(int index, int stage,
                                   Recomputation recompute) {
  std::vector<DeviceProfile> known;
  for (RecomputePolicy policy : {RecomputePolicy::Keep, recompute.policy}) {
    if (const DeviceProfile *profile =
            cluster.findProfile(index, stage, fingerprint, policy)) {
      known.push_back(*profile);
      continue;
    }
    auto estimated = estimateWhole(index, stage, policy);
    if (failed(estimated) || !*estimated)
      return estimated;
    known.push_back((*estimated)->profile);
  }
  auto layers =
      getRecomputedLayers(getOperation(), cluster, index, recompute.policy);
  if (failed(layers))
    return failure();
  std::optional<DeviceProfile> profile =
      layers->derive(known[0], known[1], recompute.layers);
  if (!profile)
    return std::optional<NamedProfile>();
  return std::optional<NamedProfile>(
      {std::move(*profile), describeSource(recompute)});
}

LogicalResult EstimateProfilesPass::estimate(int index, int stage,
                                             Recomputation recompute) {
  auto estimated = recompute.isPartial()
                       ? estimatePart(index, stage, recompute)
                       : estimateWhole(index, stage, recompute.policy);
  if (failed(estimated))
    return failure();
  if (*estimated)
    last =
        addProfile(last, (*estimated)->profile, cluster, (*estimated)->source);
  return success();
}

/// No type is to recompute more layers than there are.
LogicalResult EstimateProfilesPass::checkLayers(func::FuncOp model) {
  auto layers = static_cast<int64_t>(findLayers(model).size());
  std::vector<int> counts = cluster.countRanks();
  for (auto [op, count] :
       llvm::zip_equal(getOperation().getOps<cluster::DeviceTypeOp>(), counts))
    if (std::string reason = explainTooManyLayers(op.getRecompute(), layers);
        count > 0 && !reason.empty())
      return op.emitError("device type ") << op.getSymName() << ": " << reason;
  return success();
}

LogicalResult EstimateProfilesPass::estimate(int type) {
  for (Recomputation policy : listPolicies(type))
    for (int stage = 0; stage < 4; ++stage)
      if (!cluster.findProfile(type, stage, fingerprint, policy) &&
          failed(estimate(type, stage, policy)))
        return failure();
  return success();
}

void EstimateProfilesPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
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
  cluster = cluster::buildClusterView(module);
  if (failed(checkLayers(model)))
    return signalPassFailure();
  readPlan();
  for (Operation &op : *module.getBody())
    if (isa_and_present<cluster::ClusterDialect>(op.getDialect()))
      last = &op;
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type)
    if (counts[type] && failed(estimate(static_cast<int>(type))))
      return signalPassFailure();
}
