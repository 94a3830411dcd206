//===- Memory.cpp - The memory of an emulated GPU -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory.h"
#include "Prelude.h"
#include "Races.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <thread>

using namespace poplar::emulated;
using Guard = std::lock_guard<std::recursive_mutex>;

std::recursive_mutex &poplar::emulated::getLock() {
  static std::recursive_mutex lock;
  return lock;
}

void Queue::add(Work work) {
  if (captures)
    return captured.push_back(std::move(work));
  addAttempt([work = std::move(work)] {
    work();
    return true;
  });
}

void Queue::addAttempt(Attempt attempt) {
  Guard guard(getLock());
  waiting.push_back(std::move(attempt));
}

int64_t Queue::getLast() const {
  Guard guard(getLock());
  return done + int64_t(waiting.size());
}

bool Queue::isDone(int64_t number) const {
  Guard guard(getLock());
  return done >= number;
}

bool Queue::tryTo(int64_t number) {
  Guard guard(getLock());
  while (done < number && !waiting.empty()) {
    if (busy)
      return false;
    busy = true;
    bool succeeds = waiting.front()();
    busy = false;
    if (!succeeds)
      return false;
    waiting.pop_front();
    ++done;
  }
  return true;
}

void Queue::runTo(int64_t number) {
  // Others do their part meanwhile.
  while (!tryTo(number))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Memory &Memory::get() {
  static Memory memory;
  return memory;
}

/// POPLAR_EMULATED_MEMORY says how many bytes it has, by default 4 GiB.
Memory::Memory() {
  const char *given = std::getenv("POPLAR_EMULATED_MEMORY");
  total = given ? std::atoll(given) : int64_t(4) << 30;
}

uint64_t Memory::allocate(int64_t bytes) {
  Guard guard(getLock());
  if (bytes > getFree())
    return 0;
  void *data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return 0;
  // Fresh memory of a GPU is not zero: what reads it unwritten gets NaN.
  std::memset(data, 0xFF, static_cast<size_t>(bytes));
  used += bytes;
  uint64_t address = add(data, bytes);
  ranges[address].owned = true;
  return address;
}

uint64_t Memory::add(void *data, int64_t bytes) {
  Guard guard(getLock());
  uint64_t address = reinterpret_cast<uint64_t>(data) + kDeviceBit;
  ranges[address] = {bytes, false};
  return address;
}

void Memory::free(uint64_t address) {
  Guard guard(getLock());
  auto range = ranges.find(address);
  if (range == ranges.end() || !range->second.owned)
    poplar_emulated_fault(address, 0, "freed");
  munmap(reinterpret_cast<void *>(address - kDeviceBit),
         static_cast<size_t>(range->second.bytes));
  used -= range->second.bytes;
  ranges.erase(range);
}

bool Memory::find(uint64_t address, uint64_t &begin, uint64_t &end) const {
  Guard guard(getLock());
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin())
    return false;
  auto range = std::prev(next);
  begin = range->first;
  end = begin + static_cast<uint64_t>(range->second.bytes);
  return address < end;
}

char *Memory::at(uint64_t address, int64_t bytes) const {
  uint64_t begin, end;
  if (!find(address, begin, end) ||
      address + static_cast<uint64_t>(bytes) > end)
    poplar_emulated_fault(address, bytes, "global");
  return reinterpret_cast<char *>(address - kDeviceBit);
}

char *poplar_emulated_global(uint64_t address, int64_t bytes, uint64_t *begin,
                             uint64_t *end) {
  char *place = Memory::get().at(address, bytes);
  Memory::get().find(address, *begin, *end);
  return place;
}

void poplar_emulated_fault(uint64_t address, int64_t bytes, const char *space) {
  const PTXKernel *kernel = getRunningKernel();
  std::fprintf(stderr,
               "emulated GPU: %lld bytes at 0x%llx are not there, or not "
               "aligned, in %s memory%s%s\n",
               static_cast<long long>(bytes),
               static_cast<unsigned long long>(address), space,
               kernel ? ", kernel " : "", kernel ? kernel->name.c_str() : "");
  std::abort();
}
