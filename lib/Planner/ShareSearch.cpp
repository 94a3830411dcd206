//===- ShareSearch.cpp - Who holds how much of the state ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShareSearch.h"
#include <algorithm>
#include <set>

using namespace poplar;

bool ShareSearch::consider(std::optional<std::vector<double>> state) {
  std::string error;
  if (!state)
    return false;
  auto problem =
      makeBatchProblem(view, model, stage, globalBatch, *state, error);
  if (!problem)
    return false;
  auto allocation = policy.solve(*problem, error);
  // Differences by rounding are none.
  if (!allocation ||
      (best && allocation->seconds >= best->allocation.seconds * (1 - 1e-12)))
    return false;
  best = {std::move(*state), std::move(*problem), std::move(*allocation)};
  return true;
}

void ShareSearch::tryReserves(size_t tries) {
  std::set<int64_t> reserves = {0};
  std::vector<int> counts = view.countRanks();
  int64_t largest = 0;
  for (int type = 0; type < static_cast<int>(counts.size()); ++type) {
    const DeviceProfile *profile =
        view.findProfile(type, stage, model.fingerprint);
    if (counts[type] == 0 || !profile || !profile->memory)
      continue;
    const DeviceType &device = view.types[type];
    int64_t used = profile->microBatches.empty()
                       ? 0
                       : std::min(profile->microBatches.back(), globalBatch);
    int64_t fixed = getFixedBytes(*profile, device, model, stage, 0);
    largest = std::max(largest, device.memory - fixed);
    for (int64_t batch = 2; batch <= used; ++batch)
      reserves.insert((batch - 1) * profile->memory->perSample);
  }
  reserves.erase(reserves.upper_bound(largest), reserves.end());
  size_t stride = reserves.size() / tries + 1, index = 0;
  for (int64_t reserve : reserves) {
    std::string error;
    if (index++ % stride)
      continue;
    auto state = shareStateByMemory(view, model, stage, error, reserve);
    if (!state)
      return;
    if (consider(std::move(state)))
      bestReserve = reserve;
  }
}

std::optional<std::vector<double>>
ShareSearch::limit(const std::vector<double> &limits, int64_t reserve) const {
  std::vector<double> most;
  for (const ClusterRank &rank : view.ranks)
    most.push_back(limits[kinds[rank.type]]);
  std::string error;
  return shareStateByMemory(view, model, stage, error, reserve, most);
}

void ShareSearch::limitTypes(size_t tries) {
  if (!best)
    return;
  // All ranks reserve what they do in the best, or only what one sample takes.
  std::set<int64_t> reserves = {bestReserve, 0};
  std::vector<double> limits(view.types.size(), 1.0);
  for (bool improved = true; improved;) {
    improved = false;
    // The largest improvement of all, so that the order of types is nothing.
    std::vector<double> next = limits;
    const std::vector<double> state = best->state;
    double total = 0;
    for (double share : state)
      total += share;
    for (size_t kind = 0; kind < limits.size(); ++kind) {
      double held = 0;
      for (size_t rank = 0; rank < state.size(); ++rank)
        if (kinds[view.ranks[rank].type] == kind)
          held = std::max(held, state[rank] / total);
      for (int part = 0; part < 16 && held > 0; ++part)
        for (int64_t reserve : reserves) {
          if (tries == 0)
            return;
          --tries;
          std::vector<double> changed = limits;
          changed[kind] = held * part / 16;
          if (consider(limit(changed, reserve))) {
            next = changed;
            improved = true;
          }
        }
    }
    limits = next;
  }
}
