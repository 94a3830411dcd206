//===- Charts.h - Charts for reports ----------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lines and bars are SVG that is stretched to its place, and words are HTML
// above it, which keep their size: a chart can be read on a phone and on a
// desk. Colours are classes of the style sheet, each of which has one meaning
// on the whole page.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_REPORT_CHARTS_H
#define POPLAR_LIB_REPORT_CHARTS_H

#include "Poplar/Planner/Simulation/Timeline.h"
#include "Poplar/Report/PlanReport.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace poplar {

/// Text as it may stand in an element or in an attribute.
std::string escapeHTML(const std::string &text);

/// `value` in at most `digits` significant digits.
std::string formatNumber(double value, int digits = 4);

/// "12,345", "3.21": all digits before the point, three significant ones.
std::string formatQuantity(double value);
/// "24.5 ms", "1.23 s"
std::string formatTime(double seconds);
/// "40 GiB", "0.21 GiB": always in GiB, so that they can be compared.
std::string formatGiB(double bytes);
/// With a prefix of 1000: "200 G" of 2e11, "1.1 B" where `giga` is "B".
std::string formatScaled(double value, const char *giga = "G");

/// An axis from a round number to a round number.
struct Axis {
  double low, high, step;

  /// One that holds all from `low` to `high`, with about five steps; of whole
  /// numbers if `isWhole`.
  Axis(double low, double high, bool isWhole = false);

  /// 0 to 100.
  double getPercent(double value) const {
    return 100 * (value - low) / (high - low);
  }
  std::vector<double> getTicks() const;
  /// As many decimals as the steps need.
  std::string format(double value) const;
};

/// Seconds as an axis of them shows them.
struct TimeUnit {
  const char *name;
  /// Units in a second.
  double factor;
};
TimeUnit getTimeUnit(double largest);

struct ChartSeries {
  std::string name;
  /// By x.
  std::vector<std::pair<double, double>> points;
  /// The name of a color in the style sheet.
  std::string color;
  /// A ring is larger than a dot, and seen around it.
  enum Shape { Line, Dots, Rings } shape = Line;
};

/// A line chart from x = 0 and, with `fromZero`, y = 0. What is no finite
/// number is left out; empty if nothing is left. x is a whole number.
std::string drawChart(const std::string &title, const std::string &xLabel,
                      const std::string &yLabel,
                      const std::vector<ChartSeries> &series, bool fromZero);

/// Steps of a run, as the timeline shows them.
struct MeasuredSeconds {
  /// Seconds of each step.
  std::vector<double> seconds;
  double median = 0;
};

/// A class of ranks as the timeline names it: what it is called, and the colour
/// of its device type.
struct TimelineName {
  std::string name, color;
};

/// Two lanes for each class of ranks, what they compute and what they
/// communicate, from `begin` to `end` (seconds). What is too short to be seen
/// goes under in what is beside it. Below them, on the same axis, the steps of
/// a run and, of one of them, what its ranks did: `trace`. `origin` is what
/// begins at 0.
std::string drawTimeline(const std::string &title, const Timeline &timeline,
                         const std::vector<TimelineName> &names, double begin,
                         double end, const MeasuredSeconds *measured = nullptr,
                         const MeasuredTimeline *trace = nullptr,
                         const char *origin = "the iteration");
/// What its colours mean.
std::string drawTimelineLegend(bool isMeasured);

/// Nodes, their devices and links. Nodes that are alike are one.
std::string drawCluster(const ReportInput &input);
/// The class of a device type.
std::string getTypeColor(size_t type);

} // namespace poplar

#endif // POPLAR_LIB_REPORT_CHARTS_H
