//===- StateReader.cpp - The ranks' state, put together -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/StateReader.h"
#include "program/Collectives.h"
#include "program/Quantized.h"

#include <algorithm>

using namespace poplar::runtime;

bool poplar::runtime::hasBlockStates(const Executor &Exec, const Tensor &T) {
  return std::all_of(T.Parts.begin(), T.Parts.end(), [&](int64_t I) {
    return Exec.state().hasBlockStates(Exec.program().parameters[I]);
  });
}

StateReader::StateReader(const Executor &Exec) : Exec(Exec) {
  const PoplarProgram &Program = Exec.program();
  for (Tensor &T : listTensors(Program))
    if (!Program.buckets[Program.parameters[T.Parts.front()].bucket].frozen)
      Tensors.push_back(std::move(T));
}

void StateReader::add(float *Shard::*Array, const std::string &Suffix,
                      std::vector<TensorSource> &Out) {
  for (const Tensor &T : Tensors)
    addField(T, {Array}, Suffix, Out);
}

void StateReader::addMoment(float *Shard::*Array, MomentBlocks Shard::*Blocks,
                            const std::string &Suffix,
                            std::vector<TensorSource> &Out) {
  for (const Tensor &T : Tensors) {
    if (!hasBlockStates(Exec, T)) {
      addField(T, {Array, Blocks}, Suffix, Out);
      continue;
    }
    addField(T, {nullptr, Blocks, false}, Suffix, Out);
    addField(T, {nullptr, Blocks, true}, Suffix + ScalesSuffix, Out);
  }
}

void StateReader::addField(const Tensor &T, const Field &What,
                           const std::string &Suffix,
                           std::vector<TensorSource> &Out) {
  const PoplarParameter &P = Exec.program().parameters[T.Parts.front()];
  std::string Name = T.Name + Suffix;
  std::vector<int64_t> Shape(T.Shape, T.Shape + T.Rank);
  if (What.AreScales)
    Shape = {countStateBlocks(T.countElements())};
  bool IsReplicated = Exec.state().isReplicated();
  if (P.slice) {
    Out.push_back({Name, Shape, [this, &T, What](int64_t B, int64_t E) {
                     return assemble(T, What, B, E);
                   }});
  } else if (IsReplicated && Exec.device().sharesMemory() && What.Array) {
    // All ranks decide alike, so that all of them gather or none does: also
    // one whose shard is everything, and one in whose format the masters are
    // whole beside others in which they are not.
    const float *Whole =
        Exec.state().shard(P.bucket).find(What.Array, P.offset);
    Out.push_back({Name, Shape, Whole});
  } else if (IsReplicated) {
    Out.push_back({Name, Shape, [this, &P, What](int64_t B, int64_t E) {
                     const Shard &Own = Exec.state().shard(P.bucket);
                     return read(Own, What, P.offset / What.stride() + B, E - B,
                                 Buffer);
                   }});
  } else {
    Out.push_back({Name, Shape, [this, &P, What](int64_t B, int64_t E) {
                     return gather(P, What, B, E);
                   }});
  }
  if (What.isBytes())
    Out.back().StoredAs = TensorSource::U8;
}

const float *StateReader::assemble(const Tensor &T, const Field &What,
                                   int64_t Begin, int64_t End) {
  bool Leads = Exec.state().rank() == 0;
  if (Leads)
    Assembled.resize(static_cast<size_t>(End - Begin));
  // Parts begin and end with blocks where these are in the file.
  int64_t Stride = What.stride(), Count = T.countElements();
  for (int64_t I : T.Parts) {
    const PoplarParameter &P = Exec.program().parameters[I];
    int64_t First = countElementsBefore(P, Begin * Stride),
            Last = countElementsBefore(P, std::min(End * Stride, Count));
    if (First == Last)
      continue;
    const float *Values =
        What.Array && What.Blocks && Exec.state().hasBlockStates(P)
            ? gatherWidened(P, What.Blocks, First, Last)
            : gather(P, What, First / Stride, (Last + Stride - 1) / Stride);
    if (Leads)
      forEachRun(P, First, Last,
                 [&](int64_t At, int64_t Offset, int64_t Elements) {
                   std::copy_n(Values + Offset / Stride,
                               (Elements + Stride - 1) / Stride,
                               Assembled.data() + (At / Stride - Begin));
                 });
  }
  return Assembled.data();
}

const float *StateReader::gatherWidened(const PoplarParameter &P,
                                        MomentBlocks Shard::*Blocks,
                                        int64_t Begin, int64_t End) {
  const float *Found = gather(P, {nullptr, Blocks, false}, Begin, End);
  bool Leads = Exec.state().rank() == 0;
  if (Leads)
    Widened.assign(Found, Found + (End - Begin));
  int64_t Block = Begin / POPLAR_STATE_BLOCK;
  Found = gather(P, {nullptr, Blocks, true}, Block, countStateBlocks(End));
  if (!Leads)
    return nullptr;
  MomentFormat Format{Exec.state().getStateBits(), Blocks == &Shard::Blocks1};
  for (int64_t E = Begin; E < End; ++E) {
    float &Value = Widened[static_cast<size_t>(E - Begin)];
    auto Code = static_cast<uint8_t>(Value);
    Format.dequantize(&Code, Found[E / POPLAR_STATE_BLOCK - Block], 1, &Value);
  }
  return Widened.data();
}

const float *StateReader::read(const Shard &Own, const Field &What,
                               int64_t First, int64_t Count,
                               std::vector<float> &Copy) {
  Device &Dev = Exec.device();
  if (What.isBytes()) {
    const MomentBlocks &Blocks = Own.*What.Blocks;
    // Two codes may share the first byte.
    int64_t Skipped = First % 2, All = Count + Skipped,
            Bytes = (All * Blocks.Bits + 7) / 8;
    Packed.resize(static_cast<size_t>(Bytes));
    Codes.resize(static_cast<size_t>(All));
    Dev.copyOut(Packed.data(),
                Blocks.Codes + (First - Skipped) * Blocks.Bits / 8, Bytes);
    unpackCodes(Blocks.Bits, Packed.data(), All, Codes.data());
    Copy.assign(Codes.begin() + Skipped, Codes.end());
    return Copy.data();
  }
  const float *From = What.AreScales ? (Own.*What.Blocks).Scales + First
                                     : Own.find(What.Array, First);
  if (Dev.sharesMemory())
    return From;
  Copy.resize(static_cast<size_t>(Count));
  Dev.copyOut(Copy.data(), From, Count * 4);
  return Copy.data();
}

const float *StateReader::gather(const PoplarParameter &P, const Field &What,
                                 int64_t Begin, int64_t End) {
  const PoplarProgram &Program = Exec.program();
  const PoplarBucket &Bucket = Program.buckets[P.bucket];
  // Only the first shard group has parts. If elements are in blocks, shards
  // begin at blocks, so this divides without a remainder up to the end of the
  // parameter.
  std::vector<int64_t> Bounds;
  for (int64_t R = 0; R <= Program.world_size; ++R)
    Bounds.push_back(std::clamp<int64_t>(
        (Bucket.bounds[std::min(R, getShardGroupSize(Program))] - P.offset +
         What.stride() - 1) /
                What.stride() -
            Begin,
        0, End - Begin));
  const State &S = Exec.state();
  const Shard &Own = S.shard(P.bucket);
  int64_t First = Bounds[static_cast<size_t>(S.rank())];
  int64_t Last = Bounds[static_cast<size_t>(S.rank()) + 1];
  const float *Part = nullptr;
  if (First < Last)
    Part =
        read(Own, What, (P.offset - Own.Begin) / What.stride() + Begin + First,
             Last - First, OwnPart);
  if (S.rank() == 0)
    Buffer.resize(static_cast<size_t>(End - Begin));
  Exec.collectives->gather(Part, Buffer.data(), Bounds.data());
  return Buffer.data();
}
