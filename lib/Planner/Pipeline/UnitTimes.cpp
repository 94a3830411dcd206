//===- UnitTimes.cpp - What the units of a model take ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/UnitTimes.h"

using namespace poplar;

/// What a type without figures is taken to compute and move a second, where a
/// profile says how long all of it takes and only proportions count: 10 FLOPs
/// in the time of a byte, as a server core.
static constexpr double anyFlops = 1e12, anyBandwidth = 1e11;

Roofline poplar::getProportions(DeviceType type) {
  if (std::optional<Roofline> own = Roofline::get(type))
    return *own;
  type.flops[type.getWorkingFormat()] = anyFlops;
  type.bandwidth = anyBandwidth;
  return *Roofline::get(type);
}

namespace {

/// The measured profile of a type that serves best; empty if there is none.
struct Measurement {
  const HybridModel::Variant *variant = nullptr;
  const DeviceProfile *profile = nullptr;
};

} // namespace

/// Takes the measurement of the policy the type is set to, else of any other.
/// All stages of ZeRO measure the same, as collectives are not in them.
static Measurement findMeasurement(const ClusterView &cluster,
                                   const HybridModel &model, int type) {
  ClusterView view;
  view.types = cluster.types;
  view.profiles = cluster.profiles;
  std::vector<const HybridModel::Variant *> variants;
  for (const HybridModel::Variant &variant : model.variants[type]) {
    bool isSet = variant.recompute == cluster.types[type].recompute;
    if (variant.tensorDegree == 1)
      variants.insert(isSet ? variants.begin() : variants.end(), &variant);
  }
  for (const HybridModel::Variant *variant : variants) {
    view.types[type].recompute = variant->recompute;
    for (int stage = 0; stage < 4; ++stage) {
      const DeviceProfile *profile =
          view.findProfile(type, stage, model.fingerprint);
      if (profile && !profile->isEstimate && !profile->microBatches.empty())
        return {variant, &cluster.profiles[profile - view.profiles.data()]};
    }
  }
  return {};
}

std::optional<UnitTimes> UnitTimes::get(const ClusterView &cluster,
                                        const HybridModel &model, int type,
                                        std::string &error) {
  const DeviceType &figures = cluster.types[type];
  UnitTimes times;
  times.roofline = Roofline::get(figures);
  times.library = getCollectiveLibrary(figures.target);
  auto [variant, profile] = findMeasurement(cluster, model, type);
  if (profile) {
    times.measured = variant;
    times.curve = profile->fitCurve(error);
    if (!times.curve) {
      error = "profile of device type '" + figures.name + "': " + error;
      return std::nullopt;
    }
  }
  if (times.roofline) {
    times.optimizerSeconds =
        times.roofline->getOptimizerSeconds(1 << 20) / (1 << 20);
  } else if (profile) {
    times.roofline = getProportions(figures);
  } else {
    error = "device type '" + figures.name +
            "' has neither a profile of this model nor 'flops' of " +
            toString(figures.getWorkingFormat()) +
            " and 'bandwidth' to estimate it from; make one with: " +
            getProfileCommand(figures.name) +
            " and plan with --profiles profiles";
    return std::nullopt;
  }
  if (profile && profile->optimizerSeconds)
    times.optimizerSeconds =
        *profile->optimizerSeconds /
        static_cast<double>(
            model.parameters.count(0, model.parameters.size()).trained);
  return times;
}

static double getSeconds(const std::vector<RooflineOp> &ops,
                         const Roofline &roofline, double share,
                         int64_t microBatch) {
  double seconds = 0;
  for (RooflineOp op : ops) {
    op.flops *= share;
    op.bytes *= share;
    op.fixedBytes *= share;
    op.columns *= share;
    seconds += op.count * roofline.getSeconds(op, microBatch);
  }
  return seconds;
}

std::optional<int64_t> UnitTimes::getLargest() const {
  if (!curve)
    return std::nullopt;
  return curve->largest();
}

/// By what the seconds of the roofline are to be multiplied.
double UnitTimes::getScale(int64_t microBatch) const {
  if (!curve)
    return 1;
  double seconds = 0;
  for (const UnitWork &unit : measured->units)
    seconds += getSeconds(unit.forward, *roofline, 1, microBatch) +
               getSeconds(unit.backward, *roofline, 1, microBatch);
  return curve->seconds(microBatch) / seconds;
}

std::vector<HybridProblem::UnitCost>
UnitTimes::getShareOfCosts(const HybridModel::Variant &variant,
                           int64_t microBatch, double share) const {
  if (curve && microBatch > curve->largest())
    return {};
  double scale = getScale(microBatch);
  std::vector<HybridProblem::UnitCost> costs;
  for (const UnitWork &work : variant.units) {
    HybridProblem::UnitCost cost;
    cost.forward =
        scale * getSeconds(work.forward, *roofline, share, microBatch);
    cost.backward =
        scale * getSeconds(work.backward, *roofline, share, microBatch);
    cost.savedBytes = microBatch * work.savedBytes;
    cost.workBytes = microBatch * work.workBytes;
    costs.push_back(cost);
  }
  return costs;
}

std::vector<HybridProblem::UnitCost>
UnitTimes::getCosts(const HybridModel::Variant &variant, int64_t microBatch,
                    const LinkSpeed &inside) const {
  auto costs = getShareOfCosts(variant, microBatch, 1);
  if (variant.tensorDegree == 1)
    return costs;
  double latency = CollectiveSteps::countInside(library, variant.tensorDegree)
                       .getSeconds(inside.latency, 0);
  auto getExchanges = [&](UnitExchanges exchanges) {
    return static_cast<double>(exchanges.count) * latency +
           static_cast<double>(microBatch * exchanges.bytes) / inside.bandwidth;
  };
  for (size_t i = 0; i < costs.size(); ++i) {
    double forward = getExchanges(variant.units[i].forwardExchanges),
           backward = getExchanges(variant.units[i].backwardExchanges);
    costs[i].forward += forward;
    costs[i].backward += backward;
    costs[i].communication = forward + backward;
  }
  return costs;
}
