//===- Verdict.h - A plan in one sentence -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_WORKFLOW_VERDICT_H
#define POPLAR_LIB_WORKFLOW_VERDICT_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace poplar {

/// What a plan gives the devices of a type.
struct PlannedDevices {
  int devices = 0;
  /// Samples of an iteration, all devices together; 0 in a pipeline, where a
  /// device computes a part of each sample.
  int64_t samples = 0;
  /// The most bytes that a device needs; 0 if the plan does not say it.
  int64_t peakBytes = 0;
};

/// A plan's JSON (`poplar plan --json`), as far as a verdict needs it.
struct PlannedJob {
  /// "ZeRO stage 1", "pipeline stages", "distant devices".
  std::string kind;
  int64_t globalBatch = 0;
  /// An iteration, simulated.
  double seconds = 0;
  /// By device type.
  std::map<std::string, PlannedDevices> types;
};

/// Reads such a file; nothing, with `error` set, if it is none.
std::optional<PlannedJob> readPlannedJob(const std::string &path,
                                         std::string &error);

/// How a plan compares with each device alone, and what each device needs.
/// `alone` has the seconds of an iteration on one device of each type that can
/// hold the job, `memory` the bytes of each type. `source` is "measured" or
/// "estimated".
std::string formatVerdict(const PlannedJob &job,
                          const std::map<std::string, double> &alone,
                          const std::map<std::string, int64_t> &memory,
                          const std::string &source);

} // namespace poplar

#endif // POPLAR_LIB_WORKFLOW_VERDICT_H
