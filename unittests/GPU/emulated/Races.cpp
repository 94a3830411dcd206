//===- Races.cpp - Accesses of threads that nothing orders ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Races.h"
#include "../BlockEmulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

using namespace poplar::emulated;
using poplar::gputest::getPosition;
using poplar::gputest::Position;

bool poplar_emulated_watches = false;

namespace {

/// An access that a granule remembers.
struct Access {
  uint64_t thread : 10, blockEpoch : 22, warpEpoch : 16, site : 16;
  uint32_t block;
  bool valid : 1, isAtomic : 1, isPending : 1;
};

/// The accesses of a launch (of a block, for what the block shares), in a line
/// of a cache.
struct alignas(64) Granule {
  uint64_t owner = 0;
  Access write = {}, reads[2] = {};
};

constexpr uint64_t kPageBytes = 4096;
/// Granules have up to 16 bytes.
constexpr int kMostBits = 4;

/// The granules of an address space, by page. Kernels go through several
/// buffers at a time, so that the last pages found are kept at hand.
class Shadow {
public:
  /// A granule has 2^`bits` bytes.
  Granule &at(uint64_t address, int bits) {
    uint64_t number = address / kPageBytes;
    Recent &recent = recents[number % kRecents];
    if (!recent.page || recent.number != number) {
      std::unique_ptr<Granule[]> &found = pages[number];
      if (!found)
        found = std::make_unique<Granule[]>(kPageBytes >> bits);
      recent = {number, found.get()};
    }
    return recent.page[address % kPageBytes >> bits];
  }

private:
  static constexpr uint64_t kRecents = 256;
  struct Recent {
    uint64_t number = 0;
    Granule *page = nullptr;
  };
  std::unordered_map<uint64_t, std::unique_ptr<Granule[]>> pages;
  Recent recents[kRecents];
};

struct Watch {
  const PTXKernel *kernel = nullptr;
  /// A granule has 2^`bits` bytes.
  int bits = 0;
  /// Numbers of launches and of blocks, all unlike.
  uint64_t launch = 0, block = 0;
  int64_t lastBlock = -1;
  /// By the size of granules.
  Shadow global[kMostBits + 1], shared[kMostBits + 1];
} watch;

const char *nameOf(AccessKind kind) {
  switch (kind) {
  case AccessKind::Read:
    return "reads";
  case AccessKind::Atomic:
    return "changes atomically";
  case AccessKind::StartCopy:
  case AccessKind::EndCopy:
    return "copies to (cp.async)";
  default:
    return "writes";
  }
}

std::string describe(uint32_t block, uint32_t thread, const char *verb,
                     uint32_t site) {
  const PTXSite &place = watch.kernel->sites.at(site);
  return "thread " + std::to_string(thread) + " of block " +
         std::to_string(block) + " " + verb + " it at line " +
         std::to_string(place.line) + ", `" + place.text + "`";
}

[[noreturn]] void report(const char *at, bool shared, const Access &other,
                         const char *verb, const Position &now, AccessKind kind,
                         int32_t site) {
  // Shared memory is named by the place in the block's, global memory by the
  // address.
  uint64_t place = reinterpret_cast<uint64_t>(at);
  if (shared)
    place -= reinterpret_cast<uint64_t>(poplar_test_shared());
  std::fprintf(stderr,
               "emulated GPU: race in %s on %s memory at 0x%llx: %s; %s; %s\n",
               watch.kernel->name.c_str(), shared ? "shared" : "global",
               static_cast<unsigned long long>(place),
               describe(other.block, other.thread, verb, other.site).c_str(),
               describe(uint32_t(now.block), uint32_t(now.thread), nameOf(kind),
                        uint32_t(site))
                   .c_str(),
               other.isPending ? "the copy has not been waited for"
                               : "nothing orders the two");
  std::abort();
}

/// Whether `past` is over, for the thread at `now`.
bool isBefore(const Access &past, const Position &now) {
  if (past.isPending || past.block != uint32_t(now.block))
    return false;
  if (past.thread == uint32_t(now.thread) ||
      past.blockEpoch < uint32_t(now.blockEpoch))
    return true;
  return past.thread / 32 == uint32_t(now.thread) / 32 &&
         past.warpEpoch < uint32_t(now.warpEpoch);
}

/// Keeps two readers, of unlike warps or blocks if there are such: whoever
/// writes without a barrier is unlike one of them.
void remember(Granule &granule, const Access &access, const Position &now) {
  auto &reads = granule.reads;
  for (Access &read : reads)
    if (!read.valid || (isBefore(read, now) && read.block == access.block)) {
      read = access;
      return;
    }
  auto isAlike = [](const Access &a, const Access &b) {
    return a.block == b.block && a.thread / 32 == b.thread / 32;
  };
  if (isAlike(reads[0], reads[1]) && !isAlike(reads[0], access))
    reads[1] = access;
  // Another block is worth more than another warp.
  else if (reads[0].block == reads[1].block && reads[0].block != access.block)
    reads[1] = access;
}

void check(Granule &granule, const char *at, bool shared, const Access &access,
           const Position &now, AccessKind kind, int32_t site) {
  if (kind == AccessKind::EndCopy) {
    granule.write = access;
    return;
  }
  bool writes = kind != AccessKind::Read;
  const Access &write = granule.write;
  if (write.valid && !isBefore(write, now) &&
      !(write.isAtomic && access.isAtomic))
    report(at, shared, write,
           nameOf(write.isPending  ? AccessKind::StartCopy
                  : write.isAtomic ? AccessKind::Atomic
                                   : AccessKind::Write),
           now, kind, site);
  for (const Access &read : granule.reads)
    if (read.valid && !isBefore(read, now) && (writes || read.isAtomic) &&
        !(read.isAtomic && access.isAtomic))
      report(at, shared, read,
             nameOf(read.isAtomic ? AccessKind::Atomic : AccessKind::Read), now,
             kind, site);
  if (!writes)
    return remember(granule, access, now);
  granule.write = access;
  if (access.isAtomic)
    remember(granule, access, now);
  else
    granule.reads[0].valid = granule.reads[1].valid = false;
}

void endCopy(char *to, const char *, int64_t bytes, int32_t site) {
  poplar_emulated_access(to, bytes, AccessKind::EndCopy, true, site);
}

} // namespace

void poplar::emulated::watchLaunch(const PTXKernel *kernel) {
  watch.kernel = kernel;
  poplar_emulated_watches =
      kernel && std::getenv("POPLAR_EMULATED_RACES") != nullptr;
  poplar_test_copied = poplar_emulated_watches ? endCopy : nullptr;
  if (!poplar_emulated_watches)
    return;
  watch.bits = __builtin_ctzll(kernel->granuleBytes);
  ++watch.launch;
  watch.lastBlock = -1;
}

const PTXKernel *poplar::emulated::getRunningKernel() { return watch.kernel; }

void poplar_emulated_access(const char *at, int64_t bytes, AccessKind kind,
                            bool shared, int32_t site) {
  Position now = getPosition();
  if (now.block != watch.lastBlock) {
    watch.lastBlock = now.block;
    ++watch.block;
  }
  Access access = {};
  access.thread = uint32_t(now.thread) & 1023;
  access.blockEpoch = uint32_t(now.blockEpoch) & ((1u << 22) - 1);
  access.warpEpoch = uint32_t(now.warpEpoch) & 0xFFFF;
  access.site = uint32_t(site) & 0xFFFF;
  access.block = uint32_t(now.block);
  access.valid = true;
  access.isAtomic = kind == AccessKind::Atomic;
  access.isPending = kind == AccessKind::StartCopy;
  uint64_t address = reinterpret_cast<uint64_t>(at);
  uint64_t step = uint64_t(1) << watch.bits,
           owner = shared ? watch.block : watch.launch;
  Shadow &shadow = (shared ? watch.shared : watch.global)[watch.bits];
  // A block's memory starts anywhere; its shadow does not.
  if (shared)
    address -= reinterpret_cast<uint64_t>(poplar_test_shared());
  for (uint64_t done = 0; done < uint64_t(bytes); done += step) {
    Granule &granule = shadow.at(address + done, watch.bits);
    if (granule.owner != owner) {
      granule = {};
      granule.owner = owner;
    }
    check(granule, at + done, shared, access, now, kind, site);
  }
}
