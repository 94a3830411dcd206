//===- PlanCheck.cpp - Ranks that must agree ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/PlanCheck.h"
#include "Error.h"

#include <algorithm>
#include <cstdio>
#include <map>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static std::string toHex(int64_t Hash) {
  char Text[17];
  std::snprintf(Text, sizeof Text, "%016llx",
                static_cast<unsigned long long>(Hash));
  return Text;
}

void comm::checkSame(Communicator &C, const std::string &What, uint64_t Hash,
                     const std::string &Name) {
  std::vector<int64_t> Hashes(C.size());
  Hashes[C.rank()] = static_cast<int64_t>(Hash);
  C.allReduceSum(Hashes.data(), C.size());
  // The most frequent one; of equally frequent ones, the lowest rank's.
  std::map<int64_t, int> Counts;
  for (int64_t H : Hashes)
    ++Counts[H];
  int64_t Usual = *std::max_element(
      Hashes.begin(), Hashes.end(),
      [&](int64_t A, int64_t B) { return Counts[A] < Counts[B]; });
  if (Counts[Usual] == C.size())
    return;
  std::vector<std::string> Names = C.gatherStrings(Name, 0);
  std::string Message;
  if (C.rank() == 0) {
    Message = "the ranks do not hold the same " + What + ": most have " +
              toHex(Usual);
    for (int Rank = 0; Rank < C.size(); ++Rank)
      if (Hashes[Rank] != Usual)
        Message += ", rank " + std::to_string(Rank) + " (" + Names[Rank] +
                   ") has " + toHex(Hashes[Rank]);
  }
  int64_t Length = static_cast<int64_t>(Message.size());
  C.broadcast(&Length, sizeof Length, 0);
  Message.resize(Length);
  C.broadcast(&Message[0], Length, 0);
  throw Error(Message);
}
