//===- Staging.h - Collectives of a device through the host -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STAGING_H
#define POPLAR_RUNTIME_STAGING_H

#include "comm/CommStream.h"
#include "program/Device.h"

#include <vector>

namespace poplar::runtime {

/// Copies of a device's buffers in the host's memory, for communicators that
/// reach no further. What a collective reads is copied when it starts, what it
/// writes when it has been waited for. Buffers are kept for the next: after the
/// first iteration nothing is allocated.
class Staging {
public:
  /// Has room for collectives with numbers below `Count`, and for `NumMessages`
  /// messages.
  Staging(Device &D, int64_t Count, int64_t NumMessages);

  /// Returns `C`, of rank `Rank` of `Size`, between buffers of the host.
  comm::Collective begin(int64_t Id, const comm::Collective &C, int Rank,
                         int Size);
  /// Call it once the collective is complete.
  void end(int64_t Id);

  /// A buffer of the host for a message, with a copy of the data to send.
  std::vector<char> beginSend(const void *Data, int64_t Bytes);
  std::vector<char> beginReceive(int64_t Bytes);
  /// Keeps the buffer of a message under way; `To` is null for a send.
  void keep(int Message, std::vector<char> &&Data, void *To);
  /// Call it once the message is complete.
  void endMessage(int Message);

private:
  using Buffer = std::vector<char>;
  struct Entry {
    comm::Collective Original;
    Buffer Send, Receive;
  };
  /// `To` is null for a send.
  struct StagedMessage {
    Buffer Data;
    void *To = nullptr;
  };
  Buffer take(int64_t Bytes);
  void put(Buffer &&B);

  Device &D;
  std::vector<Entry> Entries;
  /// Messages by their number.
  std::vector<StagedMessage> Messages;
  std::vector<Buffer> Free;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STAGING_H
