//===- Diagnosis.h - What the ranks of a job will fail of -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_DIAGNOSIS_H
#define POPLAR_RUNTIME_DIAGNOSIS_H

#include "job/Facts.h"

#include <string>
#include <vector>

namespace poplar::runtime {

/// Something that is wrong with some ranks, or may be.
struct Finding {
  bool Fatal;
  std::vector<int> Ranks;
  std::string Text, Remedy;
};

/// Compares the facts of all ranks with what they need and with each other: of
/// values that should be alike, the most frequent one is right. Fatal ones
/// first.
std::vector<Finding> diagnose(const std::vector<Facts> &All);

/// "failed: rank 3 (n2, t4): ...; do that", one line.
std::string format(const Finding &F, const std::vector<Facts> &All);

/// One line per rank, under a heading.
std::string formatTable(const std::vector<Facts> &All);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_DIAGNOSIS_H
