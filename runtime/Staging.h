//===- Staging.h - Collectives of a device through the host -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STAGING_H
#define POPLAR_RUNTIME_STAGING_H

#include "Device.h"
#include "comm/CommStream.h"

#include <vector>

namespace poplar::runtime {

/// Copies of a device's buffers in the host's memory, for communicators that
/// reach no further. What a collective reads is copied when it starts, what it
/// writes when it has been waited for. Buffers are kept for the next: after the
/// first iteration nothing is allocated.
class Staging {
public:
  /// For collectives with numbers below `Count`, of rank `Rank` of `Size`.
  Staging(Device &D, int64_t Count, int Rank, int Size);

  /// Returns `C` between buffers of the host.
  comm::Collective begin(int64_t Id, const comm::Collective &C);
  /// To be called once the collective is complete.
  void end(int64_t Id);

private:
  using Buffer = std::vector<char>;
  struct Entry {
    comm::Collective Original;
    Buffer Send, Receive;
  };
  Buffer take(int64_t Bytes);
  void put(Buffer &&B);

  Device &D;
  int Rank, Size;
  std::vector<Entry> Entries;
  std::vector<Buffer> Free;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STAGING_H
