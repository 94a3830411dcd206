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
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace poplar {

struct WorkflowStage {
  std::string name;
  /// The words behind `poplar`.
  std::vector<std::string> command;
  /// Files that the command reads. One that is absent is an input, too.
  std::vector<std::string> inputs;
  /// Files that it writes.
  std::vector<std::string> outputs;
  /// Whether it has done all of its work, for a command that may also end well
  /// with a part of it; it runs again until then.
  std::function<bool()> isComplete = nullptr;
};

/// How a stage ended.
enum class StageEnd {
  /// It has run, or need not run again.
  Done,
  /// It has said why it failed, or `StageRunner::error` does.
  Failed,
  /// A signal ended it, or it ended with a part of its work.
  Stopped
};

class StageRunner {
public:
  /// `program` is the executable of `poplar`, `version` what outputs depend on
  /// of it, and `file` keeps what has run.
  StageRunner(std::string program, std::string version, std::string file);

  /// Runs a stage, unless it is kept. Prints its command, as a user would type
  /// it, and how long it took.
  StageEnd run(const WorkflowStage &stage);
  /// Runs a command that is never kept. What it prints goes to the file
  /// `output`, to the terminal if that is empty.
  StageEnd runAlways(const std::vector<std::string> &command,
                     llvm::StringRef output = "");

  /// The command that a stage ran with; empty if it has not run.
  std::vector<std::string> getRecorded(const std::string &name) const;
  /// What went wrong outside of a command; empty if nothing did.
  const std::string &getError() const { return error; }
  /// Seconds that each stage of this process took, in their order. Those of a
  /// kept stage are 0.
  const std::vector<std::pair<std::string, double>> &getSeconds() const {
    return seconds;
  }

private:
  /// Hashes of contents by path.
  using Hashes = std::map<std::string, std::string>;
  /// A stage as it ran.
  struct Record {
    std::vector<std::string> command;
    std::string version;
    Hashes inputs, outputs;
    double seconds = 0;
  };

  static Hashes hashFiles(const std::vector<std::string> &paths);
  void readRecords();
  bool writeRecords();
  bool isKept(const WorkflowStage &stage);

  std::string program, version, file, error;
  std::map<std::string, Record> records;
  std::vector<std::pair<std::string, double>> seconds;
};

/// Whether a StageRunner runs this process.
bool runsInWorkflow();

} // namespace poplar

#endif // POPLAR_WORKFLOW_STAGERUNNER_H
