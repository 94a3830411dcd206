//===- HostCollectives.cpp - Collectives that are the hosts' --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/HostCollectives.h"

#include <algorithm>

using namespace poplar::runtime;

std::string
poplar::runtime::explainHostCollectives(const PoplarProgram &Program) {
  if (std::any_of(Program.buckets, Program.buckets + Program.num_buckets,
                  [](const PoplarBucket &B) { return B.residuals; }))
    return "the plan rounds sums of gradients that cross between nodes";
  return Program.model->lossy_parameters == POPLAR_I8
             ? "the plan rounds parameters to blocks of int8"
             : "";
}
