//===- Charts.cpp - Inline SVG for reports --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Charts.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace poplar;

/// Of a chart, and of the part of it where lines are, in SVG units.
static constexpr double width = 640, height = 260;
static constexpr double left = 70, right = 625, top = 12, bottom = 212;

std::string poplar::escapeHTML(const std::string &text) {
  std::string escaped;
  for (char c : text)
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    case '\'':
      escaped += "&#39;";
      break;
    default:
      escaped += c;
    }
  return escaped;
}

std::string poplar::formatNumber(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return text;
}

namespace {

/// From values to places on an axis.
struct Axis {
  double low, high, from, to;

  double place(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
  /// Round steps, about five of them.
  std::vector<double> getTicks() const {
    double step = std::pow(10, std::floor(std::log10((high - low) / 5)));
    for (double factor : {2.0, 2.5, 2.0})
      if ((high - low) / step > 6)
        step *= factor;
    std::vector<double> ticks;
    for (double i = std::ceil(low / step); i * step <= high * (1 + 1e-9); ++i)
      ticks.push_back(i * step);
    return ticks;
  }
};

} // namespace

static std::string drawText(double x, double y, const char *anchor,
                            const std::string &text) {
  return "<text x=\"" + formatNumber(x) + "\" y=\"" + formatNumber(y) +
         "\" text-anchor=\"" + anchor + "\">" + escapeHTML(text) + "</text>";
}

static std::string drawLine(double x1, double y1, double x2, double y2) {
  return "<line class=\"grid\" x1=\"" + formatNumber(x1) + "\" y1=\"" +
         formatNumber(y1) + "\" x2=\"" + formatNumber(x2) + "\" y2=\"" +
         formatNumber(y2) + "\" />";
}

static std::string drawSeries(const ChartSeries &series, size_t index,
                              const Axis &x, const Axis &y) {
  std::string color = "c" + std::to_string(index % 6), text;
  for (auto [valueX, valueY] : series.points) {
    if (!std::isfinite(valueX) || !std::isfinite(valueY))
      continue;
    std::string placeX = formatNumber(x.place(valueX));
    std::string placeY = formatNumber(y.place(valueY));
    if (series.isMarks)
      text += "<circle class=\"" + color + "\" cx=\"" + placeX + "\" cy=\"" +
              placeY + "\" r=\"5\"><title>" + escapeHTML(series.name) + ": " +
              formatNumber(valueX) + ", " + formatNumber(valueY) +
              "</title></circle>";
    else
      text += (text.empty() ? "" : " ") + placeX + "," + placeY;
  }
  if (series.isMarks)
    return text;
  return "<polyline class=\"line " + color + "\" points=\"" + text + "\" />";
}

std::string poplar::drawChart(const std::string &title,
                              const std::string &xLabel,
                              const std::string &yLabel,
                              const std::vector<ChartSeries> &series,
                              bool fromZero) {
  double high = -HUGE_VAL, low = HUGE_VAL, last = 0;
  for (const ChartSeries &one : series)
    for (auto [x, y] : one.points)
      if (std::isfinite(x) && std::isfinite(y)) {
        last = std::max(last, x);
        high = std::max(high, y);
        low = std::min(low, y);
      }
  if (!(high >= low))
    return "";
  low = fromZero ? std::min(low, 0.0) : low;
  if (high == low) // a flat line
    high = low + (low != 0 ? std::abs(low) : 1);
  Axis x = {0, last > 0 ? last : 1, left, right};
  Axis y = {low, high, bottom, top};

  std::string svg = "<figure><figcaption>" + escapeHTML(title) +
                    "</figcaption><svg viewBox=\"0 0 " + formatNumber(width) +
                    " " + formatNumber(height) +
                    "\" role=\"img\" aria-label=\"" + escapeHTML(title) +
                    "\">\n";
  for (double tick : y.getTicks())
    svg += drawLine(left, y.place(tick), right, y.place(tick)) +
           drawText(left - 6, y.place(tick) + 4, "end", formatNumber(tick)) +
           "\n";
  for (double tick : x.getTicks())
    svg += drawText(x.place(tick), bottom + 18, "middle", formatNumber(tick)) +
           "\n";
  svg += drawText((left + right) / 2, bottom + 38, "middle", xLabel) +
         drawText(left, height - 4, "start", yLabel) + "\n";
  for (size_t i = 0; i < series.size(); ++i)
    svg += drawSeries(series[i], i, x, y) + "\n";
  svg += "</svg>\n<p class=\"legend\">";
  for (size_t i = 0; i < series.size(); ++i)
    svg += "<span><i class=\"c" + std::to_string(i % 6) + "\"></i>" +
           escapeHTML(series[i].name) + "</span> ";
  return svg + "</p></figure>\n";
}

std::string poplar::drawBar(const std::vector<double> &parts, double whole) {
  std::string svg = "<svg class=\"bar\" viewBox=\"0 0 100 8\" "
                    "preserveAspectRatio=\"none\"><rect class=\"free\" "
                    "width=\"100\" height=\"8\" />";
  double x = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    double part = std::min(100 * parts[i] / whole, 100 - x);
    svg += "<rect class=\"c" + std::to_string(i % 6) + "\" x=\"" +
           formatNumber(x) + "\" width=\"" + formatNumber(part) +
           "\" height=\"8\" />";
    x += part;
  }
  return svg + "</svg>";
}
