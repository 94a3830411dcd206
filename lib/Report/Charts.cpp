//===- Charts.cpp - Charts for reports ------------------------------------===//
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

/// The size of the part of a chart where lines are, in SVG units.
static constexpr double size = 1000;

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

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

std::string poplar::formatNumber(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return text;
}

/// With commas between thousands.
static std::string formatDecimals(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  std::string result = text;
  size_t end = std::min(result.find('.'), result.size());
  size_t first = result[0] == '-' ? 1 : 0;
  while (end > first + 3) {
    end -= 3;
    result.insert(end, ",");
  }
  return result;
}

/// "3.10" as "3.1", "3.00" as "3".
static std::string dropZeros(std::string text) {
  if (text.find('.') == std::string::npos)
    return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text;
}

std::string poplar::formatQuantity(double value) {
  double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e12))
    return formatNumber(value, 3);
  int decimals = size >= 100 || size == 0
                     ? 0
                     : 2 - static_cast<int>(std::floor(std::log10(size)));
  return dropZeros(formatDecimals(value, decimals));
}

TimeUnit poplar::getTimeUnit(double largest) {
  if (largest >= 1)
    return {"s", 1};
  if (largest >= 1e-3)
    return {"ms", 1e3};
  return {"µs", 1e6};
}

std::string poplar::formatTime(double seconds) {
  if (seconds == 0)
    return "0 s";
  TimeUnit unit = getTimeUnit(std::abs(seconds));
  return formatQuantity(seconds * unit.factor) + " " + unit.name;
}

std::string poplar::formatGiB(double bytes) {
  double value = bytes / (1 << 30);
  return formatQuantity(value) + " GiB";
}

std::string poplar::formatScaled(double value, const char *giga) {
  const std::pair<double, const char *> scales[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, giga}, {1e6, "M"}, {1e3, "k"}};
  for (auto [scale, prefix] : scales)
    if (value >= scale * (1 - 1e-9))
      return formatQuantity(value / scale) + " " + prefix;
  return formatQuantity(value) + " ";
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

Axis::Axis(double low, double high, bool isWhole) {
  double range = high > low ? high - low : std::max(std::abs(low), 1.0);
  step = std::pow(10, std::floor(std::log10(range / 5)));
  for (double factor : {2.0, 2.5, 2.0})
    if (range / step > 6)
      step *= factor;
  if (isWhole)
    step = std::max(step, 1.0);
  // Rounding is no reason for a step more.
  this->low = std::floor(low / step + 1e-9) * step;
  this->high = std::max(std::ceil(high / step - 1e-9) * step, this->low + step);
}

std::vector<double> Axis::getTicks() const {
  std::vector<double> ticks;
  auto count = std::llround((high - low) / step);
  for (int64_t i = 0; i <= count; ++i)
    ticks.push_back(low + static_cast<double>(i) * step);
  return ticks;
}

std::string Axis::format(double value) const {
  int decimals =
      std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  if (std::abs(value) < step / 2)
    return "0";
  return decimals > 9 ? formatNumber(value) : formatDecimals(value, decimals);
}

//===----------------------------------------------------------------------===//
// Line charts
//===----------------------------------------------------------------------===//

static std::string drawSeries(const ChartSeries &series, const Axis &x,
                              const Axis &y) {
  std::string text;
  for (auto [valueX, valueY] : series.points) {
    if (!std::isfinite(valueX) || !std::isfinite(valueY))
      continue;
    std::string placeX = formatNumber(size / 100 * x.getPercent(valueX)),
                placeY = formatNumber(size - size / 100 * y.getPercent(valueY));
    if (series.shape == ChartSeries::Line) {
      text += (text.empty() ? "" : " ") + placeX + "," + placeY;
      continue;
    }
    // A line of no length has round ends, which are not stretched.
    std::string title = "<title>" + escapeHTML(series.name) + ": " +
                        formatQuantity(valueX) + ", " + formatQuantity(valueY) +
                        "</title>";
    auto draw = [&](const std::string &what, const std::string &content) {
      return "<path class=\"" + what + "\" d=\"M" + placeX + " " + placeY +
             "h0\">" + content + "</path>";
    };
    if (series.shape == ChartSeries::Rings)
      text += draw("ring " + series.color, "") + draw("hole", title);
    else
      text += draw("dot " + series.color, title);
  }
  if (series.shape != ChartSeries::Line)
    return text;
  return "<polyline class=\"line " + series.color + "\" points=\"" + text +
         "\" />";
}

static std::string drawAxes(const Axis &x, const Axis &y) {
  std::string svg;
  for (double tick : y.getTicks())
    svg += "<path class=\"grid\" d=\"M0 " +
           formatNumber(size - size / 100 * y.getPercent(tick)) + "H1000\" />";
  for (double tick : x.getTicks())
    svg += "<path class=\"grid\" d=\"M" +
           formatNumber(size / 100 * x.getPercent(tick)) + " 0V1000\" />";
  return svg + "\n";
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
  Axis x(0, last, /*isWhole=*/true),
      y(fromZero ? std::min(low, 0.0) : low, high);
  std::string rows, columns;
  size_t widest = 1;
  for (double tick : y.getTicks()) {
    std::string label = y.format(tick);
    widest = std::max(widest, label.size());
    rows += "<span style=\"bottom:" + formatNumber(y.getPercent(tick)) +
            "%\">" + label + "</span>";
  }
  for (double tick : x.getTicks())
    columns += "<span style=\"left:" + formatNumber(x.getPercent(tick)) +
               "%\">" + x.format(tick) + "</span>";
  std::string html =
      "<figure><figcaption>" + escapeHTML(title) +
      "</figcaption>\n<div class=\"plot\" style=\"--label:" +
      std::to_string(widest) + "ch\"><p class=\"ytitle\">" +
      escapeHTML(yLabel) + "</p><div class=\"ylabels\">" + rows +
      "</div><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" "
      "role=\"img\" aria-label=\"" +
      escapeHTML(title) + "\">\n" + drawAxes(x, y);
  for (const ChartSeries &one : series)
    html += drawSeries(one, x, y) + "\n";
  html += "</svg><div class=\"xlabels\">" + columns +
          "</div><p class=\"xtitle\">" + escapeHTML(xLabel) + "</p></div>\n";
  if (series.size() > 1) {
    html += "<p class=\"legend\">";
    for (const ChartSeries &one : series)
      html += "<span><i class=\"" +
              std::string(one.shape == ChartSeries::Line    ? "stroke "
                          : one.shape == ChartSeries::Rings ? "circle "
                                                            : "disk ") +
              one.color + "\"></i>" + escapeHTML(one.name) + "</span> ";
    html += "</p>";
  }
  return html + "</figure>\n";
}
