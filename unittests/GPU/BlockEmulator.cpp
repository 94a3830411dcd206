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
#include <deque>
#include <memory>
#include <numeric>
#include <ucontext.h>
#include <utility>
#include <vector>

using namespace poplar::gputest;

namespace {

/// Neighbouring stacks begin in other lines of a cache, because an odd number
/// of lines is between them: with 64 KiB alone, all stacks would share a few
/// lines.
constexpr size_t stackBytes = (64 << 10) + 13 * 64;

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

/// What a thread copies later: groups of copies, in order, and the one that is
/// not ended yet.
struct Copies {
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> group;
};

struct Thread {
  enum State : uint8_t { Ready, AtBarrier, AtShuffle, Done };
  State state = Ready;
  /// Whether it waits at a barrier of the subgroup.
  bool isBarrier = false;
  bool valid = false;
  Fiber *fiber = nullptr;
  /// A shuffle: what is given, from where, among whom, and what is got. A
  /// barrier: what is given and got.
  uint32_t value = 0, result = 0;
  int32_t source = 0;
  uint64_t members = 0;
  /// Values of a gathering; null in a shuffle.
  const uint64_t *values = nullptr;
  int32_t count = 0;
  /// The line that the thread has come to.
  int32_t line = 0;
  /// The thread's number in its block, and its subgroup and place there.
  int32_t number = 0, subgroup = 0, lane = 0;
};

struct Block {
  Kernel kernel;
  void *const *arguments;
  int64_t batch, index;
  const Launch &launch;
  std::vector<Thread> threads;
  std::vector<char> shared;
  /// By thread; empty until one copies.
  std::vector<Copies> copies;
  /// What the lanes of each subgroup have gathered.
  std::vector<std::vector<uint64_t>> gathered;
  /// Barriers that have been passed by all, and by each subgroup alone.
  int32_t epoch = 0;
  std::vector<int32_t> warpEpochs;
  /// Why nothing goes on, if it is not that some never come.
  std::string error;

  std::string run();
  bool releaseSubgroup(size_t first, size_t count);
  bool releaseAll();
  bool isTogether(size_t first);
  size_t countThreads() const {
    auto [x, y, z] = launch.blockSize;
    return static_cast<size_t>(x) * y * z;
  }
};

/// Shuffles, or leaves everything as it is.
class Order {
public:
  /// Begins a launch.
  void start() {
    const char *given = std::getenv("POPLAR_EMULATED_ORDER");
    state = given ? static_cast<uint64_t>(std::atoll(given)) : 0;
    shuffles = state != 0;
  }
  /// 0 to `count` - 1.
  const std::vector<uint32_t> &get(std::vector<uint32_t> &numbers,
                                   size_t count) {
    numbers.resize(count);
    std::iota(numbers.begin(), numbers.end(), 0u);
    if (shuffles)
      for (size_t i = count; i > 1; --i)
        std::swap(numbers[i - 1], numbers[below(i)]);
    return numbers;
  }

private:
  /// A number below `limit`. Subgroups are shuffled whenever they wait, so it
  /// takes a multiplication or two (SplitMix64; Steele, Lea and Flood 2014).
  size_t below(size_t limit) {
    uint64_t mixed = state += 0x9E3779B97F4A7C15;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
    return static_cast<size_t>(((mixed ^ mixed >> 31) >> 32) * limit >> 32);
  }

  bool shuffles = false;
  uint64_t state = 0;
};

Block *block;
Thread *current;
Order order;
Place scheduler;
/// Those of the threads of a block, by number; kept from block to block.
std::deque<Fiber> fibers;
/// Those that can go on, of one subgroup, and how many of them have.
std::vector<Thread *> turn;
size_t taken;

/// A function must not jump to itself, nor be inlined into one that does.
[[noreturn, gnu::noinline]] void jump(Place &place) {
  __builtin_longjmp(place, 1);
}

void enter();

/// Goes on with the next of the turn, or after it.
[[noreturn, gnu::noinline]] void goOn() {
  if (taken == turn.size())
    jump(scheduler);
  current = turn[taken++];
  Fiber &fiber = *current->fiber;
  if (std::exchange(fiber.started, true))
    jump(fiber.place);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = stackBytes;
  context.uc_link = nullptr;
  makecontext(&context, enter, 0);
  setcontext(&context);
  std::abort();
}

/// What the thread gets from others. Processors foresee where a function
/// returns to, but not on another stack: nothing should be between this one and
/// the kernel.
[[gnu::noinline]] uint32_t waitAs(Thread::State state) {
  current->state = state;
  if (__builtin_setjmp(current->fiber->place) == 0)
    goOn();
  return current->result;
}

void enter() {
  while (true) {
    block->kernel(block->arguments, block->batch);
    waitAs(Thread::Done);
  }
}

/// Returns when all of the turn wait, or are done.
[[gnu::noinline]] void takeTurn() {
  taken = 0;
  if (__builtin_setjmp(scheduler) == 0)
    goOn();
}

Copies &getCopies() {
  if (block->copies.empty())
    block->copies.resize(block->countThreads());
  return block->copies[static_cast<size_t>(current->number)];
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

/// Lets those of a subgroup go on whose peers have arrived.
bool Block::releaseSubgroup(size_t first, size_t count) {
  bool released = false;
  Thread *lanes = &threads[first];
  size_t subgroup = static_cast<size_t>(lanes->subgroup);
  for (size_t lane = 0; lane < count; ++lane) {
    if (lanes[lane].state != Thread::AtShuffle)
      continue;
    uint64_t members = lanes[lane].members;
    auto isMember = [&](size_t other) { return members >> other & 1; };
    bool all = true, isBarrier = lanes[lane].isBarrier;
    for (size_t other = 0; other < count && all; ++other)
      all = !isMember(other) || (lanes[other].state == Thread::AtShuffle &&
                                 lanes[other].members == members &&
                                 lanes[other].isBarrier == isBarrier);
    if (!all)
      continue;
    released = true;
    if (isBarrier)
      ++warpEpochs[subgroup];
    if (lanes[lane].values) {
      if (!isTogether(first))
        return false;
      std::vector<uint64_t> &values = gathered[subgroup];
      values.clear();
      for (size_t other = 0; other < count; ++other) {
        const Thread &thread = lanes[other];
        // Others that have come to shuffle, or with other values, never met.
        if (!thread.values || thread.count != lanes->count)
          return false;
        values.insert(values.end(), thread.values,
                      thread.values + thread.count);
      }
    }
    for (size_t other = 0; other < count; ++other)
      if (isMember(other)) {
        Thread &thread = lanes[other];
        thread.values = nullptr;
        thread.isBarrier = false;
        size_t source = static_cast<size_t>(thread.source);
        thread.result = lanes[source < count ? source : other].value;
        thread.state = Thread::Ready;
      }
  }
  return released;
}

/// Lets all go on if they have arrived at a barrier.
bool Block::releaseAll() {
  if (!std::all_of(threads.begin(), threads.end(), [](const Thread &t) {
        return t.state == Thread::AtBarrier;
      }))
    return false;
  size_t width = static_cast<size_t>(launch.subgroupSize);
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
  size_t width = static_cast<size_t>(launch.subgroupSize);
  size_t count = countThreads();
  threads.assign(launch.waits ? count : 1, Thread());
  // What a kernel reads before it writes it shows in the results.
  shared.assign(static_cast<size_t>(launch.sharedBytes), '\xff');
  size_t subgroups = (count + width - 1) / width;
  gathered.resize(subgroups);
  warpEpochs.assign(subgroups, 0);
  block = this;
  auto place = [&](Thread &thread, size_t number) {
    thread.number = static_cast<int32_t>(number);
    thread.subgroup = thread.number / launch.subgroupSize;
    thread.lane = thread.number % launch.subgroupSize;
  };
  static std::vector<uint32_t> numbers, lanes;
  if (!launch.waits) {
    current = &threads[0];
    for (size_t i : order.get(numbers, count)) {
      place(*current, i);
      kernel(arguments, batch);
    }
    return "";
  }
  for (size_t i = 0; i < count; ++i) {
    if (i == fibers.size())
      fibers.emplace_back();
    threads[i].fiber = &fibers[i];
    place(threads[i], i);
  }
  // Subgroups wait for each other at barriers of the block alone.
  do {
    for (size_t subgroup : order.get(numbers, subgroups)) {
      size_t first = subgroup * width, size = std::min(width, count - first);
      do {
        turn.clear();
        for (size_t lane : order.get(lanes, size))
          if (threads[first + lane].state == Thread::Ready)
            turn.push_back(&threads[first + lane]);
        takeTurn();
      } while (releaseSubgroup(first, size));
    }
  } while (releaseAll());
  auto end = [&](std::string why) {
    // Stacks are in the middle of something.
    fibers.clear();
    return why;
  };
  if (!error.empty())
    return end(error);
  for (const Thread &thread : threads)
    if (thread.state != Thread::Done)
      return end("thread " + std::to_string(thread.number) + " of block " +
                 std::to_string(index) + " waits at a " +
                 (thread.state == Thread::AtBarrier ? "barrier" : "shuffle") +
                 " that others never reach");
  return "";
}

std::string poplar::gputest::run(Kernel kernel, void *const *arguments,
                                 int64_t batch, const Launch &launch) {
  order.start();
  std::vector<uint32_t> numbers;
  for (size_t index : order.get(numbers, static_cast<size_t>(launch.blocks))) {
    Block work = {kernel, arguments, batch, static_cast<int64_t>(index),
                  launch, {},        {},    {},
                  {},     0,         {},    {}};
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
  auto [x, y, z] = block->launch.blockSize;
  int32_t number = current->number;
  return dimension == 0   ? number % x
         : dimension == 1 ? number / x % y
                          : number / x / y;
}
int64_t poplar_test_block_id(int32_t dimension) {
  return dimension == 0 ? block->index : 0;
}
void poplar_test_come_to(int32_t line) { current->line = line; }
void poplar_test_barrier() { poplar_test_barrier_or(false); }
bool poplar_test_barrier_or(bool value) {
  current->value = value;
  return waitAs(Thread::AtBarrier) != 0;
}
uint32_t poplar_test_shuffle(uint32_t value, int32_t source, uint64_t members) {
  current->value = value;
  current->source = source;
  current->members = members;
  return waitAs(Thread::AtShuffle);
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
  getCopies().group.push_back({to, from, bytes, site});
}
void poplar_test_end_copies() {
  Copies &own = getCopies();
  own.groups.push_back(std::exchange(own.group, {}));
}
void poplar_test_wait_for_copies(int32_t groups) {
  Copies &own = getCopies();
  while (static_cast<int32_t>(own.groups.size()) > groups) {
    for (const Copy &copy : own.groups.front()) {
      if (copy.from)
        std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
      else
        std::memset(copy.to, 0, static_cast<size_t>(copy.bytes));
      if (poplar_test_copied)
        poplar_test_copied(copy.to, copy.from, copy.bytes, copy.site);
    }
    own.groups.erase(own.groups.begin());
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
