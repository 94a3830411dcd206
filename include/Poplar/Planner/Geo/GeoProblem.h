//===- GeoProblem.h - Pipelines over unlike, distant devices ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// DT-FM's problem (Placement.h) with what it leaves out, apart from the
// algorithms (GeoSearch.h): devices compute at unlike speeds and have limited
// memory, micro-batches overlap, stages own unlike ranges of units, pipelines
// take unlike numbers of micro-batches, and the numbers of stages S and of
// pipelines D are free; devices may be left out.
//
// Device stages[j][k] computes stage j of pipeline k. Let f and b be its
// seconds for a micro-batch's forward and backward pass, in the first of its
// kind's modes that fits into its memory, and c those of its message to the
// next stage. Between nodes N and N' the delay is alpha, the bandwidth beta;
// inside a node, lambda and B.
//
//   c_jk = alpha + h A / beta     with A bytes of activations; h is how many of
//     the stage's devices in that node send to another node, or how many of the
//     next stage's receive from one there, whichever is more
//   f, b: each A o longer for the message that comes and the one that leaves,
//     with the overhead o of its link: what the cores that compute move
//   s_j  = max over the nodes N of the stage's devices of
//            2 l_r lambda + (r - 1)/r X / B      (if r > 1 of them are in N)
//          + sum over its other nodes N' of 2 alpha + X / (n beta)
//          + max over its devices of the optimizer's seconds / D
//     with n nodes, l_r messages that follow one another among r devices
//     (CollectiveLatency.h), and X the bytes of the stage's gradients and
//     parameters, which are reduced and gathered once an iteration (ZeRO stage
//     1). Where each device is a node, as in DT-FM, this is its DATAP.
//   s_jk = s_j, and in the first and last stage, if they share parameters,
//     2 alpha + Y / beta between the two devices of pipeline k, with Y the
//     bytes of gradients and parameters of these, which are then no part of X
//
// P_k and E_k are made of f, b, c and s as for a lane of a hybrid plan
// (HybridProblem.h). An iteration takes the longest (m_k - 1) P_k + E_k, where
// pipeline k takes m_k micro-batches. In flight are S - j of them in stage j
// with 1F1B, if there are as many, and m_k with GPipe.
//
// Units: bytes, seconds, bytes per second.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_GEO_GEOPROBLEM_H
#define POPLAR_PLANNER_GEO_GEOPROBLEM_H

#include "Poplar/Planner/Model/ParameterBytes.h"
#include "Poplar/Planner/Pipeline/HybridProblem.h"

namespace poplar {

struct GeoProblem {
  /// A way to compute: of a micro-batch, by unit.
  struct Mode {
    RecomputePolicy recompute = RecomputePolicy::Keep;
    std::vector<double> forward, backward;
    /// Kept from forward to backward; needed while the unit computes.
    std::vector<double> savedBytes, workBytes;
  };
  /// Devices that are alike.
  struct Kind {
    std::string name;
    /// A device's memory, and what of it is taken whatever the device computes.
    double memory = 0, fixedBytes = 0;
    /// Bytes of what it holds of the stage's parameters.
    StateRates state;
    /// The optimizer's seconds per trained parameter, divided among the devices
    /// of the group.
    double optimizerSeconds = 0;
    /// None is faster in a unit than those before it.
    std::vector<Mode> modes;
  };
  struct Node {
    std::string name;
    /// Between its devices, and what they collect by.
    LinkSpeed inside = {0, 0};
    CollectiveLibrary library = CollectiveLibrary::None;
  };
  struct Device {
    int kind = 0, node = 0;
  };

  std::vector<Kind> kinds;
  std::vector<Node> nodes;
  std::vector<Device> devices;
  /// nodes x nodes, symmetric. The diagonal is not read.
  std::vector<LinkSpeed> links;
  UnitElements parameters;
  /// On the wire, of an element. X has the sum of both.
  double gradientBytes = 4, parameterBytes = 2;
  /// A: a micro-batch's activations between two stages.
  double boundaryBytes = 0;
  /// Micro-batches of an iteration, in all pipelines.
  int64_t microBatches = 1;
  /// S, if it is fixed; 0 if it may be chosen.
  int stages = 0;
  std::vector<PipelineSchedule> schedules = {
      PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe};

  static constexpr size_t largestDevices = 1024;

  /// Empty if the problem makes sense, else what is wrong with it, and where.
  std::string check() const;

  int units() const { return parameters.size(); }
  const LinkSpeed &getLink(int node, int otherNode) const {
    return node == otherNode ? nodes[node].inside
                             : links[node * nodes.size() + otherNode];
  }
};

/// A solution.
struct GeoPlan {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  /// stages[j][k] computes stage j of pipeline k, that is, units
  /// [cuts[j], cuts[j + 1]).
  std::vector<std::vector<int>> stages;
  std::vector<int> cuts;
  /// By pipeline.
  std::vector<int64_t> microBatches;
  /// Seconds of an iteration.
  double seconds = 0;

  size_t pipelines() const { return stages.empty() ? 0 : stages[0].size(); }
  /// Parallel to `stages`: the mode that each computes in, the same for devices
  /// of a kind in a stage; -1 if it does not fit.
  std::vector<std::vector<int>> getModes(const GeoProblem &problem) const;
  /// The cost in the head of this file; infinite if a stage does not fit.
  double predict(const GeoProblem &problem) const;
  /// Empty if this solves `problem` in the time it claims, else names the
  /// violation and the place.
  std::string verify(const GeoProblem &problem) const;
};

} // namespace poplar

#endif // POPLAR_PLANNER_GEO_GEOPROBLEM_H
