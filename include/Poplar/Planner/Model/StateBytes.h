//===- StateBytes.h - Bytes of the training state ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How much of the training state a rank holds in each ZeRO stage (Rajbhandari
// et al., ZeRO, SC 2020, section 5): the optimizer's state is sharded from
// stage 1 on, gradients from stage 2, parameters in stage 3.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_STATEBYTES_H
#define POPLAR_PLANNER_MODEL_STATEBYTES_H

#include "Poplar/Support/Words.h"
#include <algorithm>
#include <cstdint>
#include <string_view>

namespace poplar {

/// What values of a precision are kept in: TF32 is how products round what is
/// f32 in memory.
constexpr NumberFormat getStorageFormat(NumberFormat precision) {
  return precision == NumberFormat::TF32 ? NumberFormat::F32 : precision;
}

/// Bytes of a value in memory, and of an activation between pipeline stages.
constexpr int64_t getStorageBytes(NumberFormat format) {
  return getStorageFormat(format) == NumberFormat::F32 ? 4 : 2;
}

/// The format in which a device computes and reads parameters, of the one its
/// type asks for: hosts that are said to compute in f16 only keep activations
/// in it.
inline NumberFormat getWorkingFormat(std::string_view target,
                                     NumberFormat precision) {
  bool stores =
      precision == NumberFormat::F16 && target.compare(0, 4, "host") == 0;
  return stores ? NumberFormat::F32 : getStorageFormat(precision);
}

/// Bytes of state per parameter element.
struct StateFormat {
  int64_t parameter, gradient;
  /// Masters, where they are not the parameters themselves, and moments.
  int64_t optimizer;

  /// bf16 or fp16: f32 gradients, f32 masters and two f32 moments.
  static constexpr StateFormat halfPrecision() { return {2, 4, 12}; }
  /// f32: the parameters are the masters.
  static constexpr StateFormat singlePrecision() { return {4, 4, 8}; }

  /// The format of a rank whose parameters have this working format
  /// (getWorkingFormat).
  static constexpr StateFormat of(NumberFormat workingFormat) {
    return getStorageBytes(workingFormat) == 4 ? singlePrecision()
                                               : halfPrecision();
  }

  /// Bytes per element of what a stage shards, and of what every rank holds.
  int64_t sharded(int zeroStage) const {
    return (zeroStage >= 1 ? optimizer : 0) + (zeroStage >= 2 ? gradient : 0) +
           (zeroStage >= 3 ? parameter : 0);
  }
  int64_t replicated(int zeroStage) const {
    return parameter + gradient + optimizer - sharded(zeroStage);
  }
};

/// Sizes of buckets.
struct BucketSizes {
  /// In elements; how many there are. Those that are quantised are counted, and
  /// the largest has `quantizedBytes`.
  int64_t largest = 0, count = 0, quantizedBytes = 0;
};

/// What a rank keeps beside the state for the time of a bucket only: a
/// micro-step's gradients, and in stage 3 gathered parameters; of each, what is
/// in use and the `overlapDepth` that are under way, at most as much as a step
/// has. It reduces every trained bucket once and gathers every one twice.
inline int64_t transientBytes(const StateFormat &format, int zeroStage,
                              BucketSizes all, BucketSizes trained,
                              int64_t overlapDepth) {
  int64_t alive = 1 + overlapDepth,
          gradients = zeroStage >= 2 ? std::min(alive, trained.count) : 0,
          gathered = zeroStage >= 3 ? std::min(alive, 2 * all.count) : 0;
  return trained.largest * gradients * format.gradient +
         std::max(all.largest * format.parameter, all.quantizedBytes) *
             gathered;
}
inline int64_t transientBytes(const StateFormat &format, int zeroStage,
                              int64_t largest, int64_t buckets,
                              int64_t overlapDepth) {
  BucketSizes sizes = {largest, buckets};
  return transientBytes(format, zeroStage, sizes, sizes, overlapDepth);
}

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_STATEBYTES_H
