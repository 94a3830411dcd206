//===- Agreement.h - What ranks must have alike -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that a launcher starts have one command line. Ranks that are started
// one by one need not, and other options, data or versions on one of them would
// make a model that is nobody's. Every rank makes a list of claims; the lists
// are compared before anything else is done together.
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_COMM_AGREEMENT_H
#define POPLAR_RUNTIME_COMM_AGREEMENT_H

#include "comm/Communicator.h"

namespace poplar::runtime::comm {

/// A name and a value that all ranks should have alike.
struct Claim {
  std::string Name, Value;
  /// Whether unlike values end the job, or are only told.
  bool IsFatal = true;
};

/// What the comparison found, the same text on all ranks. Both are empty where
/// all ranks claim the same.
struct Comparison {
  std::string Error, Note;
};

/// Compares the claims of all ranks. Collective. The most frequent value of a
/// claim is taken to be right; the ranks with another value are named. `Name`
/// describes this rank: its host and device type. Ranks may have lists of
/// unlike lengths.
Comparison compareClaims(Communicator &C, const std::vector<Claim> &Mine,
                         const std::string &Name);

/// The same of lists that are all at hand.
Comparison compareClaims(const std::vector<std::vector<Claim>> &All,
                         const std::vector<std::string> &Names);

/// 16 hexadecimal digits.
std::string toHex(uint64_t Hash);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_AGREEMENT_H
