//===- PhaseBuilder.cpp - A function as a simulation has it ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PhaseBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace poplar;

using Step = SimulationProblem::Operation;
using Phase = SimulationProblem::Phase;

PhaseBuilder::PhaseBuilder(SimulationProblem &problem, CollectiveCost cost,
                           std::vector<double> shares)
    : problem(problem), cost(std::move(cost)), shares(std::move(shares)) {
  problem.ports = CollectiveCost::numPorts;
}

const std::vector<int64_t> &PhaseBuilder::getBounds(zero::BucketOp bucket) {
  int64_t elements = bucket.getBounds()->back();
  auto [entry, isNew] = bounds.try_emplace(elements);
  if (isNew)
    entry->second = shardByShares(elements, shares).bounds;
  return entry->second;
}

void PhaseBuilder::addComputation(Phase &phase, StringRef name,
                                  double seconds) {
  if (seconds == 0)
    return;
  std::vector<std::string> &names = problem.computations;
  auto [entry, isNew] =
      computations.try_emplace(name, static_cast<int>(names.size()));
  if (isNew)
    names.push_back(name.str());
  phase.push_back(Step::compute(entry->second, seconds));
}

int PhaseBuilder::getCollective(
    const Twine &name,
    llvm::function_ref<SimulationProblem::Collective(std::string)> make) {
  std::vector<SimulationProblem::Collective> &list = problem.collectives;
  auto [entry, isNew] =
      collectives.try_emplace(name.str(), static_cast<int>(list.size()));
  if (isNew)
    list.push_back(make(name.str()));
  return entry->second;
}

void PhaseBuilder::addExchange(Phase &phase, StringRef name, int64_t bytes) {
  if (shares.size() < 2)
    return;
  int token = static_cast<int>(phase.size());
  int index = getCollective(name, [&](std::string text) {
    return cost.exchange(std::move(text), bytes);
  });
  phase.push_back(Step::start(index, token));
  phase.push_back(Step::wait(token));
}

/// Adds the collective of a bucket if it is not there yet. Buckets of one size
/// cost the same.
int PhaseBuilder::getCollective(const Twine &name, zero::BucketOp bucket,
                                int64_t bytes, bool reduces) {
  return getCollective(name, [&](std::string text) {
    const std::vector<int64_t> &bounds = getBounds(bucket);
    auto [entry, isNew] = costs.try_emplace({bounds.back(), bytes, reduces});
    if (isNew)
      entry->second = reduces ? cost.reduceScatter("", bounds, bytes)
                              : cost.allGather("", bounds, bytes);
    SimulationProblem::Collective collective = entry->second;
    collective.name = std::move(text);
    return collective;
  });
}

/// Starts a collective; returns its token. An all-reduce is a reduce-scatter
/// and an all-gather, as in the runtime.
int PhaseBuilder::addStart(Phase &phase, zero::CollectiveOpInterface op) {
  auto bucket =
      symbols.lookupNearestSymbolFrom<zero::BucketOp>(op, op.getBucketName());
  int64_t bytes = op.getWireType().getIntOrFloatBitWidth() / 8;
  int token = static_cast<int>(phase.size());
  zero::CollectiveKind kind = op.getCollectiveKind();
  std::string name =
      (stringifyCollectiveKind(kind) + " @" + bucket.getSymName()).str();
  if (kind != zero::CollectiveKind::AllGather) {
    bool alone = kind == zero::CollectiveKind::ReduceScatter;
    int index = getCollective(name + (alone ? "" : ", sums"), bucket, bytes,
                              /*reduces=*/true);
    phase.push_back(Step::start(index, token));
    if (alone)
      return token;
  }
  int index = getCollective(name, bucket, bytes, /*reduces=*/false);
  phase.push_back(Step::start(index, token));
  return token;
}

/// The name of what a step of a program computes.
static StringRef getComputationName(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return call.getCallee();
  return op->getName().stripDialect();
}

FailureOr<Phase>
PhaseBuilder::make(ModuleOp program, StringRef name,
                   llvm::function_ref<double(Operation *)> seconds) {
  auto function = program.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal())
    return program.emitError("has no function @")
           << name << " to simulate: the programs must be scheduled first";
  Phase phase;
  DenseMap<Value, int> tokens;
  for (Operation &op : function.front()) {
    addComputation(phase, getComputationName(&op), seconds(&op));
    if (isa<zero::NormOp>(op)) {
      addExchange(phase, "norm", 2 * sizeof(double));
    } else if (auto wait = dyn_cast<zero::WaitOp>(op)) {
      phase.push_back(Step::wait(tokens.lookup(wait.getToken())));
    } else if (auto collective = dyn_cast<zero::CollectiveOpInterface>(op)) {
      int token = addStart(phase, collective);
      if (auto start = dyn_cast<zero::StartOp>(op))
        tokens[start.getToken()] = token;
      else
        phase.push_back(Step::wait(token));
    }
  }
  return phase;
}
