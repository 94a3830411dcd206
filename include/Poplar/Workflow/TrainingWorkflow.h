//===- TrainingWorkflow.h - From a model to a trained one -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `poplar finetune` and `poplar pretrain`: the stages from a model and data to
// a run. Their files lie in RUN/setup:
//
//   cluster    poplar cluster detect   setup/cluster.json
//   import     poplar import           setup/model.mlir
//   profile    poplar profile          the cache, by machine, model and version
//   plan       poplar plan             setup/plan.mlir, setup/plan.json
//   build      poplar build            setup/job
//   train      poplar train            RUN
//
// One CPU alone has nothing to plan: its program is built from the model.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_WORKFLOW_TRAININGWORKFLOW_H
#define POPLAR_WORKFLOW_TRAININGWORKFLOW_H

#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

struct TrainingRequest {
  /// The executable of `poplar`, and what its outputs depend on.
  std::string program, version;
  /// The command that asks for it, as a user types it: "finetune".
  std::string command;
  /// A directory of the Hugging Face Hub or a config.json; the weights in it
  /// are where training starts, unless it starts from random ones.
  std::string model;
  bool startsFromWeights = true;
  /// Files whose contents decide what is trained.
  std::vector<std::string> data;
  /// The run's directory.
  std::string output;
  /// A cluster file; or ranks of each type on this machine's CPU; or both
  /// empty for what is detected.
  std::string cluster, devices;
  /// Hosts that train together, and the speed of the network between them, as
  /// `poplar cluster detect` takes them.
  std::vector<std::string> hosts;
  std::string network;
  /// Samples an iteration; or, if that is empty, samples an iteration for each
  /// device, or for so many devices together.
  std::string globalBatch;
  int64_t deviceBatch = 0, batchDevices = 1;
  /// Leave profiles out where specifications are known.
  bool estimates = false;
  /// Seconds for the profile of a device type.
  int profileSeconds = 0;
  /// Options of the stages.
  std::vector<std::string> importWords, planWords, trainWords;
  /// Whether training may end before its last step, for want of progress.
  bool mayEndEarly = false;
  /// The format that all devices are to compute in; empty for what the cluster
  /// file says.
  std::string precision;
  /// What the policy of recomputation is to be; empty for the plan's choice.
  std::string recompute;
};

/// Runs all stages, or those that have not run. Returns the exit status; what
/// is wrong has been printed, or is in `error`.
int runTraining(const TrainingRequest &request, std::string &error);

} // namespace poplar

#endif // POPLAR_WORKFLOW_TRAININGWORKFLOW_H
