//===- Metrics.h - The record of a run --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_METRICS_H
#define POPLAR_RUNTIME_METRICS_H

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace poplar::runtime {

constexpr double NotMeasured = std::numeric_limits<double>::quiet_NaN();

/// A row of metrics.csv.
struct Metrics {
  int64_t Step = 0;
  double Loss = NotMeasured, ValLoss = NotMeasured, Rate = 0, GradientNorm = 0,
         TokensPerSecond = 0;
  /// The mean margin between the rewards of chosen and rejected answers, and
  /// the part of pairs in which it is above 0; in runs without --preference,
  /// not measured.
  double Margin = NotMeasured, Accuracy = NotMeasured;
  /// Totals of the whole run so far, with its validation and its checkpoints,
  /// and without the time between its parts. A run that an older version began
  /// does not know them.
  double Seconds = NotMeasured, Tokens = NotMeasured, Epochs = NotMeasured;
};

/// RUN/metrics.csv, appended row by row, and all its rows in memory.
class MetricsFile {
public:
  /// Keeps the rows of an existing file up to step `Resumed`, drops the rest,
  /// and makes room for rows up to step `Last` so that adding one allocates
  /// nothing. `HasPairs` adds the columns of runs with --preference.
  MetricsFile(const std::string &Run, int64_t Resumed, int64_t Last,
              bool HasPairs = false);
  ~MetricsFile();
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;

  void add(const Metrics &Row);
  /// Hands what was added to the system. An Error if the file is no longer in
  /// the run's directory.
  void flush();
  /// Waits until what was added is on the disk.
  void sync();
  /// Steps up to the resumed one of which there is no row: "11 to 15", or "".
  std::string describeGap() const;
  const std::vector<Metrics> &rows() const { return Rows; }

private:
  std::string Path;
  std::FILE *File = nullptr;
  int64_t Resumed;
  bool HasPairs;
  std::vector<Metrics> Rows;
};

/// Draws training and validation loss over the steps, and a horizontal line
/// at `Baseline` unless it is NaN.
std::string drawLossCurve(const std::vector<Metrics> &Rows, double Baseline,
                          const std::string &BaselineName);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_METRICS_H
