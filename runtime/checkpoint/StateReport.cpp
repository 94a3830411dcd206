//===- StateReport.cpp - What ranks hold, and whether it agrees -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/StateReport.h"
#include "Poplar/Runtime/Alignment.h"
#include "program/Collectives.h"
#include "program/Pipeline.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Random.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace poplar::runtime;

namespace {
/// An array of state: `Bytes` of it, of which `Used` are parameters'.
struct Array {
  int64_t MemoryUse::*Kind;
  const char *Address;
  int64_t Bytes, Used;

  const char *end() const { return Address + poplar_align(Bytes); }
};
} // namespace

/// The arrays of a bucket that the rank holds.
static void addArrays(const Executor &Exec, int64_t Index,
                      std::vector<Array> &Out) {
  const PoplarProgram &Program = Exec.program();
  const PoplarBucket &Bucket = Program.buckets[Index];
  const Shard &Own = Exec.state().shard(Index);
  int64_t WholeUsed = 0, ShardUsed = 0;
  for (int64_t I = 0; I < Program.num_parameters; ++I)
    if (Program.parameters[I].bucket == Index)
      WholeUsed += countStored(Program.parameters[I]);
  int64_t CodesUsed = 0, ScalesUsed = 0;
  for (const Piece &Part : Exec.state().pieces(Index)) {
    int64_t Count = Part.End - Part.Begin;
    ShardUsed += Count;
    if (Part.Offset >= Own.BlockStates)
      continue;
    CodesUsed += Count;
    ScalesUsed += (Count + POPLAR_STATE_BLOCK - 1) / POPLAR_STATE_BLOCK;
  }

  auto Add = [&](int64_t MemoryUse::*Kind, int64_t Whole, const void *Part,
                 int64_t Width) {
    if (Whole >= 0)
      Out.push_back({Kind, Exec.fixed<char>(Whole), Bucket.elements * Width,
                     WholeUsed * Width});
    else if (Own.size())
      Out.push_back({Kind, static_cast<const char *>(Part), Own.size() * Width,
                     ShardUsed * Width});
  };
  Add(&MemoryUse::Parameters, Bucket.working, Own.Working,
      getTypeBytes(getWorkingType(Program, Index)));
  if (Bucket.frozen)
    return;
  Add(&MemoryUse::Gradients, Bucket.gradient, Own.Gradient, 4);
  if (hasOwnMaster(Program, Bucket))
    Add(&MemoryUse::Optimizer, -1, Own.Master, 4);
  auto AddMoment = [&](const MomentBlocks &Blocks, const float *Moment) {
    if (Own.BlockStates)
      Out.push_back({&MemoryUse::Optimizer,
                     reinterpret_cast<const char *>(Blocks.Codes),
                     poplar_state_bytes(Blocks.Bits, Own.BlockStates),
                     CodesUsed * Blocks.Bits / 8 + 4 * ScalesUsed});
    if (int64_t Wide = Own.size() - Own.BlockStates)
      Out.push_back({&MemoryUse::Optimizer,
                     reinterpret_cast<const char *>(Moment), 4 * Wide,
                     4 * (ShardUsed - CodesUsed)});
  };
  AddMoment(Own.Blocks1, Own.Moment1);
  AddMoment(Own.Blocks2, Own.Moment2);
  // That of a GPU's rank takes nothing of the GPU's memory.
  bool IsHere = Bucket.residuals && !Program.gpu;
  if (int64_t Kept = IsHere ? Bucket.residuals[Exec.state().rank()] : 0)
    Out.push_back({&MemoryUse::Gradients,
                   reinterpret_cast<const char *>(Own.Residual), Kept * 4,
                   Kept * 4});
}

MemoryUse poplar::runtime::measureMemory(const Executor &Exec) {
  const PoplarProgram &Program = Exec.program();
  std::vector<Array> Arrays;
  for (int64_t B = 0; B < Program.num_buckets; ++B)
    addArrays(Exec, B, Arrays);
  std::sort(Arrays.begin(), Arrays.end(), [](const Array &A, const Array &B) {
    return A.Address < B.Address;
  });
  MemoryUse Use;
  const char *Free = Exec.fixed<char>(0);
  int64_t Fixed = Program.fixed_bytes;
  for (const Array &A : Arrays) {
    if (A.Address < Free || A.end() > Exec.fixed<char>(Exec.arenaBytes()))
      fail("arrays of the training state overlap");
    Free = A.end();
    Use.*A.Kind += A.Used;
    Use.Padding += A.end() - A.Address - A.Used;
    if (A.Address < Exec.fixed<char>(Program.fixed_bytes))
      Fixed -= A.end() - A.Address;
  }
  Use.Batch = Exec.largestBatch() *
              (Program.bytes_per_sample +
               Pipeline::getBytesPerSample(Program, Exec.state().rank()));
  // Scratch that the plan did not foresee lies apart.
  Use.Transient = Fixed - Program.scratch_bytes;
  Use.Scratch = Program.scratch_bytes + Exec.peakBytes() - Exec.arenaBytes();
  Use.Peak = Exec.peakBytes();
  return Use;
}

void poplar::runtime::writeMemoryReport(const Executor &Exec,
                                        const std::string &Path) {
  MemoryUse Use = measureMemory(Exec);
  const int64_t Own[] = {Exec.largestBatch(), Use.Parameters, Use.Gradients,
                         Use.Optimizer,       Use.Padding,    Use.Scratch,
                         Use.Transient,       Use.Batch,      Use.Peak,
                         Exec.arenaBytes()};
  constexpr size_t Columns = std::size(Own);
  const PoplarProgram &Program = Exec.program();
  size_t Ranks = static_cast<size_t>(Program.world_size);
  size_t Rank = static_cast<size_t>(Exec.state().rank());
  std::vector<int64_t> All(Ranks * Columns);
  std::copy_n(Own, Columns, All.begin() + Rank * Columns);
  if (Exec.collectives)
    Exec.collectives->sum(All.data(), static_cast<int64_t>(All.size()));
  if (Rank != 0)
    return;
  std::string Text = "rank,stage,largest_batch,parameters,gradients,optimizer,"
                     "padding,scratch,transient,batch,peak,arena\n";
  for (size_t R = 0; R < Ranks; ++R) {
    Text += std::to_string(R) + "," + std::to_string(Program.stage);
    for (size_t C = 0; C < Columns; ++C)
      Text += "," + std::to_string(All[R * Columns + C]);
    Text += "\n";
  }
  writeFileAtomically(Path, Text);
}

static uint64_t hashBytes(uint64_t Hash, const char *Data, int64_t Bytes) {
  for (int64_t I = 0; I < Bytes; I += 8) {
    uint64_t Word = 0;
    std::memcpy(&Word, Data + I,
                static_cast<size_t>(std::min<int64_t>(8, Bytes - I)));
    Hash = hashCounters(Hash, Word);
  }
  return Hash;
}

/// Hashes bytes in the device's memory.
static uint64_t hashMemory(const Executor &Exec, uint64_t Hash,
                           const void *Data, int64_t Bytes) {
  if (Exec.device().sharesMemory())
    return hashBytes(Hash, static_cast<const char *>(Data), Bytes);
  std::vector<char> Copy(static_cast<size_t>(Bytes));
  Exec.device().copyOut(Copy.data(), Data, Bytes);
  return hashBytes(Hash, Copy.data(), Bytes);
}

/// Hashes what other ranks hold of a bucket, too.
static uint64_t hashReplica(const Executor &Exec, int64_t Bucket) {
  const PoplarProgram &Program = Exec.program();
  const PoplarBucket &B = Program.buckets[Bucket];
  const Shard &S = Exec.state().shard(Bucket);
  if (B.stage == 3 && B.frozen)
    return hashMemory(Exec, 0, S.Working,
                      S.size() * getTypeBytes(getWorkingType(Program, Bucket)));
  if (B.frozen || B.stage == 1 || B.stage == 2) {
    return hashMemory(Exec, 0, Exec.fixed<char>(B.working),
                      B.elements *
                          getTypeBytes(getWorkingType(Program, Bucket)));
  }
  uint64_t Hash = 0;
  Hash = hashMemory(Exec, Hash, S.Master, S.size() * 4);
  for (const float *Moment : {S.Moment1, S.Moment2})
    Hash = hashMemory(Exec, Hash, Moment, (S.size() - S.BlockStates) * 4);
  for (const MomentBlocks &Blocks : {S.Blocks1, S.Blocks2})
    Hash = hashMemory(Exec, Hash, Blocks.Codes,
                      poplar_state_bytes(Blocks.Bits, S.BlockStates));
  return Hash;
}

/// Whether other ranks, too, hold all that hashReplica looks at, if they hold
/// the bucket.
static bool isReplicated(const PoplarProgram &Program, int64_t Bucket) {
  return Program.buckets[Bucket].stage < 3 || Program.replicas > 1;
}

void poplar::runtime::requireReplicas(const PoplarProgram &Program) {
  bool IsSharded = true;
  for (int64_t B = 0; B < Program.num_buckets; ++B)
    IsSharded &= !isReplicated(Program, B);
  if (Program.world_size == 1 || IsSharded)
    fail("--check-replicas: nothing is replicated ",
         IsSharded ? "in stage 3" : "on one rank");
}

void poplar::runtime::checkReplicas(const Executor &Exec,
                                    const std::string &When) {
  const PoplarProgram &Program = Exec.program();
  size_t Buckets = static_cast<size_t>(Program.num_buckets);
  size_t Ranks = static_cast<size_t>(Program.world_size);
  size_t Rank = static_cast<size_t>(Exec.state().rank()), Width = Buckets + 1;
  std::vector<int64_t> All(Ranks * Width);
  All[Rank * Width] = Program.working_type;
  for (size_t B = 0; B < Buckets; ++B)
    if (auto Index = static_cast<int64_t>(B);
        Exec.state().holds(Index) && isReplicated(Program, Index))
      All[Rank * Width + 1 + B] =
          static_cast<int64_t>(hashReplica(Exec, Index));
  Exec.collectives->sum(All.data(), static_cast<int64_t>(All.size()));
  for (size_t B = 0; B < Buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    if (!isReplicated(Program, static_cast<int64_t>(B)))
      continue;
    // Ranks by format, and by place in their shard group if they hold shards.
    std::map<std::pair<int64_t, int64_t>, size_t> First;
    for (size_t I = 0; I < (Bucket.ranks ? Bucket.num_ranks : Ranks); ++I) {
      size_t R = Bucket.ranks ? static_cast<size_t>(Bucket.ranks[I]) : I;
      // Masters and moments are f32 everywhere, and bytes are bytes.
      bool IsF32 = Bucket.stage % 3 == 0 && !Bucket.frozen;
      int64_t Format = IsF32              ? int64_t(POPLAR_F32)
                       : Bucket.quantized ? int64_t(POPLAR_BYTES)
                                          : All[R * Width];
      int64_t Place = Bucket.stage < 3 ? 0
                                       : static_cast<int64_t>(R) %
                                             getShardGroupSize(Program);
      size_t Other = First.insert({{Format, Place}, R}).first->second;
      if (All[R * Width + 1 + B] != All[Other * Width + 1 + B])
        fail(When, " rank ", R, " (", Program.ranks[R].device_type,
             ") holds other weights than rank ", Other, " (",
             Program.ranks[Other].device_type, "), first in bucket '",
             Bucket.name, "'");
    }
  }
}
