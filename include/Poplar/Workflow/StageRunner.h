//===- StageRunner.h - Commands that run once -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A workflow is a row of stages, each a command of `poplar` that makes files of
// files. A stage is kept, and not run again, as long as
//
//   - its command, the contents of its inputs and the version of poplar are
//     those it ran with, and
//   - its outputs are as it left them.
//
// An output that somebody has changed since is an error: a workflow neither
// overwrites nor silently uses it. What has run is recorded in a file, a JSON
// object by the names of the stages:
//
//   {"plan": {"command": ["plan", "--model", ...], "version": "0.1 9cdb9c87",
//             "inputs": {"model.mlir": "1f0a..."},
//             "outputs": {"plan.mlir": "77c2..."}, "seconds": 1.9}}
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_WORKFLOW_STAGERUNNER_H
#define POPLAR_WORKFLOW_STAGERUNNER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace poplar {

struct Stage {
  std::string name;
  /// The words behind `poplar`.
  std::vector<std::string> command;
  /// Files that the command reads. One that is absent is an input, too.
  std::vector<std::string> inputs;
  /// Files that it writes.
  std::vector<std::string> outputs;
};

/// How a stage ended.
enum class StageEnd {
  /// It has run, or need not run again.
  Done,
  /// It has said why it failed, or `StageRunner::error` does.
  Failed,
  /// A signal ended it, or made it end.
  Stopped
};

class StageRunner {
public:
  /// `program` is the executable of `poplar`, `version` what outputs depend on
  /// of it, and `record` the file of what has run.
  StageRunner(std::string program, std::string version, std::string record);

  /// Runs a stage, unless it is kept. Prints its command, as a user would type
  /// it, and how long it took.
  StageEnd run(const Stage &stage);
  /// Runs a command that is never kept. What it prints goes to the file
  /// `output`, to the terminal if that is empty.
  StageEnd runAlways(const std::vector<std::string> &command,
                     llvm::StringRef output = "");

  /// The command that a stage ran with; empty if it has not run.
  std::vector<std::string> getRecorded(llvm::StringRef name) const;
  /// What went wrong outside of a command; empty if nothing did.
  const std::string &getError() const { return error; }
  /// Seconds that each stage of this process took, in their order. Those of a
  /// kept stage are 0.
  const std::vector<std::pair<std::string, double>> &getSeconds() const {
    return seconds;
  }

private:
  bool isKept(const Stage &stage);
  bool addRecord(const Stage &stage, llvm::json::Object inputs, double taken);

  std::string program, version, record, error;
  llvm::json::Object stages;
  std::vector<std::pair<std::string, double>> seconds;
};

/// Whether a StageRunner runs this process.
bool runsInWorkflow();

} // namespace poplar

#endif // POPLAR_WORKFLOW_STAGERUNNER_H
