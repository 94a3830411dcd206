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
//   PoplarCommConformance --backend self|threads|mpi|tcp [--ranks N]
//       [--max-elements N] [--link-delay US,GBPS]
//       [--islands 0,0,-,1,1 [--uniform 1] [--ordered 1] [--or-skip 1]]
//       [GoogleTest's options]
//
// With `mpi` and `tcp` each process is one rank, and all run the same tests in
// the same order. Ranks with the same number in --islands collect by NCCL in
// memory of their GPUs, each of which is a rank's alone; the libraries are
// those of POPLAR_CUDA_PATH, and may be emulated. `--uniform 1` promises that
// these ranks always have the same types of memory, and skips what breaks it.
// Tests keep their data in the host's memory, and are copied to the GPUs and
// back, but with `--ordered 1`: then only those of DeviceOrderTest.cpp can run.
// One rank may be an island by itself. With `--or-skip 1`, a machine without a
// GPU for each rank, or without NCCL, is no failure: the reason is printed.
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

/// Whether a test that breaks --uniform 1 has to be skipped.
bool isUniform();
/// Whether some ranks collect by a library, over which no messages go.
bool haveIslands();

/// What the communicators are made with.
const poplar::runtime::comm::CommOptions &getOptions();

#endif // POPLAR_UNITTESTS_COMM_RANKRUNNER_H
