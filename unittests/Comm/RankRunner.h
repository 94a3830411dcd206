//===- RankRunner.h - Runs a test on all ranks of a group -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The conformance tests are one program, which is started once per backend,
// number of ranks and node map:
//
//   PoplarCommConformance --backend self|threads|mpi [--ranks N]
//       [--max-elements N] [--link-delay US,GBPS] [GoogleTest's options]
//
// With `mpi` each process is one rank, and all run the same tests in the same
// order.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_COMM_RANKRUNNER_H
#define POPLAR_UNITTESTS_COMM_RANKRUNNER_H

#include "comm/Backend.h"
#include "comm/CommStream.h"

#include <functional>

/// Calls `Body` once per rank that is in this process, on a thread of its own
/// if there are several. An exception fails the test, on all ranks.
void onEachStream(
    const std::function<void(poplar::runtime::comm::CommStream &)> &Body);

/// The same, on the communication threads.
void onEachRank(
    const std::function<void(poplar::runtime::comm::Communicator &)> &Body);

/// What the communicators are made with.
const poplar::runtime::comm::CommOptions &getOptions();

#endif // POPLAR_UNITTESTS_COMM_RANKRUNNER_H
