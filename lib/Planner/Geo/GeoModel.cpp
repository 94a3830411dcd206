//===- GeoModel.cpp - The distant devices of a cluster --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Geo/GeoModel.h"
#include "Poplar/Planner/Cluster/Links.h"
#include <algorithm>
#include <limits>
#include <map>
#include <set>

using namespace poplar;

/// The part of the effort that looks at all problems; the rest is for so many
/// of them.
static constexpr int64_t lookShare = 4;
static constexpr size_t mostSearched = 3;
/// What is worth while: few devices have few plans.
static constexpr int64_t effortPerDevice = 1000000;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

namespace {
class GeoProblemBuilder {
public:
  GeoProblemBuilder(const ClusterView &cluster, const HybridCluster &whole)
      : cluster(cluster), whole(whole) {}
  std::optional<GeoCluster> build(int64_t microBatch, int degree,
                                  bool mayBeLeft) const;

private:
  std::optional<GeoProblem::Kind>
  makeKind(const HybridProblem::DeviceType &type, int64_t microBatch,
           int degree) const;
  void addDevices(GeoCluster &geo) const;
  void addLinks(GeoProblem &problem, const std::vector<int> &degrees) const;

  const ClusterView &cluster;
  const HybridCluster &whole;
};
} // namespace

/// The largest degree of a type's modes up to `degree`; 0 if there is none.
/// Nodes may have devices that are too few, or none.
static int getDegree(const HybridProblem::DeviceType &type, int64_t microBatch,
                     int degree, bool mayBeLeft) {
  int most = 0;
  for (const HybridProblem::Mode &mode : type.modes)
    if (mode.microBatch == microBatch && mode.tensorDegree <= degree &&
        (mayBeLeft || type.perNode % mode.tensorDegree == 0))
      most = std::max(most, mode.tensorDegree);
  return most;
}

static GeoProblem::Mode convert(const HybridProblem::Mode &from) {
  GeoProblem::Mode mode;
  mode.recompute = from.recompute;
  for (const HybridProblem::UnitCost &unit : from.units) {
    mode.forward.push_back(unit.forward);
    mode.backward.push_back(unit.backward);
    mode.savedBytes.push_back(static_cast<double>(unit.savedBytes));
    mode.workBytes.push_back(static_cast<double>(unit.workBytes));
  }
  return mode;
}

/// None if the type has no modes of that micro-batch.
std::optional<GeoProblem::Kind>
GeoProblemBuilder::makeKind(const HybridProblem::DeviceType &type,
                            int64_t microBatch, int degree) const {
  GeoProblem::Kind kind;
  kind.name = type.name;
  kind.memory = static_cast<double>(type.memory);
  // Scratch, and a message each way while another is in use.
  kind.fixedBytes =
      static_cast<double>(type.scratchBytes) +
      4.0 * static_cast<double>(microBatch * whole.problem.boundaryBytes) /
          degree;
  kind.state = StateRates::of(type.state, degree);
  // What rounding left of gradients is kept in f32, at most of all.
  if (whole.problem.roundedGradientBytes && type.keepsFeedback())
    kind.state.replicated +=
        static_cast<double>(whole.problem.gradientBytes) / degree;
  kind.optimizerSeconds = type.optimizerSeconds / degree;
  std::multimap<double, GeoProblem::Mode> bySeconds;
  for (const HybridProblem::Mode &mode : type.modes) {
    if (mode.microBatch != microBatch || mode.tensorDegree != degree)
      continue;
    double seconds = 0;
    for (const HybridProblem::UnitCost &unit : mode.units)
      seconds += unit.forward + unit.backward;
    bySeconds.emplace(seconds, convert(mode));
  }
  for (auto &[seconds, mode] : bySeconds) {
    // What is slower as a whole is taken to be so in each unit.
    if (!kind.modes.empty())
      for (size_t i = 0; i < mode.forward.size(); ++i) {
        const GeoProblem::Mode &faster = kind.modes.back();
        mode.forward[i] = std::max(mode.forward[i], faster.forward[i]);
        mode.backward[i] = std::max(mode.backward[i], faster.backward[i]);
      }
    kind.modes.push_back(std::move(mode));
  }
  return kind.modes.empty() ? std::nullopt : std::optional(std::move(kind));
}

/// Ranks of a type in a node, in the order of the cluster, so many at a time.
void GeoProblemBuilder::addDevices(GeoCluster &geo) const {
  for (size_t kind = 0; kind < whole.devices.size(); ++kind) {
    std::vector<int> together;
    int last = -1;
    for (int rank : whole.devices[kind].ranks) {
      int node = cluster.ranks[rank].node;
      if (node != last)
        together.clear();
      last = node;
      together.push_back(rank);
      if (static_cast<int>(together.size()) < geo.tensorDegrees[kind])
        continue;
      geo.problem.devices.push_back({static_cast<int>(kind), node});
      geo.ranks.push_back(std::move(together));
      together.clear();
    }
  }
}

/// `degrees` says of how many devices those of each node are at least.
void GeoProblemBuilder::addLinks(GeoProblem &problem,
                                 const std::vector<int> &degrees) const {
  int nodes = static_cast<int>(cluster.nodes.size());
  for (int i = 0; i < nodes; ++i)
    for (int j = 0; j < nodes; ++j) {
      // What reaches a node slower one way, is taken to do so both ways.
      LinkSpeed slower{0, std::numeric_limits<double>::infinity()};
      for (std::optional<LinkSpeed> link :
           {cluster.findLink(i, j), cluster.findLink(j, i)})
        if (link)
          slower = takeSlower(slower, *link);
      // Each of those that share a unit has a part of the message.
      slower.overhead /= std::min(degrees[i], degrees[j]);
      problem.links.push_back(slower);
    }
}

std::optional<GeoCluster>
GeoProblemBuilder::build(int64_t microBatch, int degree, bool mayBeLeft) const {
  const HybridProblem &from = whole.problem;
  GeoCluster geo;
  geo.globalBatch = from.globalBatch;
  geo.microBatch = microBatch;
  bool reached = false;
  for (size_t type = 0; type < from.types.size(); ++type) {
    int own = getDegree(from.types[type], microBatch, degree, mayBeLeft);
    reached |= own == degree;
    std::optional<GeoProblem::Kind> kind =
        own ? makeKind(from.types[type], microBatch, own) : std::nullopt;
    if (!kind)
      return std::nullopt;
    geo.problem.kinds.push_back(std::move(*kind));
    geo.types.push_back(whole.devices[type].type);
    geo.tensorDegrees.push_back(own);
  }
  // Otherwise it is the same as with fewer.
  if (!reached)
    return std::nullopt;
  addDevices(geo);
  std::vector<int> least(cluster.nodes.size(), degree);
  for (const GeoProblem::Device &device : geo.problem.devices)
    least[device.node] =
        std::min(least[device.node], geo.tensorDegrees[device.kind]);
  // The check says that more are too many.
  if (geo.problem.devices.size() <= GeoProblem::largestDevices)
    addLinks(geo.problem, least);
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    int node = static_cast<int>(i);
    LinkSpeed inside =
        cluster.findLink(node, node)
            .value_or(LinkSpeed{0, std::numeric_limits<double>::infinity()});
    inside.bandwidth *= least[i];
    inside.overhead /= least[i];
    geo.problem.nodes.push_back(
        {cluster.nodes[i].name, inside, CollectiveLibrary::None});
  }
  // Where unlike devices share a node, that of most steps.
  for (const ClusterRank &rank : cluster.ranks) {
    CollectiveLibrary &library = geo.problem.nodes[rank.node].library;
    library = std::max(library,
                       getCollectiveLibrary(cluster.types[rank.type].target));
  }
  geo.problem.parameters = from.parameters;
  geo.problem.gradientBytes = from.getGradientBytes();
  geo.problem.parameterBytes = static_cast<double>(from.parameterBytes);
  geo.problem.boundaryBytes =
      static_cast<double>(microBatch * from.boundaryBytes);
  geo.problem.microBatches = (from.globalBatch + microBatch - 1) / microBatch;
  geo.problem.schedules = from.schedules;
  return geo;
}

std::vector<GeoCluster> poplar::makeGeoProblems(const ClusterView &cluster,
                                                const HybridCluster &whole,
                                                std::string &error) {
  std::set<int64_t> microBatches;
  std::set<int> degrees;
  for (const HybridProblem::DeviceType &type : whole.problem.types)
    for (const HybridProblem::Mode &mode : type.modes) {
      microBatches.insert(mode.microBatch);
      degrees.insert(mode.tensorDegree);
    }
  GeoProblemBuilder builder(cluster, whole);
  std::vector<GeoCluster> problems;
  std::set<std::pair<int64_t, std::vector<int>>> known;
  for (int64_t microBatch : microBatches)
    for (int degree : degrees)
      for (bool mayBeLeft : {false, true})
        if (std::optional<GeoCluster> geo =
                builder.build(microBatch, degree, mayBeLeft);
            geo && known.insert({microBatch, geo->tensorDegrees}).second) {
          error = geo->problem.check();
          // With a larger degree there are fewer devices.
          if (error.empty())
            problems.push_back(std::move(*geo));
        }
  if (!problems.empty())
    error.clear();
  return problems;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// The plans that are played, of those that cost at most so much more than the
/// best.
static constexpr size_t mostPlayed = 16, mostSimulated = 64;
static constexpr double finalistMargin = 1.5;

/// Leaves the fastest of `plans` by simulation.
static std::vector<GeoChoice::Finalist>
takeFinalists(const std::vector<GeoCluster> &problems,
              std::vector<std::pair<size_t, GeoPlan>> plans, double best) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const auto &a, const auto &b) {
                     return a.second.seconds < b.second.seconds;
                   });
  std::vector<GeoChoice::Finalist> finalists;
  for (auto &[index, plan] : plans) {
    if (plan.seconds > best * finalistMargin ||
        finalists.size() >= mostSimulated)
      break;
    // Those of the longer search are often those of the first look.
    bool isKnown = std::any_of(
        finalists.begin(), finalists.end(),
        [index = index, &plan = plan](const GeoChoice::Finalist &other) {
          return other.problem == index && other.plan.seconds == plan.seconds &&
                 other.plan.schedule == plan.schedule &&
                 other.plan.stages.size() == plan.stages.size() &&
                 other.plan.pipelines() == plan.pipelines();
        });
    if (isKnown)
      continue;
    double seconds = simulateGeoPlan(problems[index].problem, plan).seconds;
    finalists.push_back({index, std::move(plan), seconds});
  }
  std::stable_sort(
      finalists.begin(), finalists.end(),
      [](const auto &a, const auto &b) { return a.seconds < b.seconds; });
  if (finalists.size() > mostPlayed)
    finalists.resize(mostPlayed);
  return finalists;
}

GeoChoice poplar::searchGeoClusters(const std::vector<GeoCluster> &problems,
                                    int64_t effort, double limit,
                                    const Deadline &deadline) {
  GeoChoice choice;
  double bound = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, size_t>> order;
  std::vector<std::pair<size_t, GeoPlan>> plans;
  auto take = [&](size_t index, GeoSearchResult result) {
    if (result.plan)
      plans.emplace_back(index, *result.plan);
    for (GeoPlan &other : result.others)
      plans.emplace_back(index, std::move(other));
    if (!result.plan)
      choice.search.error = result.error;
    else if (!choice.search.plan ||
             result.plan->seconds < choice.search.plan->seconds) {
      choice.problem = index;
      choice.search.plan = std::move(result.plan);
    }
  };
  auto count = static_cast<int64_t>(problems.size());
  size_t devices = 0;
  for (const GeoCluster &problem : problems)
    devices = std::max(devices, problem.problem.devices.size());
  effort = std::min(effort, effortPerDevice * static_cast<int64_t>(devices));
  // The cost takes the last micro-batch for a whole one.
  auto getLimit = [&](size_t i) {
    const GeoCluster &own = problems[i];
    return limit * static_cast<double>(own.problem.microBatches) *
           static_cast<double>(own.microBatch) /
           static_cast<double>(own.globalBatch);
  };
  for (size_t i = 0; i < problems.size(); ++i) {
    GeoSearchResult result = searchGeoPlan(
        problems[i].problem, effort / lookShare / count, getLimit(i), deadline);
    bound = std::min(bound, result.lowerBound);
    if (result.plan)
      order.emplace_back(result.plan->seconds, i);
    take(i, std::move(result));
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), mostSearched));
  for (auto [seconds, i] : order)
    if (!deadline.isOver())
      take(i, searchGeoPlan(problems[i].problem,
                            (effort - effort / lookShare) /
                                static_cast<int64_t>(order.size()),
                            getLimit(i), deadline));
  if (choice.search.plan) {
    choice.search.error.clear();
    choice.finalists =
        takeFinalists(problems, std::move(plans), choice.search.plan->seconds);
  }
  choice.search.lowerBound = bound;
  return choice;
}

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

std::vector<GeoLinkLoad> poplar::findLinkLoads(const GeoProblem &problem,
                                               const GeoPlan &plan) {
  std::map<std::pair<int, int>, GeoLinkLoad> loads;
  auto load = [&](int node, int other) -> GeoLinkLoad & {
    auto [low, high] = std::minmax(node, other);
    GeoLinkLoad &entry = loads[{low, high}];
    entry.node = low;
    entry.otherNode = high;
    return entry;
  };
  auto getNode = [&](size_t j, size_t k) {
    return problem.devices[plan.stages[j][k]].node;
  };
  for (size_t j = 0; j < plan.stages.size(); ++j) {
    std::set<int> nodes;
    for (size_t k = 0; k < plan.pipelines(); ++k) {
      int node = getNode(j, k);
      nodes.insert(node);
      if (j + 1 < plan.stages.size() && getNode(j + 1, k) != node)
        load(node, getNode(j + 1, k)).activationBytes +=
            2 * problem.boundaryBytes *
            static_cast<double>(plan.microBatches[k]);
    }
    const UnitElements &all = problem.parameters;
    ParameterElements own =
        all.count(plan.cuts[j], plan.cuts[j + 1]) -
        all.countTiedOutside(plan.cuts[j], plan.cuts[j + 1]);
    double each = static_cast<double>(own.trained) *
                  (problem.gradientBytes + problem.parameterBytes) /
                  static_cast<double>(nodes.size());
    for (int node : nodes)
      for (int other : nodes)
        if (node < other)
          load(node, other).gradientBytes += 2 * each;
  }
  if (problem.parameters.tied.trained > 0 && plan.stages.size() > 1)
    for (size_t k = 0; k < plan.pipelines(); ++k) {
      int first = getNode(0, k), last = getNode(plan.stages.size() - 1, k);
      if (first != last)
        load(first, last).gradientBytes +=
            static_cast<double>(problem.parameters.tied.trained) *
            (problem.gradientBytes + problem.parameterBytes);
    }
  double seconds = simulateGeoPlan(problem, plan).seconds;
  std::vector<GeoLinkLoad> list;
  GeoProblem faster = problem;
  for (auto &[nodes, entry] : loads) {
    size_t count = problem.nodes.size();
    LinkSpeed &link = faster.links[entry.node * count + entry.otherNode],
              &back = faster.links[entry.otherNode * count + entry.node],
              own = link;
    link = back = {0, std::numeric_limits<double>::infinity()};
    entry.seconds = seconds - simulateGeoPlan(faster, plan).seconds;
    link = back = own;
    list.push_back(entry);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const GeoLinkLoad &a, const GeoLinkLoad &b) {
                     return a.seconds > b.seconds;
                   });
  return list;
}
