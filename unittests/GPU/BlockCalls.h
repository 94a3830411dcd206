//===- BlockCalls.h - What kernels on a CPU call ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a compiled kernel calls of BlockEmulator.h. Every translated kernel
// includes this header, so it includes little itself.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_BLOCKCALLS_H
#define POPLAR_UNITTESTS_GPU_BLOCKCALLS_H

#include <cstdint>

extern "C" {
int64_t poplar_test_thread_id(int32_t dimension);
int64_t poplar_test_block_id(int32_t dimension);
/// The line of what follows, where a subgroup has to be at one instruction.
void poplar_test_come_to(int32_t line);
void poplar_test_barrier();
/// A barrier that tells whether any thread has come with `value`.
bool poplar_test_barrier_or(bool value);
/// The value of lane `source`, once all `members` of the subgroup (a bit each)
/// that are threads of the block have come.
uint32_t poplar_test_shuffle(uint32_t value, int32_t source, uint64_t members);
/// A barrier of the whole subgroup, which orders its memory.
void poplar_test_warp_barrier();
/// The `count` values of each lane of the subgroup, by lane, once all have
/// come; valid until they meet again.
const uint64_t *poplar_test_gather(const uint64_t *values, int32_t count);
/// Bytes that are copied when the thread waits for its group of copies, and not
/// before; `from` is null for zeros.
/// `site` is that of its PTX, for `poplar_test_copied`.
void poplar_test_copy_later(char *to, const char *from, int64_t bytes,
                            int32_t site);
void poplar_test_end_copies();
/// Called when a copy has been made, if set.
extern void (*poplar_test_copied)(char *to, const char *from, int64_t bytes,
                                  int32_t site);
/// Waits for all groups but the last `groups`.
void poplar_test_wait_for_copies(int32_t groups);
/// The thread's place in its subgroup.
int32_t poplar_test_lane();
/// The value of lane XOR `offset`, if that is below `width`, else the own one.
/// Only lanes below `width` take part.
float poplar_test_shuffle_xor(float value, int32_t offset, int32_t width);
/// Whether it was another's.
bool poplar_test_shuffle_valid();
char *poplar_test_shared();
}

#endif // POPLAR_UNITTESTS_GPU_BLOCKCALLS_H
