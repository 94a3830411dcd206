//===- WatchFacts.cpp - What is said of a run that goes on ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WatchFacts.h"
#include "ReportSections.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <cstdio>

using namespace poplar;
using llvm::StringRef;

static constexpr StringRef deviceColumns =
    "step,rank,device,host,seconds,waiting,communicating,memory";
/// Rows of a rank that are shown.
static constexpr size_t mostActivities = 12;
/// Steps whose median speed is shown.
static constexpr size_t mostSpeeds = 100;
/// A run of which nothing was heard for so many seconds may have stopped.
static constexpr double silence = 60;

static bool readDeviceRow(StringRef line, DeviceTimes &row) {
  llvm::SmallVector<StringRef, 8> cells;
  line.split(cells, ',');
  if (cells.size() != 8)
    return false;
  row.device = cells[2].str();
  row.host = cells[3].str();
  return !cells[0].getAsInteger(10, row.step) &&
         !cells[1].getAsInteger(10, row.rank) &&
         !cells[4].getAsDouble(row.seconds) &&
         !cells[5].getAsDouble(row.waiting) &&
         !cells[6].getAsDouble(row.communicating) &&
         !cells[7].getAsInteger(10, row.memory);
}

std::optional<std::vector<DeviceTimes>>
poplar::readDeviceTimes(const std::string &text, std::string &error) {
  std::vector<DeviceTimes> rows;
  StringRef rest = text;
  for (int64_t number = 1; rest.contains('\n'); ++number) {
    auto [line, after] = rest.split('\n');
    rest = after;
    DeviceTimes row;
    if (number == 1 ? line == deviceColumns : readDeviceRow(line, row)) {
      if (number > 1)
        rows.push_back(std::move(row));
      continue;
    }
    error = std::to_string(number) + ": expected '" + deviceColumns.str() +
            (number == 1 ? "'" : "' in numbers and names");
    return std::nullopt;
  }
  return rows;
}

std::string poplar::formatDuration(double seconds) {
  auto whole = static_cast<long long>(seconds);
  char text[48];
  if (whole >= 3600)
    std::snprintf(text, sizeof(text), "%lld h %lld min", whole / 3600,
                  whole / 60 % 60);
  else if (whole >= 60)
    std::snprintf(text, sizeof(text), "%lld min %lld s", whole / 60,
                  whole % 60);
  else
    std::snprintf(text, sizeof(text), "%lld s", whole);
  return text;
}

/// The median of the last steps; 0 without one.
static double getMedianSpeed(const std::vector<MeasuredStep> &steps) {
  std::vector<double> speeds;
  size_t first = steps.size() - std::min(steps.size(), mostSpeeds);
  for (size_t i = first; i < steps.size(); ++i)
    speeds.push_back(steps[i].tokensPerSecond);
  return speeds.empty() ? 0 : getMedian(std::move(speeds));
}

WatchFacts::WatchFacts(const WatchInput &input)
    : tokensPerSecond(getMedianSpeed(input.steps)) {
  for (const DeviceTimes &row : input.devices)
    ranks[row.rank].rows.push_back(row);
  for (auto &[number, rank] : ranks) {
    size_t more = rank.rows.size() - std::min(rank.rows.size(), mostActivities);
    rank.rows.erase(rank.rows.begin(), rank.rows.begin() + long(more));
    for (const DeviceTimes &row : rank.rows) {
      rank.seconds += row.seconds;
      rank.waiting += std::min(row.waiting, row.seconds);
      rank.communicating += std::min(row.communicating, row.seconds);
    }
  }
  for (const MeasuredStep &step : input.steps)
    if (step.evalLoss)
      validation = step.evalLoss;
  if (input.steps.empty()) {
    progress = "no step yet";
    state = "waiting for the first step";
    return;
  }
  const MeasuredStep &last = input.steps.back();
  progress = "step " + formatQuantity(double(last.step));
  bool isDone = input.lastStep && last.step >= *input.lastStep;
  if (input.lastStep)
    progress += " of " + formatQuantity(double(*input.lastStep));
  if (!isDone && input.lastStep && last.seconds && last.step > 0)
    secondsLeft =
        *last.seconds / double(last.step) * double(*input.lastStep - last.step);
  if (isDone)
    state = "all steps are done";
  else
    state = "the last step was written " + formatDuration(input.age) + " ago";
  if (!isDone && input.age > silence)
    state += "; if the run has stopped, the command that started it goes on "
             "with --resume";
}
