//===- Packing.h - Which examples share a sample ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PACKING_H
#define POPLAR_RUNTIME_PACKING_H

#include "support/Random.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace poplar::runtime {

/// Puts examples into samples of equal size, whole: by decreasing length, each
/// into the fullest sample that has room for it (best-fit decreasing). How many
/// samples that takes, and how full they are, does not depend on the order of
/// the examples; which of those of one length go together does.
class Packing {
public:
  /// `Lengths` are from 1 to `Capacity`.
  Packing(std::vector<int32_t> Lengths, int64_t Capacity);

  /// Packs anew; among examples of one length, those that are first in `Order`
  /// come first. Null is the order of the examples. Allocates nothing.
  void pack(const Permutation *Order);

  /// Number of samples.
  int64_t size() const { return Count; }
  /// Places of all samples that examples have.
  int64_t filled() const { return Filled; }
  /// The examples of a sample, from the longest to the shortest.
  const int64_t *begin(int64_t Sample) const {
    return Members.data() + Offsets[static_cast<size_t>(Sample)];
  }
  const int64_t *end(int64_t Sample) const { return begin(Sample + 1); }
  int32_t length(int64_t Example) const {
    return Lengths[static_cast<size_t>(Example)];
  }

private:
  void sort(const Permutation *Order);
  int64_t findRoom(int64_t Length) const;
  int64_t takeSample(int64_t Room);
  void giveSample(int64_t Sample, int64_t Room);

  std::vector<int32_t> Lengths;
  int64_t Capacity, Count = 0, Filled = 0;
  /// Examples by decreasing length, and the sample of each of these.
  std::vector<int64_t> Sorted, SampleOf;
  /// By length, the begin of its examples in `Sorted`.
  std::vector<int64_t> Starts;
  /// Samples by the room that is left in them, as lists: the first by room, the
  /// next by sample; and a bit for each room of which there is one.
  std::vector<int64_t> FirstWith, NextWith;
  std::vector<uint64_t> Rooms;
  std::vector<int64_t> Members, Offsets;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PACKING_H
