//===- TimelineChart.cpp - Timelines for reports --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Charts.h"
#include "Poplar/Support/Text.h"
#include <algorithm>
#include <array>
#include <cmath>

using namespace poplar;

using Activity = Timeline::Activity;

/// A lane is cut into columns, each of which shows what takes most of its time.
static constexpr int columns = 1200;
/// More classes of ranks than these are not drawn.
static constexpr size_t mostClasses = 32;
/// More steps than these are drawn by some of them.
static constexpr size_t mostSteps = 400;

/// Colours of activities, in their order, as classes of the style sheet, and
/// what the legend calls them.
static constexpr const char *colors[] = {"compute", "waitranks", "waitlink",
                                         "communicate"};
static constexpr const char *meanings[] = {"computes", "waits for other ranks",
                                           "waits for a link", "communicates"};
static constexpr size_t numActivities = std::size(colors);

namespace {

/// The part of time that is drawn.
struct Window {
  double begin, end;
  double perColumn() const { return (end - begin) / columns; }
};

} // namespace

/// By column: what takes the most of its time, or -1 where nothing happens for
/// most of it.
static std::array<int, columns>
getColumns(const std::vector<Timeline::Interval> &intervals, Window window) {
  std::vector<std::array<double, numActivities>> taken(columns);
  double width = window.perColumn();
  for (const Timeline::Interval &interval : intervals) {
    double from =
               (std::max(interval.begin, window.begin) - window.begin) / width,
           to = (std::min(interval.end, window.end) - window.begin) / width;
    for (int i = std::max(static_cast<int>(from), 0); i < to && i < columns;
         ++i)
      taken[i][static_cast<size_t>(interval.activity)] +=
          std::min(to, i + 1.0) - std::max(from, double(i));
  }
  std::array<int, columns> most;
  for (int i = 0; i < columns; ++i) {
    most[i] = -1;
    double least = 0.5, sum = 0;
    for (size_t activity = 0; activity < numActivities; ++activity)
      sum += taken[i][activity];
    if (sum < least)
      continue;
    auto largest = std::max_element(taken[i].begin(), taken[i].end());
    most[i] = static_cast<int>(largest - taken[i].begin());
  }
  return most;
}

static std::string drawLane(const std::vector<Timeline::Interval> &intervals,
                            Window window, const char *name) {
  std::array<int, columns> most = getColumns(intervals, window);
  std::string svg = "<svg class=\"lane " + std::string(name) +
                    "\" viewBox=\"0 0 1200 1\" preserveAspectRatio=\"none\">";
  for (int first = 0, last; first < columns; first = last) {
    for (last = first + 1; last < columns && most[last] == most[first]; ++last)
      ;
    if (most[first] < 0)
      continue;
    svg += "<rect class=\"" + std::string(colors[most[first]]) + "\" x=\"" +
           std::to_string(first) + "\" y=\"0\" width=\"" +
           std::to_string(last - first) + "\" height=\"1\" />";
  }
  return svg + "</svg>\n";
}

static std::string drawClass(const Timeline::RankClass &rankClass,
                             const TimelineName &name, Window window) {
  std::vector<Timeline::Interval> communication = rankClass.communication;
  for (const Timeline::RankClass::Channel &channel : rankClass.channels)
    communication.insert(communication.end(), channel.messages.begin(),
                         channel.messages.end());
  return "<div class=\"who\"><i class=\"" + name.color + "\"></i>" +
         escapeHTML(name.name) + "</div><div class=\"lanes\">" +
         drawLane(rankClass.computation, window, "above") +
         drawLane(communication, window, "below") + "</div>\n";
}

/// A bar as long as the median, and a mark at the end of each step.
static std::string drawSteps(const MeasuredSeconds &measured, Window window) {
  auto place = [&](double seconds) {
    return formatNumber((seconds - window.begin) / window.perColumn(), 6);
  };
  std::string svg = "<svg class=\"lane steps\" viewBox=\"0 0 1200 1\" "
                    "preserveAspectRatio=\"none\"><rect class=\"measured\" "
                    "x=\"0\" y=\"0\" width=\"" +
                    place(measured.median) + "\" height=\"1\" />";
  size_t each = (measured.seconds.size() + mostSteps - 1) / mostSteps;
  for (size_t i = 0; i < measured.seconds.size(); i += each)
    if (measured.seconds[i] <= window.end)
      svg += "<path class=\"mark\" d=\"M" + place(measured.seconds[i]) +
             " 0v1\" />";
  return "<div class=\"who\"><i class=\"measured\"></i>" +
         formatCount(int64_t(measured.seconds.size()), "step") + ", median " +
         formatTime(measured.median) + "</div><div class=\"lanes\">" + svg +
         "</svg></div>\n";
}

/// The end of an axis on which the steps can be seen, but for outliers.
static double getEnd(double end, const MeasuredSeconds *measured,
                     const MeasuredTimeline *trace) {
  if (measured) {
    std::vector<double> sorted = measured->seconds;
    std::sort(sorted.begin(), sorted.end());
    double most = sorted[(sorted.size() - 1) * 9 / 10];
    end = std::max({end, measured->median, std::min(most, 2 * end)});
  }
  return trace ? std::max(end, trace->timeline.seconds) : end;
}

std::string
poplar::drawTimeline(const std::string &title, const Timeline &timeline,
                     const std::vector<TimelineName> &names, double begin,
                     double end, const MeasuredSeconds *measured,
                     const MeasuredTimeline *trace, const char *origin) {
  end = getEnd(end, measured, trace);
  TimeUnit unit = getTimeUnit(end);
  // A part of an iteration begins where it begins; an axis at a round number.
  Axis axis(begin * unit.factor, end * unit.factor);
  Window window = {begin, end};
  if (begin == 0)
    window.end = axis.high / unit.factor;
  std::string html = "<figure><figcaption>" + escapeHTML(title) +
                     "</figcaption>\n<div class=\"timeline\">\n";
  bool isCompared = measured || trace;
  if (isCompared)
    html += "<h3>simulated</h3>\n";
  size_t count = std::min(timeline.classes.size(), mostClasses);
  for (size_t i = 0; i < count; ++i)
    html += drawClass(timeline.classes[i], names[i], window);
  if (isCompared)
    html += "<h3>measured</h3>\n";
  if (trace)
    for (const Timeline::RankClass &rank : trace->timeline.classes)
      html += drawClass(rank, {rank.name, "measured"}, window);
  if (measured)
    html += drawSteps(*measured, window);
  html += "<div class=\"xlabels\">";
  for (double tick : axis.getTicks()) {
    double percent =
        100 * (tick / unit.factor - window.begin) / (window.end - window.begin);
    if (percent < -1e-6 || percent > 100 + 1e-6)
      continue;
    html += "<span style=\"left:" + formatNumber(std::max(percent, 0.0)) +
            "%\">" + axis.format(tick) + "</span>";
  }
  html += "</div><p class=\"xtitle\">" + std::string(unit.name) + " since " +
          origin + " began</p></div>\n";
  if (count < timeline.classes.size())
    html += "<p class=\"note\">" +
            std::to_string(timeline.classes.size() - count) +
            " more classes of ranks are not drawn; poplar simulate --trace "
            "writes all.</p>\n";
  return html + "</figure>\n";
}

std::string poplar::drawTimelineLegend(bool isMeasured) {
  std::string html = "<p class=\"legend\">";
  for (size_t i = 0; i < numActivities; ++i)
    html += "<span><i class=\"" + std::string(colors[i]) + "\"></i>" +
            meanings[i] + "</span> ";
  if (isMeasured)
    html += "<span><i class=\"measured\"></i>a measured step; a mark at the "
            "end of each</span> ";
  return html + "</p>\n";
}
