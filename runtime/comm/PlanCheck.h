//===- PlanCheck.h - Ranks that must agree ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_COMM_PLANCHECK_H
#define POPLAR_RUNTIME_COMM_PLANCHECK_H

#include "comm/Communicator.h"

namespace poplar::runtime::comm {

/// Throws, on all ranks, an Error that names those whose `Hash` differs from
/// most others'. Collective. `What` is what must be the same, e.g. "plan";
/// `Name` describes this rank: its host and device type.
void checkSame(Communicator &C, const std::string &What, uint64_t Hash,
               const std::string &Name);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_PLANCHECK_H
