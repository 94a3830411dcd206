//===- State.h - What a rank holds of the trained state ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STATE_H
#define POPLAR_RUNTIME_STATE_H

#include "Poplar/Runtime/ABI.h"
#include "comm/Wire.h"
#include "program/Quantized.h"

#include <functional>
#include <vector>

namespace poplar::runtime {

class Executor;

/// The elements [Begin, End) of a bucket, which the rank updates. The arrays
/// start at element Begin; their addresses, but that of Residual, are the
/// device's.
struct Shard {
  int64_t Begin, End;
  float *Master, *Gradient;
  /// Moments of the first `BlockStates` elements are in blocks; in f32 those of
  /// the others.
  int64_t BlockStates;
  MomentBlocks Blocks1, Blocks2;
  float *Moment1, *Moment2;
  /// Working copy; the master itself where that is in f32. Of a frozen bucket
  /// the other arrays are null, but for a master in f32. Of a quantised one it
  /// is bytes.
  char *Working;
  /// The error feedback of lossy reductions (docs/lossy-wires.md), in the
  /// host's memory; not in checkpoints. Null for exact ones.
  float *Residual;

  int64_t size() const { return End - Begin; }
  /// The address of an element of the shard in one of the f32 arrays.
  float *find(float *Shard::*Array, int64_t Element) const {
    bool IsMoment = Array == &Shard::Moment1 || Array == &Shard::Moment2;
    return this->*Array + (Element - (IsMoment ? BlockStates : 0));
  }
};

/// A part of a parameter that lies in the rank's shard: its elements, or bytes
/// if it is quantised, [Begin, End), the first of which is element `Offset` of
/// the shard.
struct Piece {
  int64_t Parameter, Begin, End, Offset;
};

/// Whether masters are apart from working copies.
inline bool hasOwnMaster(const PoplarProgram &Program,
                         const PoplarBucket &Bucket) {
  return !Bucket.frozen &&
         (Program.working_type != POPLAR_F32 || Bucket.own_master);
}

/// Ranks of a shard group: all, unless the plan has replicas.
inline int64_t getShardGroupSize(const PoplarProgram &Program) {
  return Program.world_size / Program.replicas;
}

/// Whether ranks of the plan share units, so that none has all parameters.
bool sharesUnits(const PoplarProgram &Program);
/// Whether each rank has the whole model: before stage 3, if it is no stage of
/// a pipeline and shares no units.
bool hasWholeModel(const PoplarProgram &Program);

/// Lays the rank's shards out behind the batch region, as Runtime/ABI.h says,
/// and knows where everything is.
class State {
public:
  State(const PoplarProgram &Program, int Rank);

  /// Memory for all that is not whole on every rank.
  int64_t shardBytes() const { return ShardBytes; }
  void bind(char *Arena, char *ShardMemory);

  int rank() const { return Rank; }
  /// Whether every rank has all of everything.
  bool isReplicated() const {
    return Program.world_size == 1 ||
           (Program.stage == 0 && !Program.pipeline && !sharesUnits(Program));
  }
  /// Whether the rank is of those that hold a bucket, and whether each of them
  /// has all of it.
  bool holds(int64_t Bucket) const;
  bool isWhole(int64_t Bucket) const {
    return Program.world_size == 1 || Program.buckets[Bucket].stage == 0;
  }
  /// Whether the rank is the first of those that hold the elements of its
  /// shard.
  bool leads(int64_t Bucket) const;
  const Shard &shard(int64_t Bucket) const {
    return Shards[static_cast<size_t>(Bucket)];
  }
  /// The parts of parameters in a shard, in order.
  const std::vector<Piece> &pieces(int64_t Bucket) const {
    return Pieces[static_cast<size_t>(Bucket)];
  }
  /// The whole working copy of a parameter, null where it is sharded.
  char *working(const PoplarParameter &P) const;
  /// Whether moments of a parameter are in blocks: not those of a part that
  /// cuts blocks of its tensor.
  bool hasBlockStates(const PoplarParameter &P) const;
  /// Bits of an element of those of large parameters: 8, 4, or 0 for f32.
  int32_t getStateBits() const { return StateBits; }

private:
  /// Elements of a bucket, from its start on, whose moments are in blocks.
  int64_t countBlockStates(int64_t Bucket) const;

  const PoplarProgram &Program;
  int Rank;
  int32_t StateBits;
  int64_t ShardBytes = 0;
  char *Arena = nullptr;
  /// Until bind(), offsets in the shard memory or -1.
  std::vector<Shard> Shards;
  std::vector<std::vector<Piece>> Pieces;
  /// Residuals of a GPU's rank.
  std::vector<std::vector<float>> OwedOnHost;
};

/// The type in which collectives carry elements of a PoplarType that is not
/// quantised.
comm::Type getWireType(int32_t Type);
/// Bytes of such an element.
int64_t getTypeBytes(int32_t Type);
/// PoplarType of the elements of a bucket's working copy.
int32_t getWorkingType(const PoplarProgram &Program, int64_t Bucket);
/// Blocks of moments of so many elements.
inline int64_t countStateBlocks(int64_t Elements) {
  return (Elements + POPLAR_STATE_BLOCK - 1) / POPLAR_STATE_BLOCK;
}
/// Elements of its bucket that a parameter takes.
int64_t countStored(const PoplarParameter &P);

/// Writes elements [Begin, End) of a parameter or a tensor. Ranges of whole
/// ones begin at even elements.
using Filler = std::function<void(float *Out, int64_t Begin, int64_t End)>;

/// Sets elements [Begin, End) of something in the device's memory, of which
/// `To` is the place of element Begin.
void fillArray(Executor &Exec, float *To, int64_t Begin, int64_t End,
               const Filler &Fill);

/// Rounds the host's values to the working type, which is another than f32, and
/// puts them in the device's memory.
void writeWorking(Executor &Exec, char *To, const float *Values, int64_t Count);

/// Sets a parameter, whatever the rank holds of it: its part of the master and
/// the working copies. `FillTensor` gives elements of the tensor of which it
/// may be a part. Quantises it, if it is to be; throws an Error if it is not
/// finite then.
void fillParameter(Executor &Exec, int64_t Parameter, const Filler &FillTensor);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STATE_H
