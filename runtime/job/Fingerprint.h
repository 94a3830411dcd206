//===- Fingerprint.h - What files hold, in a line ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_FINGERPRINT_H
#define POPLAR_RUNTIME_FINGERPRINT_H

#include "support/MappedFile.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace poplar::runtime {

/// Files, in an order, by their sizes and a hash (XXH3) of what they hold.
/// Their paths do not count.
class Fingerprint {
public:
  /// Called now and then with the bytes that were read so far.
  using Report = std::function<void(int64_t)>;

  /// Reads up to `Whole` bytes of each file: all of it, or, of a longer file,
  /// its beginning, its end, and as much in blocks of 64 KiB that lie evenly in
  /// between.
  explicit Fingerprint(int64_t Whole, Report OnProgress = nullptr)
      : Whole(Whole), OnProgress(std::move(OnProgress)) {}

  void add(const MappedFile &File);
  void add(std::string_view Text);

  /// "1234567 bytes with the hash 0123456789abcdef", "1234 bytes in 3 files
  /// ...", or "nothing".
  std::string describe() const;

private:
  void hash(const char *Data, size_t Bytes);

  int64_t Whole;
  Report OnProgress;
  uint64_t Hash = 0;
  int64_t Files = 0, Bytes = 0, Read = 0;
};

/// The fingerprint of what --init and --checkpoint name: a run, which stands
/// for its newest checkpoint, a checkpoint, or a file of one. Of large files a
/// part is read: training changes nearly all weights.
std::string describeCheckpoint(const std::string &Path);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_FINGERPRINT_H
