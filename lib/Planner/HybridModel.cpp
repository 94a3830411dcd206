//===- HybridModel.cpp - The hybrid problem of a cluster ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/HybridModel.h"
#include "Poplar/Planner/Curve.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace poplar;

using Mode = HybridProblem::Mode;

/// What a type without figures is taken to compute and move a second, where a
/// profile says how long all of it takes and only proportions count: 10 FLOPs
/// in the time of a byte, as a server core.
static constexpr double anyFlops = 1e12, anyBandwidth = 1e11;

int64_t HybridModel::countElements() const {
  return std::accumulate(elements.begin(), elements.end(), int64_t(0)) -
         tiedElements;
}

//===----------------------------------------------------------------------===//
// Devices and links
//===----------------------------------------------------------------------===//

namespace {

/// Where the devices of a type are.
struct TypePlaces {
  int64_t perNode = 0;
  std::vector<int> nodes;
};

/// What was measured of a type; empty if nothing was.
struct Measurement {
  const HybridModel::Variant *variant = nullptr;
  std::optional<Curve> curve;
  std::optional<double> optimizerSeconds;
};

class HybridProblemBuilder {
public:
  HybridProblemBuilder(const ClusterView &cluster, const HybridModel &model)
      : cluster(cluster), model(model) {}
  std::optional<HybridProblem> build(int64_t globalBatch,
                                     std::vector<int> &typesInUse);
  std::string error;

private:
  void findPlaces();
  bool addType(int index);
  HybridProblem::Link getLink(int type, int otherType) const;
  bool addModes(HybridProblem::DeviceType &type, int index);
  bool findMeasurement(int index, Measurement &found);
  Mode makeMode(const HybridProblem::DeviceType &type,
                const HybridModel::Variant &variant, const Roofline &roofline,
                double scale, int degree, int64_t microBatch) const;
  /// By what the seconds of the roofline are to be multiplied; 0 if the
  /// micro-batch is larger than the last measured.
  double getScale(const Measurement &measured, const Roofline &roofline,
                  int64_t microBatch) const;

  const ClusterView &cluster;
  const HybridModel &model;
  std::vector<TypePlaces> places;
  HybridProblem problem;
};

} // namespace

void HybridProblemBuilder::findPlaces() {
  places.resize(cluster.types.size());
  for (size_t node = 0; node < cluster.nodes.size(); ++node) {
    std::vector<int64_t> counts(cluster.types.size());
    const ClusterNode &it = cluster.nodes[node];
    for (int rank = it.firstRank; rank < it.firstRank + it.numRanks; ++rank)
      ++counts[cluster.ranks[rank].type];
    for (size_t type = 0; type < counts.size(); ++type)
      if (counts[type]) {
        places[type].nodes.push_back(static_cast<int>(node));
        // Nodes with more devices count as several.
        places[type].perNode = std::gcd(places[type].perNode, counts[type]);
      }
  }
}

static void takeSlower(LinkSpeed &speed, std::optional<LinkSpeed> link) {
  if (!link)
    return;
  speed.latency = std::max(speed.latency, link->latency);
  speed.bandwidth = speed.bandwidth > 0
                        ? std::min(speed.bandwidth, link->bandwidth)
                        : link->bandwidth;
}

/// The slowest there is between nodes of the two types; inside the node, if all
/// are in one.
HybridProblem::Link HybridProblemBuilder::getLink(int type,
                                                  int otherType) const {
  HybridProblem::Link slowest{{0, 0}, true};
  for (int node : places[type].nodes)
    for (int other : places[otherType].nodes) {
      if (node == other)
        continue;
      for (std::optional<LinkSpeed> link :
           {cluster.findLink(node, other), cluster.findLink(other, node)})
        takeSlower(slowest.speed, link);
    }
  if (slowest.speed.bandwidth > 0)
    return slowest;
  int node = places[type].nodes.front();
  std::optional<LinkSpeed> inside = cluster.findLink(node, node);
  // A device that is alone sends nothing.
  return {
      inside.value_or(LinkSpeed{0, std::numeric_limits<double>::infinity()}),
      false};
}

//===----------------------------------------------------------------------===//
// Modes
//===----------------------------------------------------------------------===//

static RooflineOp share(RooflineOp op, int degree) {
  op.flops /= degree;
  op.bytes /= degree;
  op.fixedBytes /= degree;
  op.columns /= degree;
  return op;
}

static double getSeconds(const std::vector<RooflineOp> &ops,
                         const Roofline &roofline, int degree,
                         int64_t microBatch) {
  double seconds = 0;
  for (const RooflineOp &op : ops)
    seconds += op.count * roofline.getSeconds(share(op, degree), microBatch);
  return seconds;
}

double HybridProblemBuilder::getScale(const Measurement &measured,
                                      const Roofline &roofline,
                                      int64_t microBatch) const {
  if (!measured.curve)
    return 1;
  if (microBatch > measured.curve->largest())
    return 0;
  double seconds = 0;
  for (const UnitWork &unit : measured.variant->units)
    seconds += getSeconds(unit.forward, roofline, 1, microBatch) +
               getSeconds(unit.backward, roofline, 1, microBatch);
  return measured.curve->seconds(microBatch) / seconds;
}

Mode HybridProblemBuilder::makeMode(const HybridProblem::DeviceType &type,
                                    const HybridModel::Variant &variant,
                                    const Roofline &roofline, double scale,
                                    int degree, int64_t microBatch) const {
  Mode mode;
  mode.tensorDegree = degree;
  mode.microBatch = microBatch;
  mode.recompute = variant.recompute;
  double exchange = 0;
  if (degree > 1) {
    double bytes = static_cast<double>(microBatch * variant.boundaryBytes);
    exchange = 2 * (type.inside.latency +
                    (degree - 1.0) / degree * bytes / type.inside.bandwidth);
  }
  size_t last = variant.units.size() - 1;
  for (size_t i = 0; i <= last; ++i) {
    const UnitWork &work = variant.units[i];
    bool isRepeated = i > 0 && i < last;
    int forward = isRepeated ? 2 : i == 0,
        backward = isRepeated ? 2 : i == last;
    if (isRepeated && variant.recompute == "recompute-unit")
      backward += 2;
    HybridProblem::UnitCost cost;
    cost.forward =
        scale * getSeconds(work.forward, roofline, degree, microBatch) +
        forward * exchange;
    cost.backward =
        scale * getSeconds(work.backward, roofline, degree, microBatch) +
        backward * exchange;
    cost.communication = (forward + backward) * exchange;
    cost.savedBytes = microBatch * work.savedBytes / degree;
    cost.workBytes = microBatch * work.workBytes / degree;
    mode.units.push_back(cost);
  }
  return mode;
}

/// The measured profile of a type that serves best: of the policy it is set to,
/// then of any other. All stages of ZeRO measure the same, as collectives are
/// not in them.
bool HybridProblemBuilder::findMeasurement(int index, Measurement &found) {
  ClusterView view;
  view.types = cluster.types;
  view.profiles = cluster.profiles;
  std::vector<const HybridModel::Variant *> variants;
  for (const HybridModel::Variant &variant : model.variants[index])
    if (variant.recompute == cluster.types[index].recompute)
      variants.insert(variants.begin(), &variant);
    else
      variants.push_back(&variant);
  for (const HybridModel::Variant *variant : variants) {
    view.types[index].recompute = variant->recompute;
    for (int stage = 0; stage < 4; ++stage) {
      const DeviceProfile *profile =
          view.findProfile(index, stage, model.fingerprint);
      if (!profile || profile->isEstimate || profile->microBatches.empty())
        continue;
      found.variant = variant;
      found.curve = profile->fitCurve(error);
      found.optimizerSeconds = profile->optimizerSeconds;
      if (!found.curve)
        error = "profile of device type '" + cluster.types[index].name +
                "': " + error;
      return found.curve.has_value();
    }
  }
  return true;
}

bool HybridProblemBuilder::addModes(HybridProblem::DeviceType &type,
                                    int index) {
  DeviceType figures = cluster.types[index];
  std::string format = figures.getWorkingFormat();
  std::optional<Roofline> roofline = Roofline::get(figures);
  Measurement measured;
  if (!findMeasurement(index, measured))
    return false;
  if (!roofline && !measured.curve) {
    error = "device type '" + type.name +
            "' has neither a profile of this model nor 'flops' of " + format +
            " and 'bandwidth' to estimate it from";
    return false;
  }
  if (!roofline) {
    figures.flops[format] = anyFlops;
    figures.bandwidth = anyBandwidth;
    roofline = Roofline::get(figures);
  } else {
    type.optimizerSeconds = roofline->getOptimizerSeconds(1 << 20) / (1 << 20);
  }
  if (measured.optimizerSeconds)
    type.optimizerSeconds =
        *measured.optimizerSeconds / static_cast<double>(model.countElements());
  for (int64_t microBatch : hybridMicroBatches) {
    double scale = getScale(measured, *roofline, microBatch);
    if (scale == 0)
      break;
    for (const HybridModel::Variant &variant : model.variants[index])
      for (int degree = 1; degree <= model.mostTensorDegree; degree *= 2)
        if (type.perNode % degree == 0)
          type.modes.push_back(
              makeMode(type, variant, *roofline, scale, degree, microBatch));
  }
  if (type.modes.empty())
    error = "device type '" + type.name +
            "' has a profile without a micro-batch of 1";
  return !type.modes.empty();
}

bool HybridProblemBuilder::addType(int index) {
  const DeviceType &from = cluster.types[index];
  HybridProblem::DeviceType type;
  type.name = from.name;
  type.perNode = places[index].perNode;
  type.memory = from.memory;
  for (const HybridModel::Variant &variant : model.variants[index]) {
    type.scratchBytes = std::max(type.scratchBytes, variant.scratchBytes);
    problem.boundaryBytes =
        std::max(problem.boundaryBytes, variant.boundaryBytes);
  }
  type.state = StateFormat::of(from.getWorkingFormat());
  for (int node : places[index].nodes)
    takeSlower(type.inside, cluster.findLink(node, node));
  if (!addModes(type, index))
    return false;
  problem.types.push_back(std::move(type));
  return true;
}

std::optional<HybridProblem>
HybridProblemBuilder::build(int64_t globalBatch, std::vector<int> &inUse) {
  findPlaces();
  std::vector<int> counts = cluster.countRanks();
  std::string format;
  bool differ = false;
  inUse.clear();
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    inUse.push_back(static_cast<int>(type));
    if (!addType(inUse.back()))
      return std::nullopt;
    problem.types.back().count = counts[type];
    std::string own = cluster.types[type].getWorkingFormat();
    differ |= !format.empty() && own != format;
    format = own;
  }
  for (int type : inUse)
    for (int other : inUse)
      problem.links.push_back(getLink(type, other));
  problem.elements = model.elements;
  problem.tiedElements = model.tiedElements;
  // Parameters travel in f32 unless all agree on something narrower.
  problem.parameterBytes = differ || format == "f32" ? 4 : 2;
  problem.globalBatch = globalBatch;
  error = problem.check();
  return error.empty() ? std::optional(problem) : std::nullopt;
}

std::optional<HybridProblem>
poplar::makeHybridProblem(const ClusterView &cluster, const HybridModel &model,
                          int64_t globalBatch, std::vector<int> &typesInUse,
                          std::string &error) {
  HybridProblemBuilder builder(cluster, model);
  std::optional<HybridProblem> problem = builder.build(globalBatch, typesInUse);
  error = builder.error;
  return problem;
}
