//===- ExactPolicy.h - The optimum ------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_EXACTPOLICY_H
#define POPLAR_LIB_PLANNER_EXACTPOLICY_H

#include "Poplar/Planner/Batch/BatchProblem.h"

namespace poplar {

/// Plans of least time, see makePolicy() and bestAllocations(). `problem` must
/// make sense. Times are not filled in.
std::vector<Allocation> findBestAllocations(const BatchProblem &problem,
                                            size_t count);

/// In stages 0 and 1, the fastest steps for `samples` samples on a device of a
/// type on which at least one fits; few ones where there is a choice.
RankShare fastestShare(const BatchProblem &problem, size_t type,
                       int64_t samples);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_EXACTPOLICY_H
