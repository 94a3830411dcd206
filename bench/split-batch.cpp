//===- split-batch.cpp - Batches of two unlike ranks ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: split-batch POLICY GLOBAL_BATCH CURVE CURVE...
//
// Where there is no LLVM, the planner is still there: shares a global batch
// among ranks that meet once per iteration (stage 0), one for each curve of
// measured seconds, `1=0.010,2=0.017,4=0.031`. Prints a line `micro_batch steps
// last` for each, as in ranks.txt.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include <cstdio>
#include <cstdlib>
#include <sstream>

using namespace poplar;

static bool parseCurve(const std::string &text, Curve &curve,
                       std::string &error) {
  std::vector<Curve::Point> points;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    Curve::Point point = {0, 0};
    long long batch = 0;
    if (std::sscanf(entry.c_str(), "%lld=%lf", &batch, &point.seconds) != 2) {
      error = "'" + entry + "' is not BATCH=SECONDS";
      return false;
    }
    point.batch = batch;
    points.push_back(point);
  }
  std::optional<Curve> fitted = Curve::fit(std::move(points), error);
  if (fitted)
    curve = *fitted;
  return fitted.has_value();
}

int main(int argc, char **argv) {
  std::string error = "usage: split-batch POLICY GLOBAL_BATCH CURVE CURVE...";
  auto fail = [&] {
    std::fprintf(stderr, "split-batch: error: %s\n", error.c_str());
    return 1;
  };
  if (argc < 5)
    return fail();
  BatchProblem problem;
  problem.globalBatch = std::atoll(argv[2]);
  for (int i = 3; i < argc; ++i) {
    BatchProblem::DeviceType type;
    type.name = "rank" + std::to_string(i - 3);
    type.count = 1;
    if (!parseCurve(argv[i], type.curve, error))
      return fail();
    type.largestBatch = type.curve.largest();
    problem.types.push_back(std::move(type));
  }
  auto policy = makePolicy(argv[1], error);
  if (!policy)
    return fail();
  std::optional<Allocation> plan = policy->solve(problem, error);
  if (!plan)
    return fail();
  for (size_t type = 0; type < problem.types.size(); ++type) {
    RankShare share = plan->shareOf(type, 0);
    // A rank without samples takes a step of none.
    std::printf("%lld %lld %lld\n", static_cast<long long>(share.microBatch),
                static_cast<long long>(share.steps ? share.steps : 1),
                static_cast<long long>(share.last));
  }
  return 0;
}
