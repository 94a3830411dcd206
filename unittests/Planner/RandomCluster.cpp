//===- RandomCluster.cpp - Small clusters for tests -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomCluster.h"

using namespace poplar;

DeviceType test::makeDeviceType(const std::string &name, int64_t memory) {
  DeviceType type;
  type.name = name;
  type.target = "host";
  type.memory = memory;
  type.precision = NumberFormat::F32;
  type.recompute = RecomputePolicy::Keep;
  return type;
}

DeviceProfile test::makeDeviceProfile(int type, int stage,
                                      RecomputePolicy recompute) {
  DeviceProfile profile;
  profile.type = type;
  profile.stage = stage;
  profile.microBatches = {1, 8};
  profile.seconds = {1, 8};
  profile.memory = DeviceProfile::Memory{16000, 1000};
  profile.precision = NumberFormat::F32;
  profile.recompute = recompute;
  profile.isEstimate = false;
  return profile;
}

test::RandomCluster test::makeRandomCluster(std::mt19937 &random) {
  auto real = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  RandomCluster made;
  ClusterView &cluster = made.cluster;
  made.model.parameters.trained = 1000;
  made.model.buckets = static_cast<int64_t>(random() % 3);
  made.model.largestBucket = made.model.buckets ? 400 : 0;
  made.model.firstBucket = made.model.buckets ? 200 : 0;
  made.model.lastBucket = made.model.buckets ? 300 : 0;
  made.model.gatheredForward = made.model.reduced = {made.model.buckets, 1000};
  made.model.gatheredBackward = {made.model.buckets / 2, 600};
  int types = 1 + static_cast<int>(random() % 3);
  for (int type = 0; type < types; ++type) {
    cluster.types.push_back(
        makeDeviceType("t" + std::to_string(type), 10000 + random() % 20000));
    for (int stage = 0; stage < 4; ++stage) {
      double speed = 0.2 + real(), fixed = real() * 0.5;
      auto perSample = static_cast<int64_t>(500 + random() % 4000);
      for (bool recomputes : {false, true}) {
        if (recomputes && random() % 2)
          continue;
        DeviceProfile profile = makeDeviceProfile(
            type, stage,
            recomputes ? RecomputePolicy::Unit : RecomputePolicy::Keep);
        int64_t last = 2 + random() % 5;
        double slower = recomputes ? 1.3 : 1;
        profile.microBatches = {1, last};
        profile.seconds = {slower * (fixed + speed),
                           slower * (fixed + speed * double(last))};
        profile.memory = DeviceProfile::Memory{16000, recomputes ? perSample / 4
                                                                 : perSample};
        profile.optimizerSeconds = real() * 0.3;
        cluster.profiles.push_back(profile);
      }
    }
  }
  int nodes = 1 + static_cast<int>(random() % 2);
  int devices = 1 + static_cast<int>(random() % 4);
  for (int node = 0; node < nodes; ++node) {
    int first = static_cast<int>(cluster.ranks.size());
    for (int i = 0; i < devices / nodes + (node == 0 ? devices % nodes : 0);
         ++i)
      cluster.ranks.push_back({node, static_cast<int>(random() % types)});
    cluster.nodes.push_back({"n" + std::to_string(node), first,
                             static_cast<int>(cluster.ranks.size()) - first});
  }
  cluster.defaultInside = LinkSpeed{0, 20000 + real() * 1e5};
  cluster.defaultBetween = LinkSpeed{0.01 * real(), 5000 + real() * 1e5};
  return made;
}
