//===- ChildProcess.h - A command and its signals ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_WORKFLOW_CHILDPROCESS_H
#define POPLAR_LIB_WORKFLOW_CHILDPROCESS_H

#include <string>
#include <vector>

namespace poplar {

struct ChildEnd {
  /// The exit status; 128 and the signal if one ended it.
  int status = 0;
  /// Whether this process was told to stop meanwhile.
  bool stopped = false;
};

/// Runs a program until it ends. What it prints goes to the file `output`, to
/// the terminal if that is empty. SIGINT, SIGTERM and SIGHUP of this process
/// are passed on, each once, whether the terminal sends them or another
/// process. The program ends when this process does. Fails, with `error` set,
/// if it cannot start.
bool runChild(const std::vector<std::string> &words, const std::string &output,
              ChildEnd &end, std::string &error);

} // namespace poplar

#endif // POPLAR_LIB_WORKFLOW_CHILDPROCESS_H
