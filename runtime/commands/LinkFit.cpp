//===- LinkFit.cpp - The line through times of messages -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "commands/LinkFit.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;

static double getError(const LinkFit &Fit,
                       const std::vector<MessageTime> &Times) {
  double Sum = 0;
  for (const MessageTime &Time : Times)
    Sum += std::abs(Fit.Latency + Time.Bytes / Fit.Bandwidth - Time.Seconds) /
           Time.Seconds;
  return Sum / static_cast<double>(Times.size());
}

std::optional<LinkFit> LinkFit::get(const std::vector<MessageTime> &Times) {
  std::optional<LinkFit> Best;
  const MessageTime &Small = Times.front();
  for (const MessageTime &Large : Times) {
    if (Large.Bytes <= Small.Bytes || Large.Seconds <= Small.Seconds)
      continue;
    LinkFit Fit;
    Fit.Bandwidth =
        (Large.Bytes - Small.Bytes) / (Large.Seconds - Small.Seconds);
    Fit.Latency = std::max(Small.Seconds - Small.Bytes / Fit.Bandwidth, 0.0);
    Fit.Error = getError(Fit, Times);
    if (!Best || Fit.Error < Best->Error)
      Best = Fit;
  }
  return Best;
}
