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
#include "checkpoint/Safetensors.h"
#include "program/ModelInfo.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace poplar::runtime {

/// The names of the two files.
inline constexpr const char *AdapterConfigName = "adapter_config.json",
                            *AdapterWeightsName = "adapter_model.safetensors";

/// A tensor's name in adapter_model.safetensors; of a model of text, that of
/// the larger model's adapter (TextNames.h).
std::string getAdapterName(const std::string &Tensor, bool IsMultimodal);
/// The opposite. Empty if the name is none of an adapter.
std::string getAdaptedTensor(const std::string &Name);

/// The text of adapter_config.json; `Base` is the directory of the model.
std::string formatAdapterConfig(const AdapterInfo &Info,
                                const std::string &Base);

/// What adapter_config.json in `Directory` says. An Error names a member that
/// asks for more than LoRA, or that is unknown and set.
AdapterInfo readAdapterConfig(const std::string &Directory);

/// The weights of the adapter in `Directory`, all of which are of modules that
/// its configuration names.
TensorFiles openAdapter(const AdapterInfo &Info, const std::string &Directory);

/// The module that a tensor of an adapter belongs to; empty for other tensors.
std::string getAdaptedModule(const std::string &Tensor);

/// Fails unless an adapter, `Given` and its weights, computes what that of a
/// program does, `Info` and the names of its tensors. The Error says how to
/// import the model for it.
void checkAdapterConfig(const AdapterInfo &Info, const AdapterInfo &Given,
                        const TensorFiles &Files,
                        const std::vector<std::string> &Tensors,
                        const std::string &Directory);

/// The base model that adapter_config.json names; empty if it names none.
std::string readAdapterBase(const std::string &Directory);

/// The weights of the model at `Base` with the adapter in `Directory` added to
/// them, or with the weights there in place of its own. Weights that `Program`
/// holds quantised are as rounded as there. They are computed where they are
/// read, each tensor from its first element on.
class MergedModel {
public:
  MergedModel(const PoplarProgram &Program, const std::string &Base,
              const std::string &Directory);
  ~MergedModel();
  MergedModel(const MergedModel &) = delete;
  MergedModel &operator=(const MergedModel &) = delete;

  const std::vector<TensorSource> &tensors() const;
  /// How many of them have an adapter.
  size_t getNumUpdated() const;
  /// How many were trained as a whole.
  size_t getNumReplaced() const;
  /// The config.json in place of the model's, which is of packed experts. Empty
  /// where the model's own serves.
  const std::string &getConfig() const;
  /// Names of the formats of the model's weights: "BF16, F32".
  std::string listFormats() const;

private:
  struct Parts;
  std::unique_ptr<Parts> The;
};

/// Writes a MergedModel to the directory `Out`, which transformers can open.
void mergeRun(const PoplarProgram &Program, const std::string &Base,
              const std::string &Directory, const std::string &Out);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ADAPTER_H
