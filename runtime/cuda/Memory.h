//===- Memory.h - Memory of a GPU, and the way to it ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_MEMORY_H
#define POPLAR_RUNTIME_CUDA_MEMORY_H

#include "Poplar/Runtime/ABI.h"
#include "cuda/Driver.h"

#include <cstdint>

namespace poplar::runtime::cuda {

inline Address addressOf(const void *Memory) {
  return reinterpret_cast<Address>(Memory);
}

/// Memory of the current context's GPU, not initialised. Throws an Error where
/// there is not enough.
class Allocation {
public:
  explicit Allocation(int64_t Bytes);
  /// Memory allocated by NCCL. Once it is registered, NCCL need not copy the
  /// data of collectives in it, and NVLink SHARP accesses no other memory. If
  /// NCCL does not allocate it, it is ordinary memory, and the log says why.
  struct ForCollectives {};
  Allocation(int64_t Bytes, ForCollectives);
  ~Allocation();
  Allocation(const Allocation &) = delete;
  Allocation &operator=(const Allocation &) = delete;

  char *data() const { return reinterpret_cast<char *>(Place); }
  int64_t size() const { return Bytes; }

private:
  Address Place = 0;
  int64_t Bytes;
  bool ByNccl = false;
};

/// Memory of the host that the GPU reads and writes itself, through which
/// copies go. On the way in, one half is filled while the other is read.
class PinnedBuffer {
public:
  PinnedBuffer();
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer &) = delete;
  PinnedBuffer &operator=(const PinnedBuffer &) = delete;

  /// `From` is free again on return; the copy may still be under way.
  void copyIn(char *To, const char *From, size_t Bytes, Stream Queue);
  /// Waits for it.
  void copyOut(char *To, const char *From, size_t Bytes, Stream Queue);

private:
  static constexpr size_t HalfBytes = 4 << 20;

  char *Data = nullptr;
  Event Events[2] = {};
  int Half = 0;
  size_t Used = 0;
};

/// Fills memory with numbers of one magnitude, of random signs and fractions: a
/// GPU multiplies zeros with less power, and so at a higher clock.
void fillRandomly(char *To, int64_t Bytes, PoplarType Type, Stream Queue);

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_MEMORY_H
