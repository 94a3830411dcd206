//===- RankFile.h - Batches of ranks from a file ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RANKFILE_H
#define POPLAR_RUNTIME_RANKFILE_H

#include "Poplar/Runtime/ABI.h"

#include <string>
#include <vector>

namespace poplar::runtime {

/// A program whose ranks have other batches than the plan gave them. Who
/// computes how much is data in a program, and shards do not depend on it.
class RankFile {
public:
  /// Reads lines `rank node device_type threads micro_batch steps last`, as
  /// poplar build writes them in ranks.txt. Throws an Error that names the line
  /// where they are no plan for the ranks of `Program`.
  RankFile(const PoplarProgram &Program, const std::string &Path);
  RankFile(const RankFile &) = delete;
  RankFile &operator=(const RankFile &) = delete;

  /// Its plan_hash is another for every file.
  const PoplarProgram &program() const { return Changed; }

private:
  std::vector<PoplarRank> Ranks;
  PoplarProgram Changed;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_RANKFILE_H
