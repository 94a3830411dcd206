//===- State.cpp - What a rank holds of the trained state -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/State.h"
#include "Poplar/Runtime/Alignment.h"
#include "program/Executor.h"
#include "program/QuantizedParts.h"
#include "program/Tensors.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;

comm::Type poplar::runtime::getWireType(int32_t Type) {
  return Type == POPLAR_BYTES ? comm::Type::Raw8
                              : static_cast<comm::Type>(Type);
}

int64_t poplar::runtime::getTypeBytes(int32_t Type) {
  return comm::getBytes(getWireType(Type));
}

int32_t poplar::runtime::getWorkingType(const PoplarProgram &Program,
                                        int64_t Bucket) {
  return Program.buckets[Bucket].quantized ? POPLAR_BYTES
                                           : Program.working_type;
}

int64_t poplar::runtime::countStored(const PoplarParameter &P) {
  return P.quantized
             ? poplar_quantized_layout(P.quantized, P.shape[0], P.shape[1])
                   .bytes
             : P.elements;
}

State::State(const PoplarProgram &Program, int Rank)
    : Program(Program), Rank(Rank), StateBits(Program.model->state_bits) {
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    Shard S = {};
    if (holds(B)) {
      int64_t Place = Rank % getShardGroupSize(Program);
      S.Begin = isWhole(B) ? 0 : Bucket.bounds[Place];
      S.End = isWhole(B) ? Bucket.elements : Bucket.bounds[Place + 1];
      S.BlockStates =
          std::max<int64_t>(std::min(countBlockStates(B), S.End) - S.Begin, 0);
    }
    Shards.push_back(S);
  }
  Pieces.resize(Shards.size());
  OwedOnHost.resize(Shards.size());
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    const Shard &S = shard(P.bucket);
    int64_t Begin = std::max(P.offset, S.Begin),
            End = std::min(P.offset + countStored(P), S.End);
    if (Begin < End)
      Pieces[static_cast<size_t>(P.bucket)].push_back(
          {I, Begin - P.offset, End - P.offset, Begin - S.Begin});
  }
  for (std::vector<Piece> &List : Pieces)
    std::sort(List.begin(), List.end(), [](const Piece &A, const Piece &B) {
      return A.Offset < B.Offset;
    });
  bind(nullptr, nullptr); // for the size
}

bool State::hasBlockStates(const PoplarParameter &P) const {
  int64_t Elements = P.elements;
  if (const PoplarSlice *S = P.slice) {
    if (poplar_cuts_blocks(S->rank, S->shape, S->dim, S->num_ranges, S->ranges,
                           POPLAR_STATE_BLOCK))
      return false;
    Elements = 1;
    for (int64_t D = 0; D < S->rank; ++D)
      Elements *= S->shape[D];
  }
  return !Program.buckets[P.bucket].frozen &&
         poplar_has_block_states(StateBits, Elements);
}

int64_t State::countBlockStates(int64_t Bucket) const {
  int64_t Result = 0;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    if (P.bucket == Bucket && hasBlockStates(P))
      Result = std::max(Result, P.offset + countStateBlocks(P.elements) *
                                               POPLAR_STATE_BLOCK);
  }
  return Result;
}

bool poplar::runtime::hasWholeModel(const PoplarProgram &Program) {
  return Program.world_size == 1 ||
         (Program.stage < 3 && !Program.pipeline && !sharesUnits(Program));
}

bool poplar::runtime::sharesUnits(const PoplarProgram &Program) {
  for (int64_t R = 0; Program.ranks && R < Program.world_size; ++R)
    if (Program.ranks[R].num_sharers > 1)
      return true;
  return false;
}

bool State::holds(int64_t Bucket) const {
  const PoplarBucket &B = Program.buckets[Bucket];
  return !B.ranks || std::binary_search(B.ranks, B.ranks + B.num_ranks, Rank);
}

bool State::leads(int64_t Bucket) const {
  const PoplarBucket &B = Program.buckets[Bucket];
  if (isWhole(Bucket))
    return Rank == (B.ranks ? B.ranks[0] : 0);
  return Rank < getShardGroupSize(Program);
}

void State::bind(char *NewArena, char *ShardMemory) {
  Arena = NewArena;
  ShardBytes = 0;
  auto Place = [&](int64_t Bytes) {
    char *Address = ShardMemory ? ShardMemory + ShardBytes : nullptr;
    ShardBytes += poplar_align(Bytes);
    return Address;
  };
  auto PlaceF32 = [&](int64_t Elements) {
    return reinterpret_cast<float *>(Place(Elements * 4));
  };
  for (size_t B = 0; B < Shards.size(); ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    int32_t Type = getWorkingType(Program, static_cast<int64_t>(B));
    bool IsF32 = Type == POPLAR_F32;
    int64_t Width = getTypeBytes(Type);
    Shard &S = Shards[B];
    S.Working = Bucket.working < 0 ? Place(S.size() * Width)
                                   : Arena + Bucket.working + S.Begin * Width;
    if (Bucket.frozen) {
      S.Master = IsF32 ? reinterpret_cast<float *>(S.Working) : nullptr;
      continue;
    }
    S.Master = hasOwnMaster(Program, Bucket)
                   ? PlaceF32(S.size())
                   : reinterpret_cast<float *>(S.Working);
    S.Gradient =
        Bucket.gradient < 0
            ? PlaceF32(S.size())
            : reinterpret_cast<float *>(Arena + Bucket.gradient) + S.Begin;
    for (auto [Blocks, Moment] : {std::pair(&S.Blocks1, &S.Moment1),
                                  std::pair(&S.Blocks2, &S.Moment2)}) {
      char *Codes = Place(poplar_state_bytes(StateBits, S.BlockStates));
      *Blocks = {
          reinterpret_cast<uint8_t *>(Codes),
          reinterpret_cast<float *>(Codes + S.BlockStates * StateBits / 8),
          StateBits};
      *Moment = PlaceF32(S.size() - S.BlockStates);
    }
    if (!Bucket.residuals)
      continue;
    int64_t Owed = Bucket.residuals[Rank];
    if (!Program.gpu) {
      S.Residual = PlaceF32(Owed);
      continue;
    }
    // Sums are the host's.
    if (NewArena)
      OwedOnHost[B].resize(static_cast<size_t>(Owed));
    S.Residual = OwedOnHost[B].data();
  }
}

char *State::working(const PoplarParameter &P) const {
  int64_t Offset = Program.buckets[P.bucket].working;
  if (Offset < 0)
    return nullptr;
  return Arena + Offset +
         P.offset * getTypeBytes(getWorkingType(Program, P.bucket));
}

/// Fills a buffer with elements [Begin, End), block by block, for `Take`.
template <typename Taker>
static void fillBlocks(int64_t Begin, int64_t End, const Filler &Fill,
                       Taker &&Take) {
  // Even: so that every block begins at an even element if the first does.
  constexpr int64_t Block = 1 << 20;
  std::vector<float> Buffer(static_cast<size_t>(std::min(Block, End - Begin)));
  for (int64_t First = Begin; First < End; First += Block) {
    int64_t Last = std::min(First + Block, End);
    Fill(Buffer.data(), First, Last);
    Take(Buffer.data(), First - Begin, Last - First);
  }
}

void poplar::runtime::fillArray(Executor &Exec, float *To, int64_t Begin,
                                int64_t End, const Filler &Fill) {
  Device &Dev = Exec.device();
  if (Dev.sharesMemory())
    return Fill(To, Begin, End);
  fillBlocks(Begin, End, Fill,
             [&](const float *Values, int64_t Offset, int64_t Count) {
               Dev.copyIn(To + Offset, Values, Count * 4);
             });
}

void poplar::runtime::writeWorking(Executor &Exec, char *To,
                                   const float *Values, int64_t Count) {
  Device &Dev = Exec.device();
  if (Dev.sharesMemory())
    return Dev.convertWorking(Values, To, Count);
  auto Type = static_cast<comm::Type>(Exec.program().working_type);
  std::vector<char> Buffer(static_cast<size_t>(Count * comm::getBytes(Type)));
  comm::convert(Values, comm::Type::F32, Buffer.data(), Type, Count);
  Dev.copyIn(To, Buffer.data(), static_cast<int64_t>(Buffer.size()));
}

/// Quantises the whole tensor on the host, whatever part of it the rank has.
static void fillQuantized(Executor &Exec, int64_t Parameter,
                          const Filler &FillTensor) {
  const PoplarParameter &P = Exec.program().parameters[Parameter];
  const State &S = Exec.state();
  std::vector<Piece> Parts = {{Parameter, 0, countStored(P), 0}};
  char *To = S.working(P);
  if (!To) {
    To = S.shard(P.bucket).Working;
    Parts.clear();
    for (const Piece &Part : S.pieces(P.bucket))
      if (Part.Parameter == Parameter)
        Parts.push_back(Part);
  }
  if (Parts.empty())
    return;
  const int64_t *Shape = P.slice ? P.slice->shape : P.shape;
  std::vector<float> Values(static_cast<size_t>(Shape[0] * Shape[1]));
  FillTensor(Values.data(), 0, Shape[0] * Shape[1]);
  std::vector<char> Bytes =
      quantizeParameter(P, Exec.model().frozen_type, Values);
  if (Bytes.empty())
    fail("'", P.slice ? P.slice->tensor : P.name,
         "' has values that are not finite, which cannot be "
         "quantised");
  for (const Piece &Part : Parts)
    Exec.device().copyIn(To + Part.Offset, Bytes.data() + Part.Begin,
                         Part.End - Part.Begin);
}

void poplar::runtime::fillParameter(Executor &Exec, int64_t Parameter,
                                    const Filler &FillTensor) {
  const PoplarProgram &Program = Exec.program();
  const PoplarParameter &P = Program.parameters[Parameter];
  const State &S = Exec.state();
  if (!S.holds(P.bucket))
    return;
  if (P.quantized)
    return fillQuantized(Exec, Parameter, FillTensor);
  auto Fill = [&](float *Out, int64_t Begin, int64_t End) {
    forEachRun(P, Begin, End, [&](int64_t At, int64_t Offset, int64_t Count) {
      FillTensor(Out + Offset, At, At + Count);
    });
  };
  bool IsF32 = Program.working_type == POPLAR_F32;
  char *Working = S.working(P);
  if (IsF32 && Working) {
    fillArray(Exec, reinterpret_cast<float *>(Working), 0, P.elements, Fill);
    if (!hasOwnMaster(Program, Program.buckets[P.bucket]))
      return;
  }

  const Shard &Own = S.shard(P.bucket);
  std::vector<Piece> Parts;
  for (const Piece &Part : S.pieces(P.bucket))
    if (Part.Parameter == Parameter)
      Parts.push_back(Part);
  bool IsWhole =
      Parts.size() == 1 && Parts[0].Begin == 0 && Parts[0].End == P.elements;
  if (Program.buckets[P.bucket].frozen && !IsF32) {
    auto Write = [&](char *To, int64_t Begin, int64_t End) {
      fillBlocks(Begin, End, Fill,
                 [&](const float *Values, int64_t Offset, int64_t Count) {
                   writeWorking(Exec, To + Offset * 2, Values, Count);
                 });
    };
    if (Working)
      return Write(Working, 0, P.elements);
    for (const Piece &Part : Parts)
      Write(Own.Working + Part.Offset * 2, Part.Begin, Part.End);
    return;
  }
  if (IsF32 || !Working || IsWhole) {
    for (const Piece &Part : Parts) {
      float *Master = Own.Master + Part.Offset;
      int64_t Count = Part.End - Part.Begin;
      fillArray(Exec, Master, Part.Begin, Part.End, Fill);
      if (!IsF32)
        Exec.device().convertWorking(
            Master, Working ? Working : Own.Working + Part.Offset * 2, Count);
    }
    return;
  }
  // The whole working copy beside a part of the master: made once for both.
  fillBlocks(0, P.elements, Fill,
             [&](const float *Values, int64_t Offset, int64_t Count) {
               writeWorking(Exec, Working + Offset * 2, Values, Count);
               for (const Piece &Part : Parts) {
                 int64_t Begin = std::max(Part.Begin, Offset),
                         End = std::min(Part.End, Offset + Count);
                 if (Begin < End)
                   Exec.device().copyIn(
                       Own.Master + Part.Offset + (Begin - Part.Begin),
                       Values + (Begin - Offset), (End - Begin) * 4);
               }
             });
}
