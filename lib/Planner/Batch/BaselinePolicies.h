//===- BaselinePolicies.h - Policies to compare with ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See makePolicy() for what they do.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_BASELINEPOLICIES_H
#define POPLAR_LIB_PLANNER_BASELINEPOLICIES_H

#include "Poplar/Planner/Batch/BatchPolicy.h"

namespace poplar {

/// The method of the Poplar paper.
class PaperPolicy : public BatchPolicy {
public:
  PaperPolicy() : BatchPolicy("poplar") {}

private:
  std::optional<Allocation> allocate(const BatchProblem &problem,
                                     std::string &error) const override;
};

/// DeepSpeed.
class UniformPolicy : public BatchPolicy {
public:
  UniformPolicy() : BatchPolicy("uniform") {}

private:
  std::optional<Allocation> allocate(const BatchProblem &problem,
                                     std::string &error) const override;
};

class WhalePolicy : public BatchPolicy {
public:
  WhalePolicy() : BatchPolicy("whale") {}

private:
  std::optional<Allocation> allocate(const BatchProblem &problem,
                                     std::string &error) const override;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_BASELINEPOLICIES_H
