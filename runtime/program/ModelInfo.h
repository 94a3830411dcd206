//===- ModelInfo.h - The model that a program is of -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_MODELINFO_H
#define POPLAR_RUNTIME_MODELINFO_H

#include "Poplar/Runtime/ABI.h"

#include <cstdint>
#include <string>
#include <vector>

namespace poplar::runtime {

/// The LoRA adapters of a program. A rank of 0 means none.
struct AdapterInfo {
  int64_t Rank = 0;
  double Alpha = 0, Dropout = 0;
  bool Masked = false;
  /// Weights that are adapted are stored as [in, out] (GPT-2).
  bool InOut = false;
  /// Names of modules, or their last components; empty if the configuration
  /// has an expression.
  std::vector<std::string> Targets;
  /// Modules that Targets name and that have no adapter.
  std::vector<std::string> Excluded;
  /// The model is the part of a larger one that is under `language_model`.
  bool IsMultimodal = false;
  /// Last components of the names of modules that are trained as a whole.
  std::vector<std::string> Saved;

  AdapterInfo() = default;
  explicit AdapterInfo(const PoplarModel &Model);
};

/// What a program says about its model: the fields of PoplarModel (ABI.def),
/// and what follows from them.
struct ModelInfo : PoplarModel {
  /// Throws if the program is of another version, or damaged.
  explicit ModelInfo(const PoplarProgram &Program);

  /// The number format and the device type of the program.
  std::string Precision, DeviceType;
  /// In a masked model: the tokens that are never replaced, mask_token among
  /// them, ascending.
  std::vector<int64_t> SpecialTokens;
  AdapterInfo Adapter;
  /// The `model_type` of the configuration; empty if the model has none.
  std::string ModelType;
  /// The architecture whose model of text this is; empty if the model is whole.
  std::string Multimodal;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_MODELINFO_H
