//===- GGUFModel.h - Models in the words of llama.cpp -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GGUFMODEL_H
#define POPLAR_RUNTIME_GGUFMODEL_H

#include "checkpoint/Safetensors.h"
#include "gguf/GGUFFile.h"
#include "program/ModelInfo.h"

#include <string>
#include <vector>

namespace poplar::runtime {

/// Puts a model into a GGUF file: how llama.cpp is to compute it, and its
/// tensors by the names, and in the order of rows, that llama.cpp wants.
/// Matrices are stored as `Format`, all others as f32. `Tensors` must outlive
/// the file. Returns notes for people. An Error names what of the model
/// llama.cpp cannot compute.
std::vector<std::string>
describeGGUFModel(const ModelInfo &Model,
                  const std::vector<TensorSource> &Tensors, GGUFFormat Format,
                  GGUFFile &File);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GGUFMODEL_H
