//===- Transport.cpp - Sleeping between messages --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Transport.h"

#include <poll.h>

using namespace poplar::runtime;

void comm::restOn(Clock::duration Most, int First, int Second) {
  if (Most <= Clock::duration::zero())
    return;
  auto Seconds = std::chrono::duration_cast<std::chrono::seconds>(Most);
  std::chrono::nanoseconds Rest = Most - Seconds;
  timespec Time = {};
  Time.tv_sec = Seconds.count();
  Time.tv_nsec = Rest.count();
  pollfd Descriptors[] = {{First, POLLIN, 0}, {Second, POLLIN, 0}};
  // It also returns at a signal: who rests looks again in any case.
  ppoll(Descriptors, 2, &Time, nullptr);
}
