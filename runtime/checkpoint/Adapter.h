//===- Adapter.h - Directories of PEFT --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LoRA adapters as Hugging Face PEFT keeps them: adapter_config.json and
// adapter_model.safetensors. A checkpoint of a program with adapters is such a
// directory.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ADAPTER_H
#define POPLAR_RUNTIME_ADAPTER_H

#include "Poplar/Runtime/ABI.h"
#include "support/JSON.h"

#include <cstdint>
#include <string>
#include <vector>

namespace poplar::runtime {

/// Of a program; a rank of 0 is no adapters.
struct AdapterInfo {
  int64_t Rank = 0;
  double Alpha = 0, Dropout = 0;
  bool Masked = false;
  /// Weights that are adapted are stored as [in, out] (GPT-2).
  bool InOut = false;
  std::vector<std::string> Targets;

  AdapterInfo() = default;
  /// From the description of a program.
  explicit AdapterInfo(const json::Value &Description);
};

/// The names of the two files.
inline constexpr const char *AdapterConfigName = "adapter_config.json",
                            *AdapterWeightsName = "adapter_model.safetensors";

/// A tensor's name in adapter_model.safetensors.
std::string getAdapterName(const std::string &Tensor);

/// The text of adapter_config.json; `Base` is the directory of the model.
std::string formatAdapterConfig(const AdapterInfo &Info,
                                const std::string &Base);

/// What adapter_config.json in `Directory` says, as far as merging depends on
/// it. An Error names a key that asks for more than LoRA.
AdapterInfo readAdapterConfig(const std::string &Directory);

/// Fails unless the adapter in `Directory` computes what those of the program
/// do.
void checkAdapterConfig(const AdapterInfo &Info, const std::string &Directory);

/// The base model that adapter_config.json names; empty if it names none.
std::string readAdapterBase(const std::string &Directory);

/// Writes the model at `Base` with the adapter in `Directory` added to its
/// weights to the directory `Out`, which transformers can open. Weights that
/// `Program` holds quantised are as rounded as there.
void mergeAdapter(const PoplarProgram &Program, const std::string &Base,
                  const std::string &Directory, const std::string &Out);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ADAPTER_H
