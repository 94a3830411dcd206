//===- WatchText.cpp - A run while it goes on, in a terminal --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Charts.h"
#include "Poplar/Support/Text.h"
#include "WatchFacts.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

/// Columns of names before a picture.
static constexpr size_t nameWidth = 24;
/// Columns of words behind a bar.
static constexpr size_t wordWidth = 52;

/// One character for each of `width` parts of the steps, as high as the mean of
/// its values.
static std::string drawCurve(const std::vector<double> &values, size_t width) {
  static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  width = std::min(width, values.size());
  std::vector<double> means;
  for (size_t i = 0; i < width; ++i) {
    size_t first = i * values.size() / width,
           end = (i + 1) * values.size() / width;
    double sum = 0;
    for (size_t j = first; j < end; ++j)
      sum += values[j];
    means.push_back(sum / double(end - first));
  }
  if (means.empty())
    return "";
  auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string text;
  for (double mean : means) {
    double part = *high > *low ? (mean - *low) / (*high - *low) : 0.5;
    text += levels[static_cast<size_t>(std::lround(7 * part))];
  }
  return text;
}

static std::string pad(std::string text, size_t width) {
  if (text.size() < width)
    text.resize(width, ' ');
  return text;
}

static std::string drawBar(double share, size_t width) {
  auto full = static_cast<size_t>(std::lround(share * double(width)));
  std::string bar;
  for (size_t i = 0; i < width; ++i)
    bar += i < full ? "█" : "░";
  return bar;
}

static std::string formatShare(double share) {
  return formatNumber(100 * share, 3) + " %";
}

std::string poplar::formatWatchText(const WatchInput &input, size_t columns) {
  WatchFacts facts(input);
  std::string text = input.name + "  " + facts.progress + "\n";
  if (!input.steps.empty()) {
    const MeasuredStep &last = input.steps.back();
    text += "loss " + formatNumber(last.loss);
    if (facts.validation)
      text += "  validation " + formatNumber(*facts.validation);
    text += "  " + formatQuantity(facts.tokensPerSecond) + " tokens/s";
    if (facts.secondsLeft)
      text += "  " + formatDuration(*facts.secondsLeft) + " left";
    std::vector<double> losses, speeds;
    for (const MeasuredStep &step : input.steps) {
      losses.push_back(step.loss);
      speeds.push_back(step.tokensPerSecond);
    }
    size_t width = std::max<size_t>(columns, nameWidth + 20) - nameWidth;
    text += "\n\n" + pad("loss", nameWidth) + drawCurve(losses, width) + "\n" +
            pad("tokens/s", nameWidth) + drawCurve(speeds, width) + "\n\n";
  }
  size_t rest = nameWidth + wordWidth;
  size_t barWidth =
      columns > rest + 10 ? std::min<size_t>(columns - rest, 40) : 10;
  for (const auto &[number, rank] : facts.ranks)
    text += pad("rank " + std::to_string(number) + " " + rank.last().device,
                nameWidth) +
            drawBar(rank.getShare(rank.seconds - rank.waiting), barWidth) +
            " computes " +
            formatShare(rank.getShare(rank.seconds - rank.waiting)) +
            ", communicates " + formatShare(rank.getShare(rank.communicating)) +
            ", " + formatBytes(rank.last().memory) + "\n";
  for (size_t i = 0; i < input.gpus.size(); ++i) {
    const GPUSensors &gpu = input.gpus[i];
    text += pad("GPU " + std::to_string(i), nameWidth) + gpu.name;
    if (gpu.temperature)
      text += ", " + std::to_string(*gpu.temperature) + " °C";
    if (gpu.power)
      text += ", " + formatNumber(*gpu.power, 3) + " W";
    if (gpu.memoryUsed)
      text += ", " + formatBytes(*gpu.memoryUsed) + " of " +
              formatBytes(*gpu.memory);
    text += "\n";
  }
  return text + facts.state + "\n";
}
