//===- BatchPolicy.cpp - Algorithms of batch allocation -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include "Batch/BaselinePolicies.h"
#include "Batch/ExactPolicy.h"
#include <cassert>

using namespace poplar;

BatchPolicy::~BatchPolicy() = default;

std::optional<Allocation> BatchPolicy::solve(const BatchProblem &problem,
                                             std::string &error) const {
  error = problem.check();
  if (!error.empty())
    return std::nullopt;
  std::optional<Allocation> allocation = allocate(problem, error);
  if (!allocation)
    return std::nullopt;
  allocation->policy = name;
  allocation->seconds = allocation->predict(problem);
  assert(allocation->verify(problem).empty() && "policies solve the problem");
  return allocation;
}

namespace {

class ExactPolicy : public BatchPolicy {
public:
  ExactPolicy() : BatchPolicy("exact") {}

private:
  std::optional<Allocation> allocate(const BatchProblem &problem,
                                     std::string &error) const override {
    return findBestAllocations(problem, 1)[0];
  }
};

/// The exact policy on one type alone.
class HomogeneousPolicy : public BatchPolicy {
public:
  explicit HomogeneousPolicy(const std::string &type)
      : BatchPolicy("homogeneous:" + type), type(type) {}

private:
  std::optional<Allocation> allocate(const BatchProblem &problem,
                                     std::string &error) const override;

  std::string type;
};

} // namespace

std::optional<Allocation>
HomogeneousPolicy::allocate(const BatchProblem &problem,
                            std::string &error) const {
  if (problem.findType(type) < 0) {
    error = getName() + ": there is no device type '" + type + "'";
    return std::nullopt;
  }
  BatchProblem alone = problem;
  for (auto &other : alone.types)
    if (other.name != type)
      other.count = 0;
  error = alone.check();
  if (!error.empty()) {
    error = getName() + ": " + error;
    return std::nullopt;
  }
  Allocation allocation = findBestAllocations(alone, 1)[0];
  for (size_t i = 0; i < problem.types.size(); ++i)
    if (problem.types[i].name != type)
      allocation.types[i].dropped = problem.types[i].count;
  return allocation;
}

std::unique_ptr<BatchPolicy> poplar::makePolicy(const std::string &name,
                                                std::string &error) {
  size_t colon = name.find(':');
  if (colon != std::string::npos) {
    std::string kind = name.substr(0, colon), rest = name.substr(colon + 1);
    if (kind == "homogeneous" && !rest.empty())
      return std::make_unique<HomogeneousPolicy>(rest);
    if (kind == "batch")
      return makeSharesPolicy(rest, error);
  }
  if (name == "exact")
    return std::make_unique<ExactPolicy>();
  if (name == "poplar")
    return std::make_unique<PaperPolicy>();
  if (name == "uniform")
    return std::make_unique<UniformPolicy>();
  if (name == "whale")
    return std::make_unique<WhalePolicy>();
  error = "there is no policy '" + name +
          "'; use exact, poplar, uniform, whale, homogeneous:TYPE or "
          "batch:TYPE=SAMPLES,...";
  return nullptr;
}

std::vector<Allocation> poplar::bestAllocations(const BatchProblem &problem,
                                                size_t count,
                                                std::string &error) {
  error = problem.check();
  if (!error.empty())
    return {};
  std::vector<Allocation> allocations = findBestAllocations(problem, count);
  for (Allocation &allocation : allocations) {
    allocation.policy = "exact";
    allocation.seconds = allocation.predict(problem);
  }
  return allocations;
}
