//===- Placement.h - Which device computes which stage ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The placement problem and its solutions, apart from the algorithms that find
// them (PlacementSearch.h): equal devices on an unlike network are shared among
// the stages of a pipeline so that an iteration communicates least. After
// DT-FM (Yuan et al., NeurIPS 2022, section 3; arXiv 2206.01288).
//
// Each of D_PP stages is computed by a group C_j of D_DP devices, which train
// data parallel. Between devices d and d' the delay is alpha, the bandwidth
// beta. A stage has c_DP of gradients, a boundary c_PP of activations.
//
//   DATAP = max_j max_{d in C_j} sum_{d' in C_j, d' != d}
//             2 (alpha_dd' + c_DP / (D_DP beta_dd'))
//   w(j, j') = min over perfect matchings M of C_j with C_j' of
//             max_{(d, d') in M} 2 (alpha_dd' + c_PP / beta_dd')
//   PIPELINEP = the shortest Hamiltonian path over the groups by w
//
// The cost is DATAP + PIPELINEP. It says nothing of computation, of memory or
// of the overlap of micro-batches.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PLACEMENT_PLACEMENT_H
#define POPLAR_PLANNER_PLACEMENT_PLACEMENT_H

#include <string>
#include <vector>

namespace poplar {

struct PlacementProblem {
  /// Number of devices; at most `largestDevices`.
  int devices = 0;
  /// alpha in seconds and beta in Gbit/s, devices x devices in row-major order,
  /// symmetric. The diagonals are not read.
  std::vector<double> delay, bandwidth;
  /// D_PP, which divides `devices`.
  int stages = 0;
  /// c_DP and c_PP, in Gbit.
  double cDP = 0, cPP = 0;

  /// 256 MiB of matrices.
  static constexpr int largestDevices = 4096;

  /// Empty if the problem makes sense and has a solution, else what is wrong
  /// with it, and where.
  std::string check() const;

  /// D_DP.
  int pipelines() const { return devices / stages; }
  /// Seconds that d and d' add to DATAP if they share a group, and to
  /// PIPELINEP if one sends to the other. 0 if d == d'. DT-FM defines these;
  /// other plans cost what ExchangeCost.h says.
  double getDTFMDataParallelSeconds(int d, int dPrime) const;
  double getDTFMPipelineSeconds(int d, int dPrime) const;
};

/// A solution.
struct Placement {
  /// Devices by stage, in the order of the pipeline: stages[j][k] computes
  /// stage j in pipeline k and sends to stages[j + 1][k].
  std::vector<std::vector<int>> stages;
  /// DATAP and PIPELINEP of this very order and these very pipelines, seconds.
  double dataParallel = 0, pipeline = 0;

  double seconds() const { return dataParallel + pipeline; }

  /// Fills in the two costs. The placement must name every device once.
  void computeCost(const PlacementProblem &problem);
  /// Empty if this solves `problem` and costs what it claims, else names the
  /// violation and the place.
  std::string verify(const PlacementProblem &problem) const;
};

/// The most groups whose shortest path is found exactly; among more, the best
/// path that local search finds is taken.
constexpr int largestExactPath = 15;

/// Turns groups of devices into stages and pipelines: orders them along the
/// shortest path, and the devices of each by the best matchings along it. The
/// result's cost is the one above.
Placement arrange(const PlacementProblem &problem,
                  const std::vector<std::vector<int>> &groups);

} // namespace poplar

#endif // POPLAR_PLANNER_PLACEMENT_PLACEMENT_H
