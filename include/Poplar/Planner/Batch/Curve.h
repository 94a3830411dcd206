//===- Curve.h - Step time against micro-batch ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The performance of one device type in one ZeRO stage: seconds of one forward
// and backward pass as a function of the micro-batch, from measured points
// (Poplar, AAAI 2025: the performance curve of the online part). Time spent
// waiting for other ranks is not part of it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_BATCH_CURVE_H
#define POPLAR_PLANNER_BATCH_CURVE_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

/// A non-decreasing function from 0 .. largest() samples to seconds. Immutable,
/// cheap to copy.
///
/// - t(0) = 0: a rank without samples computes nothing.
/// - Between measured points: monotone cubic interpolation (PCHIP); straight
///   lines where there are only two or three points.
/// - Below the first point (b0, t0): a straight line with the slope of the
/// first
///   segment, or t0 / b0 if that is less. So a fixed cost per step is kept, and
///   time never falls below proportionality to the first measurement.
/// - There is no value beyond the last point.
///
/// Measurements that fall with the micro-batch are replaced by the closest
/// non-decreasing sequence in the least-squares sense (pool adjacent
/// violators); adjustments() tells which.
class Curve {
public:
  struct Point {
    int64_t batch;
    double seconds;
  };
  /// A point that was not used as measured.
  struct Adjustment {
    int64_t batch;
    double measured, used;
  };
  /// Curves are tabulated; a larger micro-batch is refused.
  static constexpr int64_t largestSupportedBatch = int64_t(1) << 20;

  /// The curve of a device that holds no sample: largest() is 0.
  Curve();

  /// Fits a curve to points given in any order. On failure sets `error`, which
  /// names the point: batches must be positive and distinct, times positive and
  /// finite, and there must be two points unless the only one is of one sample.
  static std::optional<Curve> fit(std::vector<Point> points,
                                  std::string &error);

  /// The last measured micro-batch.
  int64_t largest() const { return int64_t(table->size()) - 1; }
  /// Seconds of a step of `batch` samples, 0 <= batch <= largest().
  double seconds(int64_t batch) const { return (*table)[batch]; }
  /// The largest batch, at most `limit`, whose step takes no more than
  /// `seconds`. 0 if there is none.
  int64_t largestWithin(double seconds, int64_t limit) const;
  /// The batch of 1 .. limit with the most samples per second, the smallest
  /// one of several. 0 if limit is 0.
  int64_t peak(int64_t limit) const;
  /// Samples per second in steps of `batch` >= 1 samples.
  double throughput(int64_t batch) const { return batch / seconds(batch); }

  /// The points by batch, as used.
  const std::vector<Point> &points() const { return used; }
  const std::vector<Adjustment> &adjustments() const { return adjusted; }

private:
  /// Seconds by batch, from 0.
  std::shared_ptr<const std::vector<double>> table;
  std::vector<Point> used;
  std::vector<Adjustment> adjusted;
};

} // namespace poplar

#endif // POPLAR_PLANNER_BATCH_CURVE_H
