//===- StateReader.h - The ranks' state, put together -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STATEREADER_H
#define POPLAR_RUNTIME_STATEREADER_H

#include "checkpoint/Safetensors.h"
#include "program/Executor.h"
#include "program/Tensors.h"

namespace poplar::runtime {

/// Whether the moments of a tensor are in blocks.
bool hasBlockStates(const Executor &Exec, const Tensor &T);

/// Reads whole trained parameters, or what belongs to them, from the ranks'
/// shards.
class StateReader {
public:
  /// Behind the name of a moment in blocks: that of its scales.
  static inline const std::string ScalesSuffix = ".absmax";

  explicit StateReader(const Executor &Exec);

  /// Adds one array of all trained parameters. The sources may be read as long
  /// as the reader lives; all ranks have to read them, and the first one gets
  /// the elements.
  void add(float *Shard::*Array, const std::string &Suffix,
           std::vector<TensorSource> &Out);

  /// Adds a moment of all trained parameters: codes and scales of those that
  /// have it in blocks.
  void addMoment(float *Shard::*Array, MomentBlocks Shard::*Blocks,
                 const std::string &Suffix, std::vector<TensorSource> &Out);

private:
  /// What a checkpoint has of a trained parameter: an array of f32, of which a
  /// rank's part may be in `Blocks`; or of a moment in blocks the codes, a byte
  /// an element, or the scales, one a block.
  struct Field {
    float *Shard::*Array = nullptr;
    MomentBlocks Shard::*Blocks = nullptr;
    bool AreScales = false;

    /// Elements of the parameter between two of the array.
    int64_t stride() const { return AreScales ? POPLAR_STATE_BLOCK : 1; }
    bool isBytes() const { return !Array && !AreScales; }
  };

  void addField(const Tensor &T, const Field &What, const std::string &Suffix,
                std::vector<TensorSource> &Out);
  /// Elements of a tensor of which the ranks have parts.
  const float *assemble(const Tensor &T, const Field &What, int64_t Begin,
                        int64_t End);
  /// `Count` of a field, from number `First` of the shard on: themselves, or a
  /// copy in `Copy`.
  const float *read(const Shard &Own, const Field &What, int64_t First,
                    int64_t Count, std::vector<float> &Copy);
  const float *gather(const PoplarParameter &P, const Field &What,
                      int64_t Begin, int64_t End);
  /// A moment in blocks, as f32.
  const float *gatherWidened(const PoplarParameter &P,
                             MomentBlocks Shard::*Blocks, int64_t Begin,
                             int64_t End);

  const Executor &Exec;
  /// The trained tensors.
  std::vector<Tensor> Tensors;
  std::vector<float> Buffer, OwnPart, Assembled, Widened;
  std::vector<uint8_t> Packed, Codes;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STATEREADER_H
