//===- Shares.h - What a rank computes of a batch ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SHARES_H
#define POPLAR_RUNTIME_SHARES_H

#include "data/Batch.h"
#include "job/Options.h"

#include <initializer_list>
#include <vector>

namespace poplar::runtime {

class Collectives;

/// Samples of an iteration of a plan.
int64_t countPlannedSamples(const PoplarProgram &Program);

/// The largest micro-batch of at most `Samples` that fits four fifths of the
/// free memory. More than a few thousand tokens would not run faster.
int64_t chooseMicroBatch(const PoplarProgram &Program, const ModelInfo &Model,
                         int64_t Samples);

/// A rank's part of `Samples` samples, in proportion to its part of an
/// iteration, which are cut as in an iteration or into micro-steps as large as
/// any in it. All ranks get the same number of steps if they have to meet in
/// each of them. Without a plan, all samples in steps of `MicroBatch`.
Share getShare(const PoplarProgram &Program, int Rank, int64_t MicroBatch,
               int64_t Samples, bool IsIteration);

/// Every size of micro-batch that the shares are cut into.
std::vector<int64_t> getBatchSizes(std::initializer_list<Share> Shares);

/// By rank, how many columns of the logits it has: 0 in stages before the last,
/// a part of the vocabulary where ranks share units. Collective.
std::vector<int64_t> countLogitColumns(const Executor &Exec,
                                       Collectives &Group);

/// The logits of an iteration on the first rank, as rows of the whole
/// vocabulary, from what each rank has computed; nothing on others. Collective.
std::vector<float> gatherLogits(const Executor &Exec, Collectives &Group,
                                const std::vector<float> &Own,
                                int64_t GlobalBatch, int64_t MicroBatch);

/// Threads of a rank: the options', else the plan's; 0 for all cores.
int getThreads(const PoplarProgram &Program, const Options &O, int Rank);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SHARES_H
