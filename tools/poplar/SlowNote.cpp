//===- SlowNote.cpp - Says that a command is still at work ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlowNote.h"
#include <chrono>
#include <unistd.h>
#include <utility>

SlowNote *SlowNote::current = nullptr;

SlowNote::SlowNote(std::string name) : name(std::move(name)) {
  current = this;
  if (isatty(STDERR_FILENO))
    thread = std::thread([this] { run(); });
}

SlowNote::~SlowNote() {
  current = nullptr;
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isDone = true;
  }
  done.notify_one();
  thread.join();
}

void SlowNote::enter(std::string step) {
  if (!current)
    return;
  std::lock_guard<std::mutex> lock(current->mutex);
  current->step = std::move(step);
}

void SlowNote::run() {
  auto begin = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  for (int seconds = 2;; seconds = seconds == 2 ? 10 : 2 * seconds) {
    if (done.wait_until(lock, begin + std::chrono::seconds(seconds),
                        [this] { return isDone; }))
      return;
    std::string line = name + ": still at work after " +
                       std::to_string(seconds) + " s" +
                       (step.empty() ? "" : ", on " + step) + "\n";
    // Processes are forked meanwhile: nothing that has a lock of its own.
    if (write(STDERR_FILENO, line.data(), line.size()) < 0)
      return;
  }
}
