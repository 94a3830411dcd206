//===- Curve.cpp - Step time against micro-batch --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/Curve.h"
#include <algorithm>
#include <boost/math/interpolators/pchip.hpp>
#include <cmath>

using namespace poplar;

using Point = Curve::Point;

/// Pool adjacent violators (Ayer et al., 1955): the non-decreasing sequence
/// with the least sum of squared differences. `points` are by batch.
static void makeMonotone(std::vector<Point> &points) {
  struct Block {
    double sum;
    size_t size;
    double mean() const { return sum / size; }
  };
  std::vector<Block> blocks;
  for (const Point &point : points) {
    blocks.push_back({point.seconds, 1});
    while (blocks.size() > 1 &&
           blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().size += last.size;
    }
  }
  auto point = points.begin();
  for (const Block &block : blocks)
    for (size_t i = 0; i < block.size; ++i, ++point)
      if (block.size > 1)
        point->seconds = block.mean();
}

/// Interpolates `points` at every whole batch from the first to the last.
static void interpolate(const std::vector<Point> &points,
                        std::vector<double> &table) {
  // Boost's PCHIP needs four points.
  if (points.size() < 4) {
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      const Point &left = points[i], &right = points[i + 1];
      double slope = (right.seconds - left.seconds) /
                     static_cast<double>(right.batch - left.batch);
      for (int64_t b = left.batch + 1; b < right.batch; ++b)
        table[b] = left.seconds + slope * static_cast<double>(b - left.batch);
    }
    return;
  }
  std::vector<double> batches, seconds;
  for (const Point &point : points) {
    batches.push_back(static_cast<double>(point.batch));
    seconds.push_back(point.seconds);
  }
  boost::math::interpolators::pchip<std::vector<double>> pchip(
      std::move(batches), std::move(seconds));
  for (int64_t b = points.front().batch + 1; b < points.back().batch; ++b)
    table[b] = pchip(static_cast<double>(b));
}

Curve::Curve() : table(std::make_shared<std::vector<double>>(1, 0.0)) {}

std::optional<Curve> Curve::fit(std::vector<Point> points, std::string &error) {
  auto fail = [&](const std::string &message) {
    error = message;
    return std::nullopt;
  };
  std::stable_sort(
      points.begin(), points.end(),
      [](const Point &a, const Point &b) { return a.batch < b.batch; });
  for (size_t i = 0; i < points.size(); ++i) {
    std::string where =
        "point of micro-batch " + std::to_string(points[i].batch);
    if (points[i].batch < 1)
      return fail(where + ": the micro-batch must be positive");
    if (points[i].batch > largestSupportedBatch)
      return fail(where + ": the largest supported micro-batch is " +
                  std::to_string(largestSupportedBatch));
    if (!std::isfinite(points[i].seconds) || points[i].seconds <= 0)
      return fail(where + ": the time must be positive and finite");
    if (i > 0 && points[i].batch == points[i - 1].batch)
      return fail(where + ": given twice");
  }
  if (points.empty())
    return fail("a curve needs at least two points, found none");
  if (points.size() == 1 && points[0].batch != 1)
    return fail(
        "a curve needs at least two points, found one, of micro-batch " +
        std::to_string(points[0].batch));

  Curve curve;
  curve.used = points;
  makeMonotone(curve.used);
  for (size_t i = 0; i < points.size(); ++i)
    if (points[i].seconds != curve.used[i].seconds)
      curve.adjusted.push_back(
          {points[i].batch, points[i].seconds, curve.used[i].seconds});

  const Point &first = curve.used.front();
  std::vector<double> table(curve.used.back().batch + 1, 0.0);
  if (first.batch > 1) {
    const Point &second = curve.used[1];
    double slope = std::min((second.seconds - first.seconds) /
                                static_cast<double>(second.batch - first.batch),
                            first.seconds / static_cast<double>(first.batch));
    for (int64_t b = 1; b < first.batch; ++b)
      table[b] = first.seconds - slope * static_cast<double>(first.batch - b);
  }
  interpolate(curve.used, table);
  for (const Point &point : curve.used)
    table[point.batch] = point.seconds;
  // Between points of (almost) the same time, rounding may undo monotonicity
  // by a bit: the points themselves are the bounds.
  for (size_t i = 0; i + 1 < curve.used.size(); ++i)
    for (int64_t b = curve.used[i].batch + 1; b < curve.used[i + 1].batch; ++b)
      table[b] = std::clamp(table[b], table[b - 1], curve.used[i + 1].seconds);
  curve.table = std::make_shared<std::vector<double>>(std::move(table));
  return curve;
}

int64_t Curve::largestWithin(double seconds, int64_t limit) const {
  auto end = table->begin() + std::min(limit, largest()) + 1;
  return std::max<int64_t>(
      std::upper_bound(table->begin(), end, seconds) - table->begin() - 1, 0);
}

int64_t Curve::peak(int64_t limit) const {
  int64_t best = 0;
  for (int64_t b = 1; b <= std::min(limit, largest()); ++b)
    if (best == 0 || throughput(b) > throughput(best))
      best = b;
  return best;
}
