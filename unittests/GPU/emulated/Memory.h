//===- Memory.h - The memory and the queues of an emulated GPU --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_MEMORY_H
#define POPLAR_UNITTESTS_GPU_EMULATED_MEMORY_H

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace poplar::emulated {

/// Held by whatever the GPU does, and by who looks at its memory or queues: the
/// program has several threads.
std::recursive_mutex &getLock();

/// Memory of one process, which uses one GPU. A program that follows an address
/// of the GPU itself gets a signal.
class Memory {
public:
  static Memory &get();

  /// 0 if less than that is free.
  uint64_t allocate(int64_t bytes);
  void free(uint64_t address);
  /// Makes memory of the host the GPU's, too.
  uint64_t add(void *data, int64_t bytes);
  int64_t getFree() const { return total - used; }
  int64_t getTotal() const { return total; }

  /// The range that an address is in; false if it is in none.
  bool find(uint64_t address, uint64_t &begin, uint64_t &end) const;
  /// What lies at an address, all `bytes` of which have to be there: otherwise
  /// ends the process.
  char *at(uint64_t address, int64_t bytes) const;

private:
  Memory();

  int64_t total, used = 0;
  struct Range {
    int64_t bytes;
    bool owned;
  };
  std::map<uint64_t, Range> ranges;
};

/// Work that a program has queued. It is done when somebody waits for it and
/// not before, so that a program that forgets to wait reads what was there.
class Queue {
public:
  using Work = std::function<void()>;
  /// Whether it is done now; called again, later, until it is.
  using Attempt = std::function<bool()>;
  void add(Work work);
  void addAttempt(Attempt attempt);
  /// Its stream's: the lower, the sooner its blocks run.
  int priority = 0;
  /// Whether there are collectives in it.
  std::atomic<bool> collects{false};
  /// What is added meanwhile is not done, but becomes a graph.
  bool captures = false;
  std::deque<Work> captured;
  /// Number of the last work so far.
  int64_t getLast() const;
  /// Whether that work has been done already.
  bool isDone(int64_t number) const;
  /// Does what can be done up to that number; whether that was everything.
  bool tryTo(int64_t number);
  /// Does everything up to that number, and waits for others if need be.
  void runTo(int64_t number);
  void run() { runTo(getLast()); }

private:
  std::deque<Attempt> waiting;
  int64_t done = 0;
  /// While the first of them is being done: work that waits for itself, through
  /// other queues, is never done.
  bool busy = false;
};

} // namespace poplar::emulated

/// The GPU that the thread's context is of; -1 if it has none.
int getCurrentDevice();

/// The priority of streams whose blocks run first.
constexpr int greatestPriority = -5;

/// The queue behind a stream, which is the default one if null.
poplar::emulated::Queue &getQueue(void *stream);

#endif // POPLAR_UNITTESTS_GPU_EMULATED_MEMORY_H
