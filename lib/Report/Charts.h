//===- Charts.h - Inline SVG for reports ------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_REPORT_CHARTS_H
#define POPLAR_LIB_REPORT_CHARTS_H

#include "Poplar/Planner/Simulation/Timeline.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poplar {

/// Text as it may stand in an element or in an attribute.
std::string escapeHTML(const std::string &text);

/// `value` in at most `digits` significant digits.
std::string formatNumber(double value, int digits = 4);

struct ChartSeries {
  std::string name;
  /// By x.
  std::vector<std::pair<double, double>> points;
  /// Drawn as dots, not as a line.
  bool isMarks = false;
};

/// A line chart that is as wide as its place, from x = 0 and, with `fromZero`,
/// y = 0. What is no finite number is left out. Colours are the classes c0, c1
/// ... of the page's style sheet.
std::string drawChart(const std::string &title, const std::string &xLabel,
                      const std::string &yLabel,
                      const std::vector<ChartSeries> &series, bool fromZero);

/// Two lanes for each class of ranks, what they compute and what they
/// communicate, from `begin` to `end` (seconds). What is too short to be seen
/// goes under in what is beside it.
std::string drawTimeline(const std::string &title, const Timeline &timeline,
                         double begin, double end);

/// A horizontal bar with parts of class c0, c1 ..., of a whole.
std::string drawBar(const std::vector<double> &parts, double whole);

} // namespace poplar

#endif // POPLAR_LIB_REPORT_CHARTS_H
