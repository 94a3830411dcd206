//===- AllocationCounter.cpp - Counts what the process allocates ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces glibc's malloc family and mmap in the whole process, oneDNN
// included, by wrappers that count.
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"

#include <atomic>
#include <cerrno>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
void *__libc_malloc(size_t Bytes);
void *__libc_calloc(size_t Count, size_t Bytes);
void *__libc_realloc(void *Memory, size_t Bytes);
void *__libc_memalign(size_t Alignment, size_t Bytes);
}

static std::atomic<size_t> LargeAllocations{0};

static void count(size_t Bytes) {
  if (Bytes >= LargeAllocation)
    LargeAllocations.fetch_add(1, std::memory_order_relaxed);
}

void resetLargeAllocations() { LargeAllocations = 0; }
size_t countLargeAllocations() { return LargeAllocations; }

extern "C" {

void *malloc(size_t Bytes) {
  count(Bytes);
  return __libc_malloc(Bytes);
}

void *calloc(size_t Count, size_t Bytes) {
  count(Count * Bytes);
  return __libc_calloc(Count, Bytes);
}

void *realloc(void *Memory, size_t Bytes) {
  count(Bytes);
  return __libc_realloc(Memory, Bytes);
}

void *memalign(size_t Alignment, size_t Bytes) {
  count(Bytes);
  return __libc_memalign(Alignment, Bytes);
}

void *aligned_alloc(size_t Alignment, size_t Bytes) {
  return memalign(Alignment, Bytes);
}

int posix_memalign(void **Result, size_t Alignment, size_t Bytes) {
  *Result = memalign(Alignment, Bytes);
  return *Result ? 0 : ENOMEM;
}

void *mmap(void *Address, size_t Bytes, int Protection, int Flags, int FD,
           off_t Offset) {
  count(Bytes);
  return reinterpret_cast<void *>(
      syscall(SYS_mmap, Address, Bytes, Protection, Flags, FD, Offset));
}

} // extern "C"
