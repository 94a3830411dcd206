//===- RandomCluster.h - Small clusters for tests ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_RANDOMCLUSTER_H
#define POPLAR_UNITTESTS_PLANNER_RANDOMCLUSTER_H

#include "Poplar/Planner/Zero/ZeroProblem.h"
#include <random>

namespace poplar::test {

/// Computes in f32 and keeps what it can.
DeviceType makeDeviceType(const std::string &name, int64_t memory);

/// 1 s a sample, up to 8, on a device of 16 000 bytes and 1000 a sample.
DeviceProfile makeDeviceProfile(int type, int stage, RecomputePolicy recompute);

struct RandomCluster {
  ClusterView cluster;
  ModelFacts model;
};

/// One to four devices of up to three types on one or two nodes, with memory
/// for some stages and some samples, and profiles of one or two recomputation
/// policies in each stage.
RandomCluster makeRandomCluster(std::mt19937 &random);

} // namespace poplar::test

#endif // POPLAR_UNITTESTS_PLANNER_RANDOMCLUSTER_H
