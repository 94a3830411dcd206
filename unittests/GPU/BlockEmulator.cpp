//===- BlockEmulator.cpp - Blocks of GPU threads on a CPU -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockEmulator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <ucontext.h>
#include <utility>
#include <vector>

using namespace poplar::gputest;

namespace {

constexpr size_t stackBytes = 64 << 10;

/// Where a jump goes to, as the compiler's own functions for that keep it:
/// threads wait millions of times, and those of the library take several times
/// as long.
using Place = void *[5];

/// A stack of its own, on which kernels run one after the other. It is started
/// by makecontext and then switched to by jumps, which unlike swapcontext do
/// not ask the system for anything.
struct Fiber {
  Place place;
  bool started = false;
  std::unique_ptr<char[]> stack{new char[stackBytes]};
};

struct Copy {
  char *to;
  const char *from;
  int64_t bytes;
  int32_t site;
};

struct Thread {
  enum State { Ready, AtBarrier, AtShuffle, Done };
  State state = Ready;
  Fiber *fiber = nullptr;
  std::array<int32_t, 3> index;
  /// A shuffle: what is given, from where, among whom, and what is got. A
  /// barrier: what is given and got.
  uint32_t value = 0, result = 0;
  int32_t source = 0;
  uint64_t members = 0;
  bool valid = false;
  /// Values of a gathering; null in a shuffle.
  const uint64_t *values = nullptr;
  int32_t count = 0;
  /// Whether it waits at a barrier of the subgroup.
  bool isBarrier = false;
  /// The line that the thread has come to.
  int32_t line = 0;
  /// The thread's number in its block, and its subgroup and place there.
  int32_t number = 0, subgroup = 0, lane = 0;
  /// Groups of copies, in order, and the one that is not ended yet. Every
  /// thread of every block begins with none, so nothing is allocated for that.
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> group;
};

struct Block {
  Kernel kernel;
  void *const *arguments;
  int64_t batch, index;
  const Launch &launch;
  std::vector<Thread> threads;
  std::vector<char> shared;
  /// What the lanes of each subgroup have gathered.
  std::vector<std::vector<uint64_t>> gathered;
  /// Barriers that have been passed by all, and by each subgroup alone.
  int32_t epoch = 0;
  std::vector<int32_t> warpEpochs;
  /// Why nothing goes on, if it is not that some never come.
  std::string error;

  std::string run();
  bool release();
  bool isTogether(size_t first);
};

/// Shuffles, or leaves everything as it is.
class Order {
public:
  /// Begins a launch.
  void start() {
    const char *given = std::getenv("POPLAR_EMULATED_ORDER");
    seed = given ? static_cast<uint32_t>(std::atoll(given)) : 0;
    random.seed(seed);
  }
  /// 0 to `count` - 1.
  const std::vector<size_t> &get(std::vector<size_t> &numbers, size_t count) {
    if (numbers.size() != count || !seed) {
      numbers.resize(count);
      std::iota(numbers.begin(), numbers.end(), size_t(0));
    }
    if (seed)
      std::shuffle(numbers.begin(), numbers.end(), random);
    return numbers;
  }

private:
  uint32_t seed = 0;
  std::mt19937 random;
};

Block *block;
Thread *current;
Order order;
Place scheduler;
/// The fibers of the threads of a block, by number; kept from block to block.
std::vector<std::unique_ptr<Fiber>> fibers;

/// A function must not jump to itself, nor be inlined into one that does.
[[noreturn, gnu::noinline]] void jump(Place &place) {
  __builtin_longjmp(place, 1);
}

[[gnu::noinline]] void waitAs(Thread::State state) {
  current->state = state;
  if (__builtin_setjmp(current->fiber->place) == 0)
    jump(scheduler);
}

void enter() {
  while (true) {
    block->kernel(block->arguments, block->batch);
    waitAs(Thread::Done);
  }
}

/// Returns when the thread waits, or is done.
[[gnu::noinline]] void resume(Thread &thread) {
  current = &thread;
  if (__builtin_setjmp(scheduler) != 0)
    return;
  Fiber &fiber = *thread.fiber;
  if (std::exchange(fiber.started, true))
    jump(fiber.place);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = stackBytes;
  context.uc_link = nullptr;
  makecontext(&context, enter, 0);
  setcontext(&context);
}

} // namespace

/// Whether the subgroup of a thread is at one instruction, as a barrier of the
/// block and a product of matrices ask for.
bool Block::isTogether(size_t first) {
  size_t width = static_cast<size_t>(launch.subgroupSize);
  for (size_t i = first; i < std::min(first + width, threads.size()); ++i)
    if (threads[i].line != threads[first].line) {
      error = "threads " + std::to_string(first) + " and " + std::to_string(i) +
              " of block " + std::to_string(index) +
              " are of one subgroup, which has to come to one instruction: "
              "they are at lines " +
              std::to_string(threads[first].line) + " and " +
              std::to_string(threads[i].line);
      return false;
    }
  return true;
}

/// Lets those go on whose peers have arrived.
bool Block::release() {
  bool released = false;
  size_t width = static_cast<size_t>(launch.subgroupSize);
  for (size_t first = 0; first < threads.size(); first += width) {
    size_t count = std::min(width, threads.size() - first);
    for (size_t lane = 0; lane < count; ++lane) {
      if (threads[first + lane].state != Thread::AtShuffle)
        continue;
      uint64_t members = threads[first + lane].members;
      auto isMember = [&](size_t other) { return members >> other & 1; };
      bool all = true, isBarrier = threads[first + lane].isBarrier;
      for (size_t other = 0; other < count && all; ++other)
        all = !isMember(other) ||
              (threads[first + other].state == Thread::AtShuffle &&
               threads[first + other].members == members &&
               threads[first + other].isBarrier == isBarrier);
      if (all && isBarrier)
        ++warpEpochs[first / width];
      std::vector<uint64_t> &values = gathered[first / width];
      if (all && threads[first + lane].values) {
        if (!isTogether(first))
          return false;
        values.clear();
        for (size_t other = 0; other < count; ++other) {
          const Thread &thread = threads[first + other];
          // Others that have come to shuffle, or with other values, never met.
          if (!thread.values || thread.count != threads[first].count)
            return false;
          values.insert(values.end(), thread.values,
                        thread.values + thread.count);
        }
      }
      for (size_t other = 0; other < count && all; ++other)
        if (isMember(other)) {
          Thread &thread = threads[first + other];
          thread.values = nullptr;
          thread.isBarrier = false;
          size_t source = static_cast<size_t>(thread.source);
          thread.result =
              threads[first + (source < count ? source : other)].value;
          thread.state = Thread::Ready;
        }
      released |= all;
    }
  }
  bool barrier =
      std::all_of(threads.begin(), threads.end(),
                  [](const Thread &t) { return t.state == Thread::AtBarrier; });
  if (!barrier)
    return released;
  for (size_t first = 0; first < threads.size(); first += width)
    if (!isTogether(first))
      return false;
  bool any = std::any_of(threads.begin(), threads.end(),
                         [](const Thread &t) { return t.value != 0; });
  for (Thread &thread : threads) {
    thread.result = any;
    thread.state = Thread::Ready;
  }
  ++epoch;
  return true;
}

std::string Block::run() {
  auto [x, y, z] = launch.blockSize;
  threads = std::vector<Thread>(static_cast<size_t>(x) * y * z);
  // What a kernel reads before it writes it shows in the results.
  shared.assign(static_cast<size_t>(launch.sharedBytes), '\xff');
  gathered.resize(threads.size() / static_cast<size_t>(launch.subgroupSize) +
                  1);
  warpEpochs.assign(gathered.size(), 0);
  block = this;
  std::vector<size_t> numbers;
  for (size_t i : order.get(numbers, threads.size())) {
    Thread &thread = threads[i];
    int32_t number = static_cast<int32_t>(i);
    thread.number = number;
    thread.subgroup = number / launch.subgroupSize;
    thread.lane = number % launch.subgroupSize;
    thread.index = {number % x, number / x % y, number / x / y};
    if (!launch.waits) {
      current = &thread;
      kernel(arguments, batch);
      continue;
    }
    while (i >= fibers.size())
      fibers.push_back(std::make_unique<Fiber>());
    thread.fiber = fibers[i].get();
  }
  if (!launch.waits)
    return "";
  do {
    for (size_t i : order.get(numbers, threads.size()))
      if (threads[i].state == Thread::Ready)
        resume(threads[i]);
  } while (release());
  if (!error.empty()) {
    fibers.clear();
    return error;
  }
  for (const Thread &thread : threads)
    if (thread.state != Thread::Done) {
      // Their stacks are in the middle of something.
      fibers.clear();
      return "thread " + std::to_string(&thread - threads.data()) +
             " of block " + std::to_string(index) + " waits at a " +
             (thread.state == Thread::AtBarrier ? "barrier" : "shuffle") +
             " that others never reach";
    }
  return "";
}

std::string poplar::gputest::run(Kernel kernel, void *const *arguments,
                                 int64_t batch, const Launch &launch) {
  order.start();
  std::vector<size_t> numbers;
  for (size_t index : order.get(numbers, static_cast<size_t>(launch.blocks))) {
    Block work = {kernel, arguments, batch, static_cast<int64_t>(index),
                  launch, {},        {},    {},
                  0,      {},        {}};
    if (std::string error = work.run(); !error.empty())
      return error;
  }
  return "";
}

Position poplar::gputest::getPosition() {
  return {block->index, current->number, block->epoch,
          block->warpEpochs[static_cast<size_t>(current->subgroup)]};
}

int64_t poplar_test_thread_id(int32_t dimension) {
  return current->index[static_cast<size_t>(dimension)];
}
int64_t poplar_test_block_id(int32_t dimension) {
  return dimension == 0 ? block->index : 0;
}
void poplar_test_come_to(int32_t line) { current->line = line; }
void poplar_test_barrier() { poplar_test_barrier_or(false); }
bool poplar_test_barrier_or(bool value) {
  current->value = value;
  waitAs(Thread::AtBarrier);
  return current->result != 0;
}
uint32_t poplar_test_shuffle(uint32_t value, int32_t source, uint64_t members) {
  current->value = value;
  current->source = source;
  current->members = members;
  waitAs(Thread::AtShuffle);
  return current->result;
}
void poplar_test_warp_barrier() {
  current->isBarrier = true;
  poplar_test_shuffle(0, 0, 0xFFFFFFFF);
}
const uint64_t *poplar_test_gather(const uint64_t *values, int32_t count) {
  current->values = values;
  current->count = count;
  current->members = 0xFFFFFFFF;
  waitAs(Thread::AtShuffle);
  return block->gathered[static_cast<size_t>(current->subgroup)].data();
}
void (*poplar_test_copied)(char *to, const char *from, int64_t bytes,
                           int32_t site) = nullptr;
void poplar_test_copy_later(char *to, const char *from, int64_t bytes,
                            int32_t site) {
  current->group.push_back({to, from, bytes, site});
}
void poplar_test_end_copies() {
  current->groups.push_back(std::exchange(current->group, {}));
}
void poplar_test_wait_for_copies(int32_t groups) {
  while (static_cast<int32_t>(current->groups.size()) > groups) {
    for (const Copy &copy : current->groups.front()) {
      if (copy.from)
        std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
      else
        std::memset(copy.to, 0, static_cast<size_t>(copy.bytes));
      if (poplar_test_copied)
        poplar_test_copied(copy.to, copy.from, copy.bytes, copy.site);
    }
    current->groups.erase(current->groups.begin());
  }
}
int32_t poplar_test_lane() { return current->lane; }
float poplar_test_shuffle_xor(float value, int32_t offset, int32_t width) {
  int32_t lane = poplar_test_lane(), other = lane ^ offset;
  current->valid = other < width;
  uint64_t members = width == 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = poplar_test_shuffle(bits, other < width ? other : lane, members);
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}
bool poplar_test_shuffle_valid() { return current->valid; }
char *poplar_test_shared() { return block->shared.data(); }
