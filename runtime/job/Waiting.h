//===- Waiting.h - Telling how far something slow has come ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_WAITING_H
#define POPLAR_RUNTIME_WAITING_H

#include "program/Executor.h"
#include "support/CommandName.h"

#include <chrono>
#include <cstdio>
#include <string>

namespace poplar::runtime {

/// Prints a line every other second, so that nobody takes a slow disk for a
/// hang.
class Waiting {
public:
  explicit Waiting(std::string What) : What(std::move(What)) {}

  /// So many bytes have been read.
  void step(int64_t Bytes) {
    Clock::time_point Now = Clock::now();
    if (Now - Last < std::chrono::seconds(2))
      return;
    Last = Now;
    std::fprintf(Notes, "%s: %s read\n", What.c_str(),
                 formatBytes(Bytes).c_str());
    std::fflush(Notes);
  }

private:
  using Clock = std::chrono::steady_clock;
  std::string What;
  Clock::time_point Last = Clock::now();
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_WAITING_H
