//===- WatchFacts.h - What is said of a run that goes on --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_REPORT_WATCHFACTS_H
#define POPLAR_LIB_REPORT_WATCHFACTS_H

#include "Poplar/Report/WatchPage.h"
#include <map>

namespace poplar {

/// The last rows of a rank, oldest first, and their sums.
struct RankActivity {
  std::vector<DeviceTimes> rows;
  double seconds = 0, waiting = 0, communicating = 0;

  const DeviceTimes &last() const { return rows.back(); }
  double getShare(double part) const {
    return seconds > 0 ? part / seconds : 0;
  }
};

/// What page and terminal say.
struct WatchFacts {
  explicit WatchFacts(const WatchInput &input);

  std::map<int64_t, RankActivity> ranks;
  std::optional<double> validation;
  /// Median of the last steps; 0 without one.
  double tokensPerSecond = 0;
  /// Until the last step, by the speed of the run so far.
  std::optional<double> secondsLeft;
  /// "step 30 of 300"
  std::string progress;
  /// "the last step was 3 s ago"; says what to do about a run that stands
  /// still.
  std::string state;
};

/// "4 min 10 s"
std::string formatDuration(double seconds);

} // namespace poplar

#endif // POPLAR_LIB_REPORT_WATCHFACTS_H
