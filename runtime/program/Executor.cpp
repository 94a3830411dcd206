//===- Executor.cpp - A program with its memory and threads ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Executor.h"
#include "comm/Wire.h"
#include "support/Error.h"
#include "support/ParallelRanges.h"

#include <algorithm>
#include <cstdio>
#include <omp.h>

using namespace poplar::runtime;

std::string poplar::runtime::formatBytes(int64_t Bytes) {
  static const char *const Units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double Value = static_cast<double>(Bytes);
  unsigned Unit = 0;
  for (; Value >= 1024 && Unit < 4; ++Unit)
    Value /= 1024;
  char Buffer[32];
  std::snprintf(Buffer, sizeof(Buffer), Unit ? "%.2f %s" : "%.0f %s", Value,
                Units[Unit]);
  return Buffer;
}

static int chooseThreads(int Requested) {
  int Count = Requested > 0 ? Requested : omp_get_num_procs();
  // oneDNN and poplar_rt_dispatch then share one team; a team whose size
  // varied would be torn down and started again between kernels.
  omp_set_dynamic(0);
  omp_set_num_threads(Count);
  return Count;
}

Executor::Executor(const PoplarProgram &Program,
                   const std::vector<int64_t> &Batches, int RequestedThreads,
                   int Rank, bool Samples)
    : Program(Program), Model(Program),
      Threads(chooseThreads(RequestedThreads)), Dev(Program, Rank, Threads),
      TheState(Program, Rank) {
  for (int64_t Batch : Batches) {
    for (int64_t I = 0; Batch && I < Program.num_gemms; ++I)
      Dev.prepareGemm(*Program.gemms[I], Batch);
    for (int64_t I = 0; Batch && Samples && I < Program.num_decoding_gemms; ++I)
      Dev.prepareGemm(*Program.decoding_gemms[I], Batch);
  }
  LargestBatch = *std::max_element(Batches.begin(), Batches.end());
  for (StartedExchange &S : Exchanges)
    S.Transfers.reserve(POPLAR_MAX_SHARERS);
  int64_t PerSample =
      Samples ? Program.sampling_bytes_per_sample : Program.bytes_per_sample;
  PeakBytes = ArenaBytes =
      getPeakBytes(Program, LargestBatch, Rank) +
      LargestBatch * (PerSample - Program.bytes_per_sample);
  Memory = Dev.allocate(ArenaBytes);
  char *Shards = Memory + Program.fixed_bytes + LargestBatch * PerSample;
  TheState.bind(Memory, Shards);
  if (Program.pipeline)
    Turns = std::make_unique<Pipeline>(*this, Shards + TheState.shardBytes());
  // The plan's bound was made on the machine that compiled; another one, or
  // other threads, may need more.
  int64_t Needed = Dev.getScratchBytes();
  if (Needed > Program.scratch_bytes) {
    Dev.setScratch(Dev.allocate(Needed), Needed);
    PeakBytes += Needed;
  } else {
    Dev.setScratch(fixed<char>(Program.scratch_offset), Program.scratch_bytes);
  }
  PeakBytes += Dev.getOwnBytes();
}

void Executor::readLogits(int64_t Offset, int64_t B, int64_t First,
                          int64_t Count, float *Out) const {
  First *= Model.logits_columns;
  Count *= Model.logits_columns;
  auto Type = static_cast<comm::Type>(Program.logits_type);
  const char *From = sized<char>(Offset, B) + First * comm::getBytes(Type);
  std::vector<char> Copy;
  if (!Dev.sharesMemory()) {
    Copy.resize(static_cast<size_t>(Count * comm::getBytes(Type)));
    Dev.copyOut(Copy.data(), From, static_cast<int64_t>(Copy.size()));
    From = Copy.data();
  }
  comm::convert(From, Type, Out, comm::Type::F32, Count);
}

int64_t poplar::runtime::getPeakBytes(const PoplarProgram &Program,
                                      int64_t Batch, int Rank) {
  int64_t Bytes = Program.fixed_bytes + State(Program, Rank).shardBytes();
  int64_t BatchBytes, PerSample = Program.bytes_per_sample +
                                  Pipeline::getBytesPerSample(Program, Rank);
  if (__builtin_mul_overflow(Batch, PerSample, &BatchBytes) ||
      __builtin_add_overflow(Bytes, BatchBytes, &Bytes))
    fail("a micro-batch of ", Batch,
         " does not fit 2^63 bytes of memory; use "
         "a smaller --batch");
  return Bytes;
}

void Executor::dispatch(PoplarKernel Kernel, void *const *Args, int64_t Batch,
                        int64_t Extent, int64_t Grain) {
  dispatchRanges(Threads, Kernel, Args, Batch, Extent, Grain);
}
