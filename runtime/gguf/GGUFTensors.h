//===- GGUFTensors.h - Tensors in the words of llama.cpp --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GGUFTENSORS_H
#define POPLAR_RUNTIME_GGUFTENSORS_H

#include "checkpoint/Safetensors.h"
#include "gguf/GGUFFamily.h"
#include "gguf/GGUFFile.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace poplar::runtime {

struct GGUFHeads {
  int64_t Queries, KeysAndValues;
};

/// The tensors of a model of a family, on their way into a GGUF file.
class GGUFTensors {
public:
  /// `IsTied` says that logits come from the embedding: a matrix of their own,
  /// which some files have nevertheless, is left out.
  GGUFTensors(const GGUFFamily &Family, GGUFHeads Heads, int64_t NumLayers,
              bool IsTied)
      : Family(Family), Heads(Heads), NumLayers(NumLayers), IsTied(IsTied) {}

  /// Takes a tensor, which must outlive the file. An Error if llama.cpp has no
  /// place for it.
  void take(const TensorSource &Tensor);
  /// Adds what was taken to a file. Returns the number of matrices that are
  /// f16 because Q8_0 wants rows of a multiple of 32.
  int64_t addTo(GGUFFile &File, GGUFFormat Format) const;

private:
  /// Where a tensor belongs: the layer, or -1; the row of the table; and
  /// whether it is a bias.
  using Place = std::tuple<int64_t, size_t, bool>;
  /// By number of expert, or one.
  using Parts = std::map<int64_t, const TensorSource *>;

  bool place(const std::string &Name, const std::vector<GGUFModule> &Modules,
             int64_t Layer, const TensorSource &Tensor);
  GGUFTensor make(const Place &Where, const Parts &Which,
                  GGUFFormat Format) const;

  const GGUFFamily &Family;
  const GGUFHeads Heads;
  const int64_t NumLayers;
  const bool IsTied;
  std::map<Place, Parts> Taken;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GGUFTENSORS_H
