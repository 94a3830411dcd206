//===- TimelineChart.cpp - Timelines for reports --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Charts.h"
#include <algorithm>
#include <array>

using namespace poplar;

using Activity = Timeline::Activity;

/// In SVG units. A lane is cut into as many columns as it is wide, each of
/// which shows what takes most of its time.
static constexpr int columns = 1200;
static constexpr double left = 5, laneHeight = 14, classHeight = 56,
                        nameHeight = 18, axisHeight = 24;

/// Colours of activities, in their order, as classes of the style sheet, and
/// what the legend calls them.
static constexpr const char *colors[] = {"c0", "c3", "c5", "c1"};
static constexpr const char *meanings[] = {"computes", "waits for other ranks",
                                           "waits for a link", "communicates"};
static constexpr size_t numActivities = std::size(colors);

/// By column: what takes the most of its time, or -1 where nothing happens for
/// most of it.
static std::array<int, columns>
getColumns(const std::vector<Timeline::Interval> &intervals, double begin,
           double end) {
  std::vector<std::array<double, numActivities>> taken(columns);
  double width = (end - begin) / columns;
  for (const Timeline::Interval &interval : intervals) {
    double from = (std::max(interval.begin, begin) - begin) / width,
           to = (std::min(interval.end, end) - begin) / width;
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
                            double begin, double end, double y) {
  std::array<int, columns> most = getColumns(intervals, begin, end);
  std::string svg;
  for (int first = 0, last; first < columns; first = last) {
    for (last = first + 1; last < columns && most[last] == most[first]; ++last)
      ;
    if (most[first] < 0)
      continue;
    svg += "<rect class=\"" + std::string(colors[most[first]]) + "\" x=\"" +
           formatNumber(left + first) + "\" y=\"" + formatNumber(y) +
           "\" width=\"" + formatNumber(last - first) + "\" height=\"" +
           formatNumber(laneHeight) + "\" />";
  }
  return svg + "\n";
}

std::string poplar::drawTimeline(const std::string &title,
                                 const Timeline &timeline, double begin,
                                 double end) {
  auto size = static_cast<double>(timeline.classes.size());
  double height = size * classHeight + axisHeight;
  std::string svg = "<figure><figcaption>" + escapeHTML(title) +
                    "</figcaption><div class=\"wide\"><svg class=\"timeline\" "
                    "viewBox=\"0 0 " +
                    formatNumber(columns + 2 * left) + " " +
                    formatNumber(height) + "\" role=\"img\" aria-label=\"" +
                    escapeHTML(title) + "\">\n";
  double y = 0;
  for (const Timeline::RankClass &rankClass : timeline.classes) {
    svg += "<text x=\"" + formatNumber(left) + "\" y=\"" +
           formatNumber(y + nameHeight - 4) + "\">" +
           escapeHTML(rankClass.name) + "</text>\n";
    svg += drawLane(rankClass.computation, begin, end, y + nameHeight);
    std::vector<Timeline::Interval> communication = rankClass.communication;
    for (const Timeline::RankClass::Channel &channel : rankClass.channels)
      communication.insert(communication.end(), channel.messages.begin(),
                           channel.messages.end());
    svg += drawLane(communication, begin, end, y + nameHeight + laneHeight + 1);
    y += classHeight;
  }
  for (int tick = 0; tick <= 4; ++tick) {
    const char *anchor = tick == 0 ? "start" : tick == 4 ? "end" : "middle";
    svg += "<text x=\"" + formatNumber(left + tick * columns / 4.0) +
           "\" y=\"" + formatNumber(height - 8) + "\" text-anchor=\"" + anchor +
           "\">" + formatNumber(begin + (end - begin) * tick / 4) + " s</text>";
  }
  svg += "\n</svg></div>\n<p class=\"legend\">";
  for (size_t i = 0; i < numActivities; ++i)
    svg += "<span><i class=\"" + std::string(colors[i]) + "\"></i>" +
           meanings[i] + "</span> ";
  return svg + "</p></figure>\n";
}
