//===- BlockEmulator.cpp - Blocks of GPU threads on a CPU -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockEmulator.h"

#include <algorithm>
#include <memory>
#include <ucontext.h>
#include <vector>

using namespace poplar::gputest;

namespace {

constexpr size_t stackBytes = 64 << 10;

struct Thread {
  enum State { Ready, AtBarrier, AtShuffle, Done };
  State state = Ready;
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[stackBytes]};
  std::array<int32_t, 3> index;
  /// Of a shuffle: what is given, from where, and what is got.
  float value = 0, result = 0;
  int32_t offset = 0, width = 0;
  bool valid = false;
};

struct Block {
  Kernel kernel;
  void *const *arguments;
  int64_t batch, index;
  const Launch &launch;
  std::vector<Thread> threads;
  std::vector<char> shared;
  ucontext_t scheduler;

  std::string run();
  bool release();
};

Block *block;
Thread *current;

void enter() {
  block->kernel(block->arguments, block->batch);
  current->state = Thread::Done;
}

void waitAs(Thread::State state) {
  current->state = state;
  swapcontext(&current->context, &block->scheduler);
}

} // namespace

/// Lets those go on whose peers have arrived.
bool Block::release() {
  bool released = false;
  size_t width = static_cast<size_t>(launch.subgroupSize);
  for (size_t first = 0; first < threads.size(); first += width) {
    // Those that take part are the first of the subgroup.
    if (threads[first].state != Thread::AtShuffle)
      continue;
    size_t end = std::min(first + static_cast<size_t>(threads[first].width),
                          threads.size());
    bool all = std::all_of(threads.begin() + first, threads.begin() + end,
                           [&](const Thread &t) {
                             return t.state == Thread::AtShuffle &&
                                    t.width == threads[first].width;
                           });
    for (size_t i = first; all && i < end; ++i) {
      size_t from =
          first + ((i - first) ^ static_cast<size_t>(threads[i].offset));
      threads[i].valid = from < end;
      threads[i].result = threads[from < end ? from : i].value;
    }
    for (size_t i = first; all && i < end; ++i)
      threads[i].state = Thread::Ready;
    released |= all;
  }
  bool barrier =
      std::all_of(threads.begin(), threads.end(),
                  [](const Thread &t) { return t.state == Thread::AtBarrier; });
  for (Thread &thread : threads)
    if (barrier)
      thread.state = Thread::Ready;
  return released || barrier;
}

std::string Block::run() {
  auto [x, y, z] = launch.blockSize;
  threads = std::vector<Thread>(static_cast<size_t>(x) * y * z);
  // What a kernel reads before it writes it shows in the results.
  shared.assign(static_cast<size_t>(launch.sharedBytes), '\xff');
  block = this;
  for (size_t i = 0; i < threads.size(); ++i) {
    Thread &thread = threads[i];
    int32_t number = static_cast<int32_t>(i);
    thread.index = {number % x, number / x % y, number / x / y};
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = stackBytes;
    thread.context.uc_link = &scheduler;
    makecontext(&thread.context, enter, 0);
  }
  do {
    for (Thread &thread : threads)
      if (thread.state == Thread::Ready) {
        current = &thread;
        swapcontext(&scheduler, &thread.context);
      }
  } while (release());
  for (const Thread &thread : threads)
    if (thread.state != Thread::Done)
      return "thread " + std::to_string(&thread - threads.data()) +
             " of block " + std::to_string(index) + " waits at a " +
             (thread.state == Thread::AtBarrier ? "barrier" : "shuffle") +
             " that others never reach";
  return "";
}

std::string poplar::gputest::run(Kernel kernel, void *const *arguments,
                                 int64_t batch, const Launch &launch) {
  for (int64_t index = 0; index < launch.blocks; ++index) {
    Block work = {kernel, arguments, batch, index, launch, {}, {}, {}};
    if (std::string error = work.run(); !error.empty())
      return error;
  }
  return "";
}

int64_t poplar_test_thread_id(int32_t dimension) {
  return current->index[static_cast<size_t>(dimension)];
}
int64_t poplar_test_block_id(int32_t dimension) {
  return dimension == 0 ? block->index : 0;
}
void poplar_test_barrier() { waitAs(Thread::AtBarrier); }
float poplar_test_shuffle_xor(float value, int32_t offset, int32_t width) {
  current->value = value;
  current->offset = offset;
  current->width = width;
  waitAs(Thread::AtShuffle);
  return current->result;
}
bool poplar_test_shuffle_valid() { return current->valid; }
char *poplar_test_shared() { return block->shared.data(); }
