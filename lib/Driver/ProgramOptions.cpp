//===- ProgramOptions.cpp - How a program is compiled ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/ProgramOptions.h"
#include "Poplar/Transforms/Plan/Buildable.h"

using namespace poplar;

bool poplar::checkCPU(const CodeOptions &options, std::string &error) {
  if (isKnownCPU(options.cpu))
    return true;
  error = "--cpu: LLVM knows no processor '" + options.cpu +
          "' of this architecture; llc --mcpu=help lists those it knows";
  return false;
}

std::vector<int64_t> poplar::findRanks(const Plan &plan,
                                       mlir::ModuleOp program) {
  std::string own = zero::ProgramInfo::get(program).getProgramName();
  std::vector<int64_t> ranks;
  for (auto [index, name] : llvm::enumerate(zero::getProgramNames(plan)))
    if (name == own)
      ranks.push_back(int64_t(index));
  return ranks;
}

bool poplar::chooseOptions(mlir::ModuleOp program, BuildOptions &options,
                           std::string &error) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  error =
      explainUnbuildable(program, info.deviceType, info.target, info.precision);
  if (!error.empty())
    return false;
  if (mlir::failed(setTarget(options, info.target))) {
    error = "device type '" + info.deviceType + "' has the unknown target " +
            info.target;
    return false;
  }
  chooseScheduleOptions(program, options);
  options.maxBatch = 1;
  for (auto op : program.getOps<zero::PlanOp>()) {
    Plan plan = zero::readPlan(op);
    for (int64_t rank : findRanks(plan, program)) {
      options.threads = plan.ranks[rank].threads;
      options.maxBatch =
          std::max(options.maxBatch, plan.ranks[rank].share.largestStep());
    }
  }
  return true;
}
