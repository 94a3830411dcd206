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

  AdapterInfo() = default;
  explicit AdapterInfo(const PoplarModel &Model);
};

/// What a program says about its model.
struct ModelInfo {
  explicit ModelInfo(const PoplarProgram &Program);

  std::string Architecture, Config, Precision, DeviceType;
  /// What decides the function, for checkModelConfig; empty if unknown.
  std::string ConfigFacts;
  bool Masked = false;
  /// Documents share samples.
  bool Packed = false;
  /// Gradients carry a loss scale: the program, or another stage of its
  /// pipeline, keeps them in f16.
  bool Scaled = false;
  int64_t VocabSize = 0, SeqLen = 0;
  /// Columns of the logits that the program computes: fewer than the vocabulary
  /// where ranks share units, each of which has a part, in the order of
  /// positions.
  int64_t LogitsColumns = 0;
  /// The name of the tokenizer's file in the job, and a hash of its content;
  /// empty without one.
  std::string Tokenizer, TokenizerHash;
  /// In a masked model: the token that replaces others, and those that are
  /// never replaced, ascending.
  int64_t MaskToken = 0;
  std::vector<int64_t> SpecialTokens;
  AdapterInfo Adapter;
  /// Where weights lay when the model was imported; empty if there were none.
  std::string WeightsPath;
  /// PoplarType of frozen weights that are quantised; 0 without any.
  int32_t FrozenFormat = 0;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_MODELINFO_H
