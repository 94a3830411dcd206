//===- GGUFFamily.h - Families that llama.cpp has ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GGUFFAMILY_H
#define POPLAR_RUNTIME_GGUFFAMILY_H

#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

/// A module of a model, and what llama.cpp calls it. A `#` in `From` stands for
/// the number of an expert, whose matrices become one tensor.
struct GGUFModule {
  const char *From, *To;
  /// Whether llama.cpp adds a bias there.
  bool HasBias = false;
};

/// One row of the table of families.
struct GGUFFamily {
  /// The family, as `model_type` of config.json names it, and as llama.cpp
  /// does.
  const char *Type, *Architecture;
  /// Modules of the whole model, and those of each layer, which follow
  /// `Layers` and a number.
  const char *Layers;
  std::vector<GGUFModule> Whole, PerLayer;
  /// The key of the activation, and the names for the one that llama.cpp has.
  const char *ActivationKey;
  std::vector<const char *> Activations;
  /// Its rotation turns neighbours in place of halves: rows of q and k change
  /// places.
  bool RotatesNeighbours = false;
  /// Norms multiply by 1 + their weight, llama.cpp by the weight.
  bool HasNormOffset = false;
  /// Matrices of layers are stored as [in, out].
  bool IsInOut = false;
  /// q, k and v of each head lie together, and are to be apart.
  bool InterleavesHeads = false;
  /// llama.cpp wants a matrix of its own for logits.
  bool NeedsOutput = false;
  bool HasLayerNorm = false;
  /// The key of the epsilon of norms.
  const char *EpsilonKey = "rms_norm_eps";
};

/// Null if llama.cpp has none of that name.
const GGUFFamily *findGGUFFamily(std::string_view Type);
/// "gemma, gemma2, ...".
std::string listGGUFFamilies();

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GGUFFAMILY_H
