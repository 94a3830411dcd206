//===- RecomputedLayers.cpp - Profiles of some layers ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/RecomputedLayers.h"
#include <algorithm>
#include <set>

using namespace poplar;

/// Seconds that the policy adds to a step of `batch` samples.
static double getAdded(const Curve &keep, const Curve &all, int64_t batch) {
  int64_t known = std::min({batch, keep.largest(), all.largest()});
  if (known == 0)
    return 0;
  return std::max(all.seconds(known) - keep.seconds(known), 0.0) *
         static_cast<double>(batch) / static_cast<double>(known);
}

std::optional<DeviceProfile::Memory>
RecomputedLayers::getMemory(const DeviceProfile &keep, const DeviceProfile &all,
                            int64_t count) const {
  if (!keep.memory || !all.memory)
    return std::nullopt;
  int64_t perSample = keep.memory->perSample;
  for (int64_t i = 0; i < count; ++i)
    perSample -= layers[i].savedBytes;
  return DeviceProfile::Memory{std::max(keep.memory->fixed, all.memory->fixed),
                               std::max(perSample, all.memory->perSample)};
}

std::optional<DeviceProfile> RecomputedLayers::derive(const DeviceProfile &keep,
                                                      const DeviceProfile &all,
                                                      int64_t count) const {
  std::string error;
  std::optional<Curve> kept = keep.fitCurve(error), again = all.fitCurve(error);
  auto memory = getMemory(keep, all, count);
  if (!kept || !again || !memory || kept->largest() == 0)
    return std::nullopt;
  double share = 0;
  for (int64_t i = 0; i < count; ++i)
    share += layers[i].share;
  share = std::min(share, 1.0);

  DeviceProfile profile = all;
  profile.recompute = {policy, count};
  profile.isEstimate |= keep.isEstimate;
  profile.memory = memory;
  std::set<int64_t> batches(all.microBatches.begin(), all.microBatches.end());
  for (int64_t batch : keep.microBatches)
    if (batch < again->largest())
      batches.insert(batch);
  profile.microBatches.assign(batches.begin(), batches.end());
  profile.seconds.clear();
  for (int64_t batch : batches) {
    double added = getAdded(*kept, *again, batch);
    profile.seconds.push_back(again->seconds(batch) - (1 - share) * added);
  }
  double spread = 0;
  for (const std::vector<double> *known : {&keep.spread, &all.spread})
    for (double it : *known)
      spread = std::max(spread, it);
  if (!keep.spread.empty() || !all.spread.empty())
    profile.spread.assign(batches.size(), spread);
  // Memory says what fits; the profiles were measured as far as it did.
  return profile;
}
