//===- SlowNote.h - Says that a command is still at work --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_SLOWNOTE_H
#define POPLAR_TOOLS_SLOWNOTE_H

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

/// While it lives, prints a line on a terminal after 2 s, and then ever more
/// seldom. It prints nothing where standard error is not a terminal. There is
/// one at most.
class SlowNote {
public:
  explicit SlowNote(std::string name);
  ~SlowNote();
  /// What the command is at, for the next line.
  static void enter(std::string step);
  SlowNote(const SlowNote &) = delete;
  SlowNote &operator=(const SlowNote &) = delete;

private:
  void run();

  static SlowNote *current;

  std::string name, step;
  std::mutex mutex;
  std::condition_variable done;
  bool isDone = false;
  std::thread thread;
};

#endif // POPLAR_TOOLS_SLOWNOTE_H
