//===- WatchPage.h - A run while it goes on ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_REPORT_WATCHPAGE_H
#define POPLAR_REPORT_WATCHPAGE_H

#include "Poplar/Import/GPUSensors.h"
#include "Poplar/Report/PlanReport.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

/// A row of RUN/devices.csv: what a rank did in the steps since its last row
/// (runtime/job/DeviceRecord.h). Seconds and bytes.
struct DeviceTimes {
  int64_t step = 0, rank = 0;
  std::string device, host;
  double seconds = 0, waiting = 0, communicating = 0;
  int64_t memory = 0;
};

/// Reads devices.csv as a run writes it; a last row that is not complete yet is
/// left out. Fails, with `error` set to one line that begins with the number of
/// the line, if it is none.
std::optional<std::vector<DeviceTimes>> readDeviceTimes(const std::string &text,
                                                        std::string &error);

struct WatchInput {
  /// The run's directory.
  std::string name;
  std::vector<MeasuredStep> steps;
  std::vector<DeviceTimes> devices;
  /// GPUs of the machine that watches.
  std::vector<GPUSensors> gpus;
  /// The step that the run ends with, if that is known.
  std::optional<int64_t> lastStep;
  /// Seconds since something was written.
  double age = 0;
};

/// What changes while a run goes on: the content of <main>.
std::string formatWatchView(const WatchInput &input);
/// The page around it, which asks for `view` again every two seconds. It has
/// one script of its own and refers to nothing else.
std::string formatWatchPage(const WatchInput &input);
/// The same for a terminal of so many columns.
std::string formatWatchText(const WatchInput &input, size_t columns);

} // namespace poplar

#endif // POPLAR_REPORT_WATCHPAGE_H
