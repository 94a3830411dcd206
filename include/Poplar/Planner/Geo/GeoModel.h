//===- GeoModel.h - The distant devices of a cluster ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a cluster to problems of pipelines over distant devices, and back. A
// device of a problem is one of the cluster, or several in a node that share
// units (tensor parallel). There is a problem for each micro-batch and tensor
// degree; what they compute is taken from the hybrid problem of the cluster.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_GEO_GEOMODEL_H
#define POPLAR_PLANNER_GEO_GEOMODEL_H

#include "Poplar/Planner/Geo/GeoSearch.h"
#include "Poplar/Planner/Pipeline/HybridResult.h"

namespace poplar {

struct GeoCluster {
  GeoProblem problem;
  int64_t globalBatch = 0, microBatch = 1;
  /// By device of the problem: ranks of the cluster.
  std::vector<std::vector<int>> ranks;
  /// By kind of the problem: device type of the cluster, and how many of them
  /// are a device.
  std::vector<int> types, tensorDegrees;
};

/// The problems of `whole`, which is of makeGeoSource(). Empty, with
/// `error` set, where there are too many devices.
std::vector<GeoCluster> makeGeoProblems(const ClusterView &cluster,
                                        const HybridCluster &whole,
                                        std::string &error);

/// The best plan of all problems, and which of them it solves. All are searched
/// a little, then those of the best plans at length.
struct GeoChoice {
  size_t problem = 0;
  /// Its bound is one of all problems.
  GeoSearchResult search;
  /// What is worth playing, pass by pass: plans of all problems and shapes, by
  /// PipelineSimulation.h the fastest first; the best among them.
  struct Finalist {
    size_t problem;
    GeoPlan plan;
    double seconds;
  };
  std::vector<Finalist> finalists;
};
/// Shapes whose bound says that no plan of theirs is faster than one that takes
/// `limit` are not looked for.
GeoChoice
searchGeoClusters(const std::vector<GeoCluster> &problems,
                  int64_t effort = geoEffort,
                  double limit = std::numeric_limits<double>::infinity(),
                  const Deadline &deadline = Deadline());

struct GeoResult {
  HybridModel model;
  /// As HybridResult::isSlower.
  bool isSlower = false;
  /// What collectives round.
  LossyWires wires;
  GeoCluster cluster;
  /// The devices of the whole cluster.
  std::vector<HybridCluster::Devices> devices;
  /// Has a plan, unless it would be slower. The bound is one of all problems.
  GeoSearchResult search;
  PipelineSimulation simulation;
  /// As HybridResult::isPlayed.
  bool isPlayed = false;

  double getPredicted() const { return search.plan->seconds; }
  double getLowerBound() const { return search.lowerBound; }
  double getLowerBoundOfAll() const { return search.lowerBound; }
  bool isProven() const { return search.isProven(); }
};

/// What a link between two nodes has to do in an iteration.
struct GeoLinkLoad {
  int node = 0, otherNode = 0;
  /// Both ways: activations and their gradients; gradients and parameters.
  double activationBytes = 0, gradientBytes = 0;
  /// How much less the iteration would take, simulated, if the link was
  /// infinitely fast and the plan the same.
  double seconds = 0;
};

/// The loads of all links that a plan uses, those that cost most first.
std::vector<GeoLinkLoad> findLinkLoads(const GeoProblem &problem,
                                       const GeoPlan &plan);

} // namespace poplar

#endif // POPLAR_PLANNER_GEO_GEOMODEL_H
