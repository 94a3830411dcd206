//===- ProgramOptions.cpp - How a program is compiled ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/ProgramOptions.h"
#include "Poplar/Planner/Cluster/Buildable.h"

using namespace poplar;

bool poplar::checkCPU(const CodeOptions &options, std::string &error) {
  if (isKnownCPU(options.cpu))
    return true;
  error = "--cpu: LLVM knows no processor '" + options.cpu +
          "' of this architecture; llc --mcpu=help lists those it knows";
  return false;
}

bool poplar::isOf(zero::RankOp rank, mlir::ModuleOp program) {
  auto plan = rank->getParentOfType<zero::PlanOp>();
  auto ranks = plan.getRanks();
  int64_t index = llvm::find(ranks, rank) - ranks.begin();
  return zero::getProgramName(plan, index) ==
         zero::ProgramInfo::get(program).getProgramName();
}

bool poplar::chooseOptions(mlir::ModuleOp program, BuildOptions &options,
                           std::string &error) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  error = explainUnbuildable(info.deviceType, info.target);
  if (!error.empty())
    return false;
  if (mlir::failed(setTarget(options, info.target))) {
    error = "device type '" + info.deviceType + "' has the unknown target " +
            info.target;
    return false;
  }
  chooseScheduleOptions(program, options);
  options.maxBatch = 1;
  for (auto plan : program.getOps<zero::PlanOp>())
    for (zero::RankOp rank : plan.getRanks())
      if (isOf(rank, program)) {
        options.threads = rank.getThreads();
        options.maxBatch = std::max(options.maxBatch, rank.getLargestStep());
      }
  return true;
}
