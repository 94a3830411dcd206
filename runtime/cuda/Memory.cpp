//===- Memory.cpp - Memory of a GPU, and the way to it --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Memory.h"
#include "cuda/Nccl.h"
#include "program/Executor.h"
#include "support/Error.h"
#include "support/Log.h"
#include "support/Random.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

static Address allocateByDriver(int64_t Bytes) {
  const Driver &D = Driver::get();
  Address Place = 0;
  Result R = D.cuMemAlloc_v2(&Place, static_cast<size_t>(Bytes));
  if (R == OutOfMemory) {
    size_t Free = 0, Total = 0;
    D.cuMemGetInfo_v2(&Free, &Total);
    fail("cannot allocate ", formatBytes(Bytes),
         " of the GPU's memory: ", formatBytes(static_cast<int64_t>(Free)),
         " of ", formatBytes(static_cast<int64_t>(Total)),
         " are free; end what else uses the GPU, or plan with less `memory` "
         "for this device type");
  }
  check(R, "allocate memory");
  return Place;
}

/// 0 where NCCL cannot, with the reason.
static Address allocateByNccl(int64_t Bytes, std::string &Reason) {
  try {
    const nccl::Nccl &N = nccl::Nccl::get();
    void *Memory = nullptr;
    if (nccl::Status S = N.ncclMemAlloc(&Memory, static_cast<size_t>(Bytes)))
      Reason = N.Name + " does not allocate it: " + N.ncclGetErrorString(S);
    return addressOf(Memory);
  } catch (const Error &E) {
    Reason = E.what();
    return 0;
  }
}

Allocation::Allocation(int64_t Wanted)
    : Place(allocateByDriver(std::max<int64_t>(Wanted, 1))),
      Bytes(std::max<int64_t>(Wanted, 1)) {}

Allocation::Allocation(int64_t Wanted, ForCollectives)
    : Bytes(std::max<int64_t>(Wanted, 1)) {
  std::string Reason;
  Place = allocateByNccl(Bytes, Reason);
  ByNccl = Place != 0;
  if (!ByNccl)
    Place = allocateByDriver(Bytes);
  log(formatBytes(Bytes), " of the GPU's memory are allocated by ",
      ByNccl ? "NCCL" : "the driver, as " + Reason);
}

Allocation::~Allocation() {
  if (ByNccl)
    nccl::Nccl::get().ncclMemFree(data());
  else
    Driver::get().cuMemFree_v2(Place);
}

PinnedBuffer::PinnedBuffer() {
  const Driver &D = Driver::get();
  void *Place = nullptr;
  // The third part is for copies the other way.
  check(D.cuMemHostAlloc(&Place, 3 * HalfBytes, 0),
        "allocate memory of the host");
  Data = static_cast<char *>(Place);
  for (Event &E : Events)
    check(D.cuEventCreate(&E, 0), "create an event");
}

PinnedBuffer::~PinnedBuffer() {
  for (Event E : Events)
    Driver::get().cuEventDestroy_v2(E);
  Driver::get().cuMemFreeHost(Data);
}

void PinnedBuffer::copyIn(char *To, const char *From, size_t Bytes,
                          Stream Queue) {
  const Driver &D = Driver::get();
  while (Bytes) {
    if (Used == HalfBytes) {
      check(D.cuEventRecord(Events[Half], Queue), "record an event");
      Half = 1 - Half;
      Used = 0;
      check(D.cuEventSynchronize(Events[Half]), "wait for a copy");
    }
    size_t Count = std::min(Bytes, HalfBytes - Used);
    char *Place = Data + static_cast<size_t>(Half) * HalfBytes + Used;
    std::memcpy(Place, From, Count);
    check(D.cuMemcpyHtoDAsync_v2(addressOf(To), Place, Count, Queue),
          "copy to the GPU");
    Used += Count;
    To += Count;
    From += Count;
    Bytes -= Count;
  }
}

void PinnedBuffer::copyOut(char *To, const char *From, size_t Bytes,
                           Stream Queue) {
  const Driver &D = Driver::get();
  char *Place = Data + 2 * HalfBytes;
  while (Bytes) {
    size_t Count = std::min(Bytes, HalfBytes);
    check(D.cuMemcpyDtoHAsync_v2(Place, addressOf(From), Count, Queue),
          "copy from the GPU");
    check(D.cuStreamSynchronize(Queue), "finish its work");
    std::memcpy(To, Place, Count);
    To += Count;
    From += Count;
    Bytes -= Count;
  }
}

void cuda::fillRandomly(char *To, int64_t Bytes, PoplarType Type,
                        Stream Queue) {
  std::vector<uint64_t> Values(static_cast<size_t>(Bytes / 8));
  uint64_t Mask = Type == POPLAR_F32    ? 0x807FFFFF807FFFFFu
                  : Type == POPLAR_BF16 ? 0x807F807F807F807Fu
                                        : 0x83FF83FF83FF83FFu,
           One = Type == POPLAR_F32    ? 0x3F8000003F800000u
                 : Type == POPLAR_BF16 ? 0x3F803F803F803F80u
                                       : 0x3C003C003C003C00u;
  for (size_t I = 0; I < Values.size(); ++I)
    Values[I] = (splitmix64(I) & Mask) | One;
  PinnedBuffer Pinned;
  Pinned.copyIn(To, reinterpret_cast<const char *>(Values.data()),
                static_cast<size_t>(Bytes), Queue);
  check(Driver::get().cuStreamSynchronize(Queue), "copy to the GPU");
}
